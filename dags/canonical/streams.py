"""Passes over the streams of a document: their ends, the shape that they give the dataflow, and the fields in them.

Every stream is connected to a port at both ends. The dataflow must be a DAG from sources to sinks. Schemas are derived
from the sources down, and the fields that tasks read are checked against them.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import NamedTuple

from dags.canonical.draft import DraftDocument, Wire
from dags.canonical.tasks import ask
from dags.config import Config
from dags.dataflow import JsonField
from dags.document import StreamForm
from dags.problems import MOST_DOCUMENT_PROBLEMS, Problem, listed, pointer, quoted, suggestion
from dags.schema import Kind, Schema, meet
from dags.task_type import AnyTaskType, Read, Schemas, State, Unsuitable


class _End(NamedTuple):
    """One end of a stream: the document's fields for it, its side of a task, and the problem of a task without it."""

    task: str
    port: str
    side: str
    role: str
    code: str


_FROM = _End("from", "from_port", "output", "a sink; sinks have no output", "sink-with-outputs")
_TO = _End("to", "to_port", "input", "a source; sources have no input", "source-with-inputs")


def join_streams(draft: DraftDocument) -> DraftDocument:
    """Replace ids by positions, and name every port. A document may leave out a port that is the only one.

    >>> join_streams(find_types(draft("s:source > a:map > k:sink"))).wires[0]
    Wire(origin=0, from_port='out', to=1, to_port='in')
    >>> join_streams(find_types(draft("s:source > a:map > k:sink a > a"))).problems[0].message
    "the stream leads from 'a' to itself"
    """
    positions: dict[str, int] = {}
    repeated: set[str] = set()
    problems: list[Problem] = []
    for i, task in enumerate(draft.reading.tasks):
        if task is None:
            continue
        if task.id in positions:
            repeated.add(task.id)
            problems.append(
                Problem(
                    pointer=pointer("tasks", i, "id"),
                    code="repeated-id",
                    message=f"the id {quoted(task.id)} is already that of task {positions[task.id]}",
                    remedy="give each task its own id",
                )
            )
        positions.setdefault(task.id, i)
    # A stream may mean either of the two, so its end is not checked.
    positions = {name: i for name, i in positions.items() if name not in repeated}
    ambiguous = draft.reading.unreadable_ids | repeated
    wires: list[Wire] = []
    first: dict[Wire, int] = {}
    for i, stream in enumerate(draft.reading.streams):
        if stream is None:
            continue
        joined = _join(i, stream, positions, ambiguous, draft.types)
        if isinstance(joined, Wire):
            if joined in first:
                problems.append(_repeated(i, first[joined]))
            first.setdefault(joined, i)
            wires.append(joined)
        else:
            problems += joined
    return replace(draft, wires=tuple(wires), problems=(*draft.problems, *problems))


def _join(
    i: int,
    stream: StreamForm,
    positions: Mapping[str, int],
    ambiguous: Container[str],
    types: Sequence[AnyTaskType | None],
) -> Wire | list[Problem]:
    problems: list[Problem] = []
    found: list[tuple[int, str]] = []
    for end, task, port in ((_FROM, stream.origin, stream.from_port), (_TO, stream.to, stream.to_port)):
        if task not in positions:
            if task not in ambiguous:
                problems.append(_unknown_task(i, end, task))
        elif (kind := types[positions[task]]) is not None:
            named = _port(i, end, task, kind, port)
            if isinstance(named, Problem):
                problems.append(named)
            else:
                found.append((positions[task], named))
    if stream.origin == stream.to and stream.to not in ambiguous:
        problems.append(
            Problem(
                pointer=pointer("streams", i),
                code="self-loop",
                message=f"the stream leads from {quoted(stream.to)} to itself",
                remedy="remove it; a dataflow has no cycles",
            )
        )
    if problems or len(found) < 2:  # noqa: PLR2004 - a stream has two ends
        return problems
    (origin, from_port), (to, to_port) = found
    return Wire(origin, from_port, to, to_port)


