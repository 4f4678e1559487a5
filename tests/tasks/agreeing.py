"""What every task of the library has to hold: it does what its definition says, wherever batches are cut."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, TypeAlias

from hypothesis import settings

from bridge.raw_events import ARROW_TYPES
from dags import Emission, Schema, State
from engine.behaviour import AnyImplementation
from engine.kernel.entering_events import groups_of
from engine.kernel.task_run import TaskOutcome
from engine.trial import At, Event, Trial, rows_of, schemas_of

Reference: TypeAlias = Callable[[Iterator[Any]], Iterable[At]]
"""A generator function that takes events one after the other and yields (port, event) for each before the next.

It is given events as the test writes them: dicts, or pairs of a port and a dict. An outer generator may hold its
parameters, as in `lambda events: mean(events, window=3)`.
"""
Emitted: TypeAlias = tuple[int, dict[str, Any]]
"""The place of the event that caused an event, and that event."""
Ran: TypeAlias = tuple[dict[str, list[Emitted]], list[tuple[str, dict[str, Any]]]]
"""What is emitted at each port, and what is parked with its reason."""

few = settings(max_examples=max(10, settings.default.max_examples // 4)) if settings.default else settings()
"""How many examples a test draws that calls `agrees` for each: one runs dozens of batches."""

_CLOSE = 1e-9


def agrees(  # noqa: PLR0913 - what a task is held against, each named by the test
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    events: Sequence[Event] | Sequence[At],
    reference: Reference,
    schema: Schema | Mapping[str, Schema] | None = None,
    *,
    poisonous: Sequence[Event] | Sequence[At] = (),
    exact: bool = False,
    port: str = "in",
) -> dict[str, list[dict[str, Any]]]:
    """Hold a behaviour against its scalar reference, over the events cut into batches in several ways; what it emits.

    Each of the poisonous events is then put among the others: it alone has to be parked, and all else has to come out
    as without it. Floats are equal to the last bit wherever batches are cut, and as close to the reference as a part in
    10^9, or equal to the bit where `exact`.
    """
    placed = _placed(events, port)
    schemas = schemas_of([*placed, *_placed(poisonous, port)], schema, port)
    expected = _referred(reference, events)
    run = partial(_run, implementation, config, schemas)
    outcomes: list[dict[str, list[Emitted]]] = []
    for cuts in ([0, len(placed)], *_cuttings(len(placed), Random(repr(placed)))):
        emitted, parked = run(placed, cuts)
        assert not parked, f"events are parked that are good: {parked}"
        _same(expected, emitted, f"unlike the reference, cut at {cuts}", exact=exact)
        if outcomes:
            _same(outcomes[0], emitted, f"unlike in one batch, cut at {cuts}", exact=True)
        outcomes.append(emitted)
    _keeps_its_promises(implementation, config, schemas, outcomes[0])
    _can_be_divided(implementation, config, schemas, placed, outcomes[0])
    for poison in _placed(poisonous, port):
        _parks_only(run, placed, poison, outcomes[0])
    return {name: [event for _, event in each] for name, each in outcomes[0].items()}


def _placed(events: Sequence[Event] | Sequence[At], port: str) -> list[At]:
    return [each if isinstance(each, tuple) else (port, each) for each in events]


def _cuttings(count: int, random: Random) -> Iterator[list[int]]:
    """Where batches begin and end: one by one with empty ones between, and at random; few, for examples are many."""
    yield [0, 0, *range(1, count), count, count]
    yield [0, *sorted(random.choices(range(count + 1), k=random.randrange(1, 6))), count]


def _referred(reference: Reference, events: Iterable[Any]) -> dict[str, list[Emitted]]:
    seen = -1

    def counted() -> Iterator[Any]:
        nonlocal seen
        for each in events:
            seen += 1
            yield each

    found: dict[str, list[Emitted]] = {}
    for port, event in reference(counted()):
        found.setdefault(port, []).append((seen, dict(event)))
    return found


def _run(
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    events: Sequence[At],
    cuts: Sequence[int],
) -> Ran:
    """What is emitted at each port, and what is parked with its reason."""
    trial = Trial(implementation, config, schemas)
    emitted: dict[str, list[Emitted]] = {port: [] for port in trial.outputs}
    parked = []
    for first, end in pairwise(cuts):
        outcome: TaskOutcome = trial.take(events[first:end])
        for port, stream in outcome.emitted.items():
            emitted[port] += zip(stream.causes.tolist(), stream.rows.to_pylist(), strict=True)
        parked += [(dead.reason, event) for dead in outcome.dead for event in dead.events.to_pylist()]
    assert trial.outputs == trial.output_schemas(), "the schemas for an empty batch do not depend on earlier batches"
    return emitted, parked


def _same(
    expected: Mapping[str, Sequence[Emitted]], actual: Mapping[str, Sequence[Emitted]], where: str, *, exact: bool
) -> None:
    assert expected.keys() <= actual.keys(), f"no such port, {where}"
    for port in actual:
        wanted, found = expected.get(port, []), actual[port]
        for place, (one, other) in enumerate(zip(wanted, found, strict=False)):
            assert one[0] == other[0], f"event {place} at port {port!r} has another cause, {where}: {one} and {other}"
            assert _equal(one[1], other[1], exact=exact), f"event {place} at port {port!r}, {where}: {one} and {other}"
        assert len(wanted) == len(found), f"as many events at port {port!r}, {where}"


def _equal(one: Mapping[str, Any], other: Mapping[str, Any], *, exact: bool) -> bool:
    """Whether two events are equal; what the first one lacks is null."""
    return one.keys() <= other.keys() and all(_alike(one.get(name), other[name], exact=exact) for name in other)


def _alike(one: Any, other: Any, *, exact: bool) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one.hex() == other.hex() if exact else math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return type(one) is type(other) and bool(one == other)


def _keeps_its_promises(
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    emitted: Mapping[str, Sequence[Emitted]],
) -> None:
    """The description says truly which fields leave, and how many events for one."""
    type_ = implementation.type
    trial = Trial(implementation, config, schemas)
    if type_.outputs and type_.inputs:
        promised = type_.output_schema(trial.config, schemas)
        assert {
            port: {name: ARROW_TYPES[kind] for name, kind in schema.fields.items()} for port, schema in promised.items()
        } == {port: dict(zip(schema.names, schema.types, strict=True)) for port, schema in trial.outputs.items()}
    if type_.emission is not Emission.MANY:
        for port, events in emitted.items():
            causes = [cause for cause, _ in events]
            assert len(set(causes)) == len(causes), f"at most one event for each leaves by port {port!r}"
    if type_.emission is Emission.AT_MOST_ONE:
        causes = [cause for events in emitted.values() for cause, _ in events]
        assert len(set(causes)) == len(causes), "at most one event for each leaves by all ports together"


def _can_be_divided(
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    schemas: Mapping[str, Schema],
    events: Sequence[At],
    emitted: Mapping[str, Sequence[Emitted]],
) -> None:
    """The description says truly which fields of events leave as they entered, and by which fields state is kept."""
    type_, trial = implementation.type, Trial(implementation, config, schemas)
    if type_.sets is not None:
        changed = set(type_.sets(trial.config))
        for cause, event in (each for found in emitted.values() for each in found):
            port, entered = events[cause]
            (rows,) = rows_of([entered], trial.inputs[port]).to_pylist()
            for name in event.keys() & rows.keys() - changed:
                assert _alike(rows[name], event[name], exact=True), f"{name} leaves as it entered: {entered}, {event}"
    if type_.state is State.KEY:
        key = tuple(type_.key_fields(trial.config))
        groups = {
            int(group)
            for port in trial.inputs
            for group in groups_of(rows_of([each for at, each in events if at == port], trial.inputs[port]), key)
        }
        trial.take(events)
        assert trial.state.changed_groups() <= groups, "state is kept under the fields of the key alone"


def _parks_only(
    run: Callable[[Sequence[At], Sequence[int]], Ran],
    events: Sequence[At],
    poison: At,
    without: Mapping[str, Sequence[Emitted]],
) -> None:
    """The poisonous event is parked with a reason, and everything else comes out as without it."""
    random = Random(repr(poison))
    place = random.randrange(len(events) + 1)
    among = [*events[:place], poison, *events[place:]]
    for cuts in ([0, len(among)], random.choice(list(_cuttings(len(among), random)))):
        emitted, parked = run(among, cuts)
        assert 1 == len(parked), f"{poison} is parked, and nothing else: {parked}"
        assert parked[0][0], "it is parked with a reason"
        moved = {port: [(cause - (cause > place), event) for cause, event in found] for port, found in emitted.items()}
        _same(without, moved, f"beside {poison}, cut at {cuts}", exact=True)
