"""Code: a published function, called in the worker if an operator vouches for it, else in cells."""

import pyarrow as pa

from bridge.raw_events import ARROW_TYPES
from engine.behaviour import Implementation, PortEmission, RefusingBehaviour, TakeOutcome
from engine.code.batch_work import Batches
from engine.code.cells import NoCells
from engine.code.connections import Connections
from engine.code.event_work import EventsInCells, EventsInWorker, Work
from engine.code.function import Function
from engine.code.store import NoCode
from engine.code.wheel_store import WheelCheck
from engine.event_streams import nothing
from engine.side_effect import OutsideUnreachable
from engine.tasks.code import CODE, CONNECTING_CODE, CodeConfig, CodeOutput, ConnectingCodeConfig


def _code(config: CodeConfig) -> RefusingBehaviour:
    """A function per event takes a dictionary of the fields it needs, and returns one, or None to drop the event.

    It returns every field that the config declares. A function per batch takes a `pyarrow.RecordBatch`, and returns one
    with a row for each event, or a pair of one and an array of booleans, where false drops an event. It has no memory:
    where no operator vouches for it, every batch begins anew. An event for which it raises, or returns something else
    than declared, is parked.
    """
    names = list(config.input.needed)
    work: tuple[bool, Work] | None = None
    check = WheelCheck()

    def take(events: pa.RecordBatch) -> TakeOutcome:
        nonlocal work
        if not len(events):
            return TakeOutcome(PortEmission(nothing(_schema(events.schema, config.output))), [])
        try:
            # Looked up for each batch, so that an operator who withdraws a voucher need not wait for a plan.
            # What is imported from wheels must not meet what other tasks of the worker import.
            vouched = config.is_vouched and not config.wheels and not isinstance(config, ConnectingCodeConfig)
            if work is None or work[0] != vouched:
                work = vouched, _work(config, vouched=vouched)
            check(config.wheel_paths)
            made = work[1](events.select(names))
        except (NoCode, NoCells) as error:
            raise OutsideUnreachable(str(error)) from error
        kept = events if len(made.kept) == len(events) else events.take(pa.array(made.kept))
        added = dict(zip(config.output.fields, made.columns, strict=True))
        schema = _schema(events.schema, config.output)
        columns = [added[name] if name in added else kept.column(name) for name in schema.names]
        return TakeOutcome(PortEmission(pa.RecordBatch.from_arrays(columns, schema=schema), made.kept), made.refusals)

    return RefusingBehaviour(take=take, owner=config.owner)


def _work(config: CodeConfig, *, vouched: bool) -> Work:
    connections = None
    if isinstance(config, ConnectingCodeConfig):
        connections = Connections(config.connects, config.addresses)
    function = Function(
        path=config.path,
        digest=config.digest,
        entry=config.entry,
        needed={name: kind.value for name, kind in config.input.needed.items()},
        fields={name: kind.value for name, kind in config.output.fields.items()},
        wheels=config.wheel_paths,
        connections=connections,
    )
    if config.per == "batch":
        return Batches(function, vouched=vouched)
    return EventsInWorker(function) if vouched else EventsInCells(function)


def _schema(taken: pa.Schema, output: CodeOutput) -> pa.Schema:
    """The columns that leave: what passes on in its place, then what is added."""
    added = {name: pa.field(name, ARROW_TYPES[kind]) for name, kind in output.fields.items()}
    passed = [each for each in taken if output.rest and each.name not in output.drop]
    changed = {each.name for each in passed}
    return pa.schema(
        [added.get(each.name, each) for each in passed] + [each for each in added.values() if each.name not in changed]
    )


code = Implementation(type=CODE, make=_code)
connecting_code = Implementation(type=CONNECTING_CODE, make=_code)