def _port(i: int, end: _End, task: str, kind: AnyTaskType, named: str | None) -> str | Problem:
    ports = kind.outputs if end is _FROM else kind.inputs
    if not ports:
        return Problem(
            pointer=pointer("streams", i, end.task),
            code=end.code,
            message=f"the task {quoted(task)} is {end.role}",
            remedy="remove the stream, or change the task's type",
        )
    if named is None:
        if len(ports) == 1:
            return ports[0]
        return Problem(
            pointer=pointer("streams", i),
            code="missing-port",
            message=f"the task {quoted(task)} has several {end.side} ports, and the stream names none",
            remedy=f"add {quoted(end.port)}, one of {listed(ports)}",
        )
    if named in ports:
        return named
    return Problem(
        pointer=pointer("streams", i, end.port),
        code="unknown-port",
        message=f"the task {quoted(task)} of type {quoted(kind.name)} has no {end.side} port {quoted(named)}",
        remedy=suggestion(named, ports, f"it has {listed(ports)}"),
    )


def _unknown_task(i: int, end: _End, task: str) -> Problem:
    return Problem(
        pointer=pointer("streams", i, end.task),
        code="unknown-task",
        message=f"no task has the id {quoted(task)}",
        remedy="correct the id, or add the task",
    )


def _repeated(i: int, first: int) -> Problem:
    return Problem(
        pointer=pointer("streams", i),
        code="repeated-stream",
        message=f"the stream repeats stream {first}: it connects the same tasks and ports",
        remedy="remove one of the two",
    )


def check_shape(draft: DraftDocument) -> DraftDocument:
    """Order the tasks, and find cycles, missing ends, dead ends and input ports without a stream.

    >>> from dags.canonical import join_streams
    >>> check_shape(join_streams(find_types(draft("s:source > a:map > k:sink")))).order
    (0, 1, 2)
    >>> check_shape(join_streams(find_types(draft("s:source > k:sink a:map > k")))).problems[0].message
    "no source reaches the task 'a'"
    """
    problems: list[Problem] = []
    try:
        order = _order(draft)
    except CycleError as error:
        order = ()
        # The sorter repeats the first task at the end.
        problems.append(_cycle(draft, error.args[1][:-1]))
    # If a type or stream has a problem, an apparent dead end may only be a misspelling.
    if draft.types and None not in draft.types:
        problems += _missing_ends(draft)
        if len(draft.wires) == len(draft.reading.streams):
            problems += _dead_ends(draft)
            problems += _unfed_ports(draft)
    return replace(draft, order=order, problems=(*draft.problems, *problems))


def _order(draft: DraftDocument) -> tuple[int, ...]:
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(draft.reading.tasks)), ()))
    for wire in draft.wires:
        sorter.add(wire.to, wire.origin)
    return tuple(sorter.static_order())


def _missing_ends(draft: DraftDocument) -> Iterable[Problem]:
    kinds = [kind for kind in draft.types if kind is not None]
    for there, what in ((any(k.is_source for k in kinds), "source"), (any(k.is_sink for k in kinds), "sink")):
        if not there:
            yield Problem(
                pointer=pointer("tasks"),
                code=f"no-{what}",
                message=f"the dataflow has no {what}",
                remedy=f"add a task of a {what} type",
            )


def _dead_ends(draft: DraftDocument) -> Iterable[Problem]:
    forward: list[list[int]] = [[] for _ in draft.types]
    backward: list[list[int]] = [[] for _ in draft.types]
    for wire in draft.wires:
        forward[wire.origin].append(wire.to)
        backward[wire.to].append(wire.origin)
    sources = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_source]
    sinks = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_sink]
    reached, reaching = _reach(forward, sources), _reach(backward, sinks)
    for i in range(len(draft.types)):
        name = quoted(_id(draft, i))
        if sources and i not in reached:
            yield _at_task(
                i, "unreached-task", f"no source reaches the task {name}", "connect it to a source, or remove it"
            )
        if sinks and i not in reaching:
            message = f"the task {name} reaches no sink"
            yield _at_task(i, "fruitless-task", message, "connect it to a sink, or remove it")


