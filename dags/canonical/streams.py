"""Passes over the streams of a document: their ends, the shape that they give the dataflow, and the fields in them.

Every stream is connected to a port at both ends. The dataflow must be a DAG from sources to sinks. Schemas are derived
from the sources down, and the fields that tasks read are checked against them.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain, islice
from typing import NamedTuple

import networkx as nx

from dags.canonical.draft import DraftDocument, Wire
from dags.canonical.tasks import ask, config_place
from dags.config import Config
from dags.dataflow import JsonField
from dags.document import StreamForm
from dags.problems import MOST_DOCUMENT_PROBLEMS, Problem, listed, problem_at, quoted, suggestion
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
            message = f"the id {quoted(task.id)} is already that of task {positions[task.id]}"
            problems.append(problem_at("repeated-id", message, "give each task its own id", "tasks", i, "id"))
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
                message = f"the stream repeats stream {first[joined]}: it connects the same tasks and ports"
                problems.append(problem_at("repeated-stream", message, "remove one of the two", "streams", i))
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
    ends: list[tuple[int, str]] = []
    for end, task, port in ((_FROM, stream.origin, stream.from_port), (_TO, stream.to, stream.to_port)):
        if task not in positions:
            if task not in ambiguous:
                message, remedy = f"no task has the id {quoted(task)}", "correct the id, or add the task"
                problems.append(problem_at("unknown-task", message, remedy, "streams", i, end.task))
        elif (kind := types[positions[task]]) is not None:
            named = _port(i, end, task, kind, port)
            if isinstance(named, Problem):
                problems.append(named)
            else:
                ends.append((positions[task], named))
    if stream.origin == stream.to and stream.to not in ambiguous:
        message = f"the stream leads from {quoted(stream.to)} to itself"
        problems.append(problem_at("self-loop", message, "remove it; a dataflow has no cycles", "streams", i))
    if problems or len(ends) < 2:  # noqa: PLR2004 - a stream has two ends
        return problems
    (origin, from_port), (to, to_port) = ends
    return Wire(origin, from_port, to, to_port)


def _port(i: int, end: _End, task: str, kind: AnyTaskType, named: str | None) -> str | Problem:
    ports = kind.outputs if end is _FROM else kind.inputs
    if not ports:
        message, remedy = f"the task {quoted(task)} is {end.role}", "remove the stream, or change the task's type"
        return problem_at(end.code, message, remedy, "streams", i, end.task)
    if named is None:
        if len(ports) == 1:
            return ports[0]
        message = f"the task {quoted(task)} has several {end.side} ports, and the stream names none"
        return problem_at("missing-port", message, f"add {quoted(end.port)}, one of {listed(ports)}", "streams", i)
    if named in ports:
        return named
    message = f"the task {quoted(task)} of type {quoted(kind.name)} has no {end.side} port {quoted(named)}"
    remedy = suggestion(named, ports, f"it has {listed(ports)}")
    return problem_at("unknown-port", message, remedy, "streams", i, end.port)


def check_shape(draft: DraftDocument) -> DraftDocument:
    """Order the tasks, and find cycles, missing ends, dead ends and input ports without a stream.

    >>> from dags.canonical import join_streams
    >>> check_shape(join_streams(find_types(draft("s:source > a:map > k:sink")))).order
    (0, 1, 2)
    >>> check_shape(join_streams(find_types(draft("s:source > k:sink a:map > k")))).problems[0].message
    "no source reaches the task 'a'"
    """
    problems: list[Problem] = []
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(draft.reading.tasks)), ()))
    for wire in draft.wires:
        sorter.add(wire.to, wire.origin)
    try:
        order = tuple(sorter.static_order())
    except CycleError as error:
        order = ()
        # The sorter repeats the first task at the end.
        cycle = error.args[1][:-1]
        message = f"the streams form a cycle: {listed(_id(draft, i) for i in cycle)}"
        problems.append(problem_at("cycle", message, "remove one of its streams", "tasks", cycle[0]))
    # If a type or stream has a problem, an apparent dead end may only be a misspelling.
    if draft.types and None not in draft.types:
        problems += _missing_ends(draft)
        if len(draft.wires) == len(draft.reading.streams):
            problems += _dead_ends(draft)
            problems += _unfed_ports(draft)
    return replace(draft, order=order, problems=(*draft.problems, *problems))


def _missing_ends(draft: DraftDocument) -> Iterable[Problem]:
    kinds = [kind for kind in draft.types if kind is not None]
    for there, what in ((any(k.is_source for k in kinds), "source"), (any(k.is_sink for k in kinds), "sink")):
        if not there:
            yield problem_at(f"no-{what}", f"the dataflow has no {what}", f"add a task of a {what} type", "tasks")


def _dead_ends(draft: DraftDocument) -> Iterable[Problem]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(draft.types)))
    graph.add_edges_from((wire.origin, wire.to) for wire in draft.wires)
    sources = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_source]
    sinks = [i for i, kind in enumerate(draft.types) if kind is not None and kind.is_sink]
    reached = set(chain.from_iterable(nx.bfs_layers(graph, sources)))
    reaching = set(chain.from_iterable(nx.bfs_layers(graph.reverse(copy=False), sinks)))
    for i in range(len(draft.types)):
        name = quoted(_id(draft, i))
        if sources and i not in reached:
            message, remedy = f"no source reaches the task {name}", "connect it to a source, or remove it"
            yield problem_at("unreached-task", message, remedy, "tasks", i)
        if sinks and i not in reaching:
            message, remedy = f"the task {name} reaches no sink", "connect it to a sink, or remove it"
            yield problem_at("fruitless-task", message, remedy, "tasks", i)


def _unfed_ports(draft: DraftDocument) -> Iterable[Problem]:
    fed: list[set[str]] = [set() for _ in draft.types]
    for wire in draft.wires:
        fed[wire.to].add(wire.to_port)
    for i, kind in enumerate(draft.types):
        if kind is not None and fed[i]:
            for port in kind.inputs:
                if port not in fed[i] and port not in kind.optional:
                    message = f"no stream enters port {quoted(port)} of the task {quoted(_id(draft, i))}"
                    remedy = "add one; an input port needs a stream unless it is optional"
                    yield problem_at("unfed-port", message, remedy, "tasks", i)


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
    leaving: dict[int, Schemas] = {}
    json_fields: dict[int, tuple[JsonField, ...]] = {}
    entered: dict[int, Schemas] = {}
    for i in draft.order:
        kind, config = draft.types[i], draft.configs[i]
        if kind is None or config is None:
            continue
        if (source := draft.registered[i]) is not None:
            leaving[i] = dict.fromkeys(kind.outputs, source.schema)
            continue
        # A stream of unknown schema comes from a task with a problem of its own, which is enough.
        if kind.reads_source or any(wire.origin not in leaving for wire in entering[i]):
            continue
        inputs = {
            port: meet(leaving[wire.origin][wire.from_port] for wire in entering[i] if wire.to_port == port)
            for port in {wire.to_port for wire in entering[i]}
        }
        if not _is_fed(kind, inputs, all_joined=len(draft.wires) == len(draft.reading.streams)):
            continue
        entered[i] = inputs
        if nested := _json_fields(inputs):
            json_fields[i] = nested
        outputs = ask(i, kind.name, _outputs, i, kind, config, inputs)
        if isinstance(outputs, Mapping):
            leaving[i] = outputs
            continue
        problems += [outputs] if isinstance(outputs, Problem) else outputs
        if len(problems) >= MOST_DOCUMENT_PROBLEMS:
            break
    return replace(
        draft, json_fields=json_fields, schemas=entered, leaving=leaving, problems=(*draft.problems, *problems)
    )


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
    lacking = (
        problem
        for read in reads_of(kind, config)
        if read.port in inputs or read.port not in kind.optional
        for problem in _lacking(i, read, inputs)
    )
    if problems := list(islice(lacking, MOST_DOCUMENT_PROBLEMS)):
        return problems
    if kind.is_sink:
        return {}
    try:
        outputs = kind.output_schema(config, inputs)
    except Unsuitable as error:
        return [problem_at("wrong-kind-upstream", error.message, error.remedy, *config_place(i, error.at))]
    if set(outputs) != set(kind.outputs):
        message = f"the task type {quoted(kind.name)} returned schemas for {listed(outputs)}, not for its ports"
        return [problem_at("task-type-failed", message, "report it to the provider of the type", "tasks", i)]
    if not all(isinstance(schema, Schema) for schema in outputs.values()):
        raise TypeError("output_schema returned something other than a schema")
    most = max(len(schema.fields) for schema in outputs.values())
    if most > MOST_FIELDS:
        message = f"the events that leave this task have {most:,} fields"
        return [problem_at("too-many-fields", message, f"have at most {MOST_FIELDS:,}", "tasks", i)]
    return {port: outputs[port] for port in outputs}


def reads_of(kind: AnyTaskType, config: Config) -> tuple[Read, ...]:
    """All fields that a task reads: those that its type says, and those that it needs as keys."""
    reads = kind.reads(config)
    keys: Iterable[str] = kind.key_fields(config) if kind.state is State.KEY else ()
    once: Iterable[str] = (kind.unique_by(config) if kind.unique_by else None) or ()
    for hook, fields in (("key_fields", keys), ("unique_by", once)):
        if isinstance(fields, str):
            raise TypeError(f"{hook} returned a text, not a tuple of field names")
    named = {(read.port, read.field) for read in reads}
    needed = [(port, field) for port in kind.inputs for field in dict.fromkeys((*keys, *once))]
    return (*reads, *(Read(at="", field=field, port=port) for port, field in needed if (port, field) not in named))


def _lacking(i: int, read: Read, inputs: Mapping[str, Schema]) -> Iterable[Problem]:
    schema = inputs[read.port]
    there: Kind | None = schema.fields.get(read.field)
    if there in read.kinds:
        return
    place = config_place(i, read.at)
    if there is None:
        names = schema.names()
        message = f"the events that reach port {quoted(read.port)} have no field {quoted(read.field)}"
        remedy = suggestion(read.field, names, f"they have {listed(names)}")
        yield problem_at("unknown-field-upstream", message, remedy, *place)
    else:
        message = f"the field {quoted(read.field)} is of kind {there} at port {quoted(read.port)}"
        remedy = f"choose a field of kind {' or '.join(sorted(read.kinds))}"
        yield problem_at("wrong-kind-upstream", message, remedy, *place)
