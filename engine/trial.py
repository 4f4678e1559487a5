"""Trials of a task type on a few events, without a host: for examples, tests and authors of types."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from bridge.raw_events import ARROW_TYPES, marked
from dags import Kind, Outside, Schema
from engine.behaviour import AnyImplementation, Behaviour, Unwatched, implementation_of, installed_behaviours
from engine.event_streams import EventStream, PortRun, nothing
from engine.kernel.task_bounds import Allowance, StateBound
from engine.kernel.task_run import TaskInput, TaskOutcome, TaskRun
from engine.plan import Limits
from engine.records.state import Staged
from engine.tasks.expressions import KINDS_OF_VALUES

Event: TypeAlias = Mapping[str, Any]
At: TypeAlias = tuple[str, Event]
"""A port, and an event that enters or leaves there."""


class Parked(ValueError):
    """An event would be parked on the dead-letter topic. Says why."""


def try_out(  # noqa: PLR0913 - a trial needs them, and most have defaults
    implementation: AnyImplementation | str,
    config: Mapping[str, Any],
    events: Sequence[Event] | Sequence[At],
    schema: Schema | Mapping[str, Schema] | None = None,
    *,
    port: str = "in",
    outside: Outside | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Run a task on events in one batch, and return what it emits at each output port. Raises `Parked` on a bad event.

    The implementation may be the name of an installed type. Events for several ports are pairs of a port and an event.
    Without a schema, the kinds of fields follow from the values; a field that is always null is text. Secrets and
    places that the config names are resolved `outside`.

    >>> try_out("range_filter", {"field": "t", "min": 0, "max": 30}, [{"t": 21.5}, {"t": 99.0}])
    {'out': [{'t': 21.5}, {'t': None}]}
    >>> try_out("count", {"by": ["room"]}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"][-1]
    {'room': 'a', 'count': 2}
    """
    placed = [event if isinstance(event, tuple) else (port, event) for event in events]
    trial = Trial(implementation, config, schemas_of(placed, schema, port), outside)
    outcome = trial.take(placed)
    if outcome.dead:
        raise Parked(outcome.dead[0].reason)
    return {name: stream.rows.to_pylist() for name, stream in outcome.emitted.items()}


class Trial:
    """One task with its state, which takes batch after batch as in a job; made by `try_out` and by tests."""

    def __init__(
        self,
        implementation: AnyImplementation | str,
        config: Mapping[str, Any],
        schemas: Mapping[str, Schema],
        outside: Outside | None = None,
    ) -> None:
        if isinstance(implementation, str):
            implementation = implementation_of(implementation, installed_behaviours())
        type_ = implementation.type
        read = type_.config.model_validate_json(msgspec.json.encode(config), context={"outside": outside})
        self.config = type_.normalise(read) if type_.normalise else read
        self.behaviour: Behaviour = implementation.make(self.config)
        self.state = Staged({})
        self.inputs = {
            port: marked(
                pa.schema({name: ARROW_TYPES[schema.fields[name]] for name in schema.names()}),
                [name for name in schema.names() if schema.fields[name] is Kind.JSON],
            )
            for port, schema in schemas.items()
        }
        """The schema at each input port."""
        self.outputs = self.output_schemas()
        self._taken = 0

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The schema at each output port, found as in a job: from an empty batch at each input port."""
        token = self.state.mark()
        schemas = {
            name: emission.rows.schema.remove_metadata()
            for port, schema in self.inputs.items()
            for name, emission in self.behaviour(port, nothing(schema), self.state).items()
        }
        self.state.rollback(token)
        return schemas

    def take(self, events: Iterable[At]) -> TaskOutcome:
        """Run the next batch. Every event is a cause of its own."""
        runs: list[PortRun] = []
        for port, group in groupby(events, key=itemgetter(0)):
            rows = rows_of([event for _, event in group], self.inputs[port])
            runs.append(PortRun(port, EventStream(rows, np.arange(self._taken, self._taken + len(rows)))))
            self._taken += len(rows)
        return TaskRun(
            instance=1,
            behaviour=self.behaviour,
            outputs=self.outputs,
            state=self.state,
            taken=TaskInput(runs),
            watch=Unwatched(),
            allowance=Allowance(seconds=Limits().task_seconds, emitted=Limits().emitted_bytes),
            room=StateBound(Limits().state_bytes),
        ).work_off()


def schemas_of(
    events: Sequence[At], schema: Schema | Mapping[str, Schema] | None = None, port: str = "in"
) -> dict[str, Schema]:
    """The schema at each input port: as given, else as follows from the values."""
    if schema is not None:
        return {port: schema} if isinstance(schema, Schema) else dict(schema)
    kinds: dict[str, dict[str, Kind | None]] = {} if events else {port: {}}
    for name, event in events:
        fields = kinds.setdefault(name, {})
        for field, value in event.items():
            before, now = fields.get(field), _kind(value)
            both = {before, now} == {Kind.INTEGER, Kind.FLOAT}
            fields[field] = Kind.FLOAT if both else before or now
    return {
        name: Schema.of({field: kind or Kind.STRING for field, kind in fields.items()})
        for name, fields in kinds.items()
    }


def rows_of(events: Sequence[Event], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch of events. Objects and lists become JSON text."""
    written = [
        {
            name: msgspec.json.encode(value).decode() if isinstance(value, dict | list) else value
            for name, value in event.items()
        }
        for event in events
    ]
    for event in written:
        if unknown := sorted(event.keys() - set(schema.names)):
            raise ValueError(f"an event has the field {unknown[0]!r}, which is not in the schema; add it there")
    return pa.RecordBatch.from_pylist(written, schema=schema)


def _kind(value: Any) -> Kind | None:
    if value is None:
        return None
    return next((kind for type_, kind in KINDS_OF_VALUES.items() if isinstance(value, type_)), Kind.JSON)