def _unfed_ports(draft: DraftDocument) -> Iterable[Problem]:
    fed: list[set[str]] = [set() for _ in draft.types]
    for wire in draft.wires:
        fed[wire.to].add(wire.to_port)
    for i, kind in enumerate(draft.types):
        if kind is not None and fed[i]:
            for port in kind.inputs:
                if port not in fed[i] and port not in kind.optional:
                    yield _at_task(
                        i,
                        "unfed-port",
                        f"no stream enters port {quoted(port)} of the task {quoted(_id(draft, i))}",
                        "add one; an input port needs a stream unless it is optional",
                    )


def _reach(neighbours: Sequence[Sequence[int]], starts: Iterable[int]) -> set[int]:
    reached = set(starts)
    open_ends = list(reached)
    while open_ends:
        for task in neighbours[open_ends.pop()]:
            if task not in reached:
                reached.add(task)
                open_ends.append(task)
    return reached


def _cycle(draft: DraftDocument, cycle: Sequence[int]) -> Problem:
    names = [_id(draft, i) for i in cycle]
    return _at_task(cycle[0], "cycle", f"the streams form a cycle: {listed(names)}", "remove one of its streams")


def _at_task(task: int, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer("tasks", task), code=code, message=message, remedy=remedy)


def _id(draft: DraftDocument, task: int) -> str:
    form = draft.reading.tasks[task]
    return "" if form is None else form.id


MOST_FIELDS = 250
"""The most fields that a stream may have."""


def check_fields(draft: DraftDocument) -> DraftDocument:
    """Find the fields that are missing upstream, or of another kind.

    >>> understood = fill_configs(find_types(draft("s:source > c:count{'by': 'plce'} > k:sink")))
    >>> check_fields(check_shape(join_streams(find_sources(understood)))).problems[0].remedy
    "did you mean 'place'?"
    """
    problems: list[Problem] = []
    entering: list[list[Wire]] = [[] for _ in draft.types]
    for wire in draft.wires:
        entering[wire.to].append(wire)
    schemas: dict[tuple[int, str], Schema] = {}
    json_fields: dict[int, tuple[JsonField, ...]] = {}
    entered: dict[int, Schemas] = {}
    for i in draft.order:
        kind, config = draft.types[i], draft.configs[i]
        if kind is None or config is None:
            continue
        if (source := draft.registered[i]) is not None:
            schemas |= {(i, port): source.schema for port in kind.outputs}
            continue
        # A stream of unknown schema comes from a task with a problem of its own, which is enough.
        if kind.reads_source or any((wire.origin, wire.from_port) not in schemas for wire in entering[i]):
            continue
        inputs = {
            port: meet(schemas[wire.origin, wire.from_port] for wire in entering[i] if wire.to_port == port)
            for port in {wire.to_port for wire in entering[i]}
        }
        if not _is_fed(kind, inputs, all_joined=len(draft.wires) == len(draft.reading.streams)):
            continue
        entered[i] = inputs
        if nested := _json_fields(inputs):
            json_fields[i] = nested
        outputs = _outputs(i, kind, config, inputs)
        if isinstance(outputs, list):
            problems += outputs
            if len(problems) >= MOST_DOCUMENT_PROBLEMS:
                break
        else:
            schemas |= {(i, port): schema for port, schema in outputs.items()}
    return replace(draft, json_fields=json_fields, schemas=entered, problems=(*draft.problems, *problems))


def _is_fed(kind: AnyTaskType, inputs: Schemas, *, all_joined: bool) -> bool:
    """True if a stream enters every port that needs one. A stream not joined may be that of an optional port."""
    needed = set(kind.inputs) - kind.optional if all_joined else set(kind.inputs)
    return needed <= inputs.keys() and (bool(inputs) or kind.is_source)


