"""Pass: derive the schemas from the sources down, and check the fields that tasks read against them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice

from dags.canonical.draft import DraftDocument, Wire
from dags.canonical.hooks import ask
from dags.config import Config
from dags.dataflow import JsonField
from dags.problems import MOST_DOCUMENT_PROBLEMS, Problem, listed, pointer, quoted, suggestion
from dags.schema import Kind, Schema, meet
from dags.task_type import AnyTaskType, Read, Schemas, State, Unsuitable

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
