"""The outline of a document that may have problems: what is known of each task, and the part of it that is sound.

An editor shows it while a tenant draws. The sound part has the same signatures as it has in the whole document, since
those of a task depend on nothing below it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dags.canonical.draft import DraftDocument
from dags.canonical.streams import reads_of
from dags.canonical.tasks import ask
from dags.dataflow import Dataflow
from dags.problems import Problem
from dags.schema import Schema, meet
from dags.task_type import Read

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedTask:
    """One task of a document, as far as it is known; made by `tasks_in`."""

    id: str
    inputs: Mapping[str, Schema | None] = field(default_factory=dict)
    """The fields that arrive at each input port; None where nothing does, or nobody knows what."""
    reads: tuple[Read, ...] = ()
    """The fields that it reads; none are known while its config has a problem."""
    outputs: Mapping[str, Schema | None] = field(default_factory=dict)
    """The fields that leave each output port; None while the task or one above it is not sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is known of a document that may have problems; made by `outline`."""

    sound: Dataflow
    """Its sound tasks: those that have all they need, as do all above them. It may lack sinks, or be empty."""
    tasks: tuple[OutlinedTask, ...]
    problems: tuple[Problem, ...]


def tasks_in(draft: DraftDocument) -> Iterator[OutlinedTask]:
    """Yield the tasks of a checked document that could be read, in its order."""
    arriving: dict[tuple[int, str], list[Schema | None]] = {}
    for wire in draft.wires:
        schema = draft.leaving.get(wire.origin, {}).get(wire.from_port)
        arriving.setdefault((wire.to, wire.to_port), []).append(schema)
    for i, form in enumerate(draft.reading.tasks):
        if form is None:
            continue
        kind, config = draft.types[i], draft.configs[i]
        if kind is None:
            yield OutlinedTask(id=form.id)
            continue
        reads = () if config is None else ask(i, kind.name, reads_of, kind, config)
        leaving = draft.leaving.get(i, {})
        yield OutlinedTask(
            id=form.id,
            inputs={port: _met(arriving.get((i, port), [])) for port in kind.inputs},
            # A type that fails here has its problem from the pass that asked before.
            reads=() if isinstance(reads, Problem) else reads,
            outputs={port: leaving.get(port) for port in kind.outputs},
        )


def _met(schemas: list[Schema | None]) -> Schema | None:
    known = [schema for schema in schemas if schema is not None]
    return meet(known) if known and len(known) == len(schemas) else None


def sound_part(draft: DraftDocument) -> DraftDocument:
    """The sound tasks of a checked document alone, without its problems.

    A task that makes its events itself is left out, with those below it: no service runs it.
    """
    ids = Counter(form.id for form in draft.reading.tasks if form is not None)
    # A task that a stream does not reach because of a problem lacks it, even if others do.
    missing = Counter(stream.to for stream in draft.reading.streams if stream is not None)
    parents: dict[int, set[int]] = {}
    for wire in draft.wires:
        parents.setdefault(wire.to, set()).add(wire.origin)
        fed = draft.reading.tasks[wire.to]
        if fed is not None:
            missing[fed.id] -= 1
    kept: set[int] = set()
    for i in draft.order:
        form, kind = draft.reading.tasks[i], draft.types[i]
        if form is None or kind is None or i not in draft.leaving or kind.is_generator:
            continue
        if ids[form.id] == 1 and not missing[form.id] and parents.get(i, set()) <= kept:
            kept.add(i)
    places = {i: place for place, i in enumerate(sorted(kept))}
    return replace(
        draft,
        reading=replace(draft.reading, tasks=_of(places, draft.reading.tasks)),
        types=_of(places, draft.types),
        configs=_of(places, draft.configs),
        config_texts=_of(places, draft.config_texts),
        keepings=_of(places, draft.keepings),
        registered=_of(places, draft.registered),
        wires=tuple(
            wire._replace(origin=places[wire.origin], to=places[wire.to]) for wire in draft.wires if wire.to in places
        ),
        order=tuple(places[i] for i in draft.order if i in places),
        json_fields={places[i]: fields for i, fields in draft.json_fields.items() if i in places},
        schemas={places[i]: schemas for i, schemas in draft.schemas.items() if i in places},
        problems=(),
    )


def _of(kept: Iterable[int], column: Sequence[T]) -> tuple[T, ...]:
    return tuple(column[i] for i in kept)