def _json_fields(inputs: Schemas) -> tuple[JsonField, ...]:
    return tuple(
        JsonField(port, name)
        for port, schema in sorted(inputs.items())
        for name in sorted(schema.fields)
        if schema.fields[name] is Kind.JSON
    )


def _outputs(i: int, kind: AnyTaskType, config: Config, inputs: Schemas) -> Schemas | list[Problem]:
    lacking = ask(i, kind.name, _all_lacking, i, kind, config, inputs)
    if isinstance(lacking, Problem):
        return [lacking]
    if lacking:
        return lacking
    if kind.is_sink:
        return {}
    outputs = ask(i, kind.name, _given, i, kind, config, inputs)
    if isinstance(outputs, Problem):
        return [outputs]
    unfit = ask(i, kind.name, _unfit, i, kind, outputs)
    return outputs if unfit is None else [unfit]


def _given(i: int, kind: AnyTaskType, config: Config, inputs: Schemas) -> Schemas | Problem:
    try:
        return kind.output_schema(config, inputs)
    except Unsuitable as error:
        place = pointer("tasks", i, "config", *error.at.split("/")) if error.at else pointer("tasks", i)
        return Problem(pointer=place, code="wrong-kind-upstream", message=error.message, remedy=error.remedy)


def _unfit(i: int, kind: AnyTaskType, outputs: Schemas) -> Problem | None:
    if set(outputs) != set(kind.outputs):
        return Problem(
            pointer=pointer("tasks", i),
            code="task-type-failed",
            message=f"the task type {quoted(kind.name)} returned schemas for {listed(outputs)}, not for its ports",
            remedy="report it to the provider of the type",
        )
    if not all(isinstance(schema, Schema) for schema in outputs.values()):
        raise TypeError("output_schema returned something other than a schema")
    most = max(len(schema.fields) for schema in outputs.values())
    if most > MOST_FIELDS:
        return Problem(
            pointer=pointer("tasks", i),
            code="too-many-fields",
            message=f"the events that leave this task have {most:,} fields",
            remedy=f"have at most {MOST_FIELDS:,}",
        )
    return None


def _reads(kind: AnyTaskType, config: Config) -> tuple[Read, ...]:
    reads = kind.reads(config)
    keys: Iterable[str] = kind.key_fields(config) if kind.state is State.KEY else ()
    once: Iterable[str] = (kind.unique_by(config) if kind.unique_by else None) or ()
    for hook, fields in (("key_fields", keys), ("unique_by", once)):
        if isinstance(fields, str):
            raise TypeError(f"{hook} returned a text, not a tuple of field names")
    named = {(read.port, read.field) for read in reads}
    needed = [(port, field) for port in kind.inputs for field in dict.fromkeys((*keys, *once))]
    return (*reads, *(Read(at="", field=field, port=port) for port, field in needed if (port, field) not in named))


def _all_lacking(i: int, kind: AnyTaskType, config: Config, inputs: Schemas) -> list[Problem]:
    lacking = (
        problem
        for read in _reads(kind, config)
        if read.port in inputs or read.port not in kind.optional
        for problem in _lacking(i, read, inputs)
    )
    return list(islice(lacking, MOST_DOCUMENT_PROBLEMS))


def _lacking(i: int, read: Read, inputs: Mapping[str, Schema]) -> Iterable[Problem]:
    schema = inputs[read.port]
    there: Kind | None = schema.fields.get(read.field)
    if there in read.kinds:
        return
    place = pointer("tasks", i, "config", *read.at.split("/")) if read.at else pointer("tasks", i)
    if there is None:
        names = schema.names()
        yield Problem(
            pointer=place,
            code="unknown-field-upstream",
            message=f"the events that reach port {quoted(read.port)} have no field {quoted(read.field)}",
            remedy=suggestion(read.field, names, f"they have {listed(names)}"),
        )
    else:
        yield Problem(
            pointer=place,
            code="wrong-kind-upstream",
            message=f"the field {quoted(read.field)} is of kind {there} at port {quoted(read.port)}",
            remedy=f"choose a field of kind {' or '.join(sorted(read.kinds))}",
        )
