"""Generators: the numbers that are due at a time."""

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.generated.generators import NEVER, DueEvents, Progress, Rate, Replay, Timer, due, offset, offsets, paced
from dags import Kind, Schema

RATES = st.floats(1e-6, 1e7) | st.integers(1, 200_000).map(float) | st.sampled_from([0.1, 1 / 3, 0.7, 1e7])
TIMERS = st.floats(0.001, 1e6) | st.integers(1, 600).map(float)
GENERATORS = st.builds(Rate, per_second=RATES) | st.builds(Timer, seconds=TIMERS)
STARTS = st.integers(0, 2**43)
NUMBERS = Schema.of(number=Kind.INTEGER, at=Kind.TIMESTAMP)


def rows(ready: DueEvents) -> list[tuple[int, int]]:
    """Each number with its time in milliseconds."""
    if ready.events is None:
        return []
    (name,) = set(ready.events.schema.names) - {"at"}
    times = ready.events.column("at").cast("int64").to_pylist()
    return list(zip(ready.events.column(name).to_pylist(), times, strict=True))


def begun(generator: Rate | Timer, start: int, elapsed: int) -> tuple[Progress, int]:
    """A generator that is up to date after some time, and when its next number is due."""
    pace = paced(generator.per_second) if isinstance(generator, Rate) else 1 / Fraction(generator.seconds)
    progress = Progress(start=start, next=math.ceil(elapsed * pace / 1000))
    then = due(generator, progress, start - 1).then
    assert then is not None
    return progress, then


@given(GENERATORS, STARTS, st.integers(0, 10**12), st.integers(0, 10**7))
def test_exactly_the_due_events_are_sent(generator: Rate | Timer, start: int, elapsed: int, pause: int) -> None:
    """They are numbered without a hole from the next number on: all that are due by now, or a full batch."""
    progress, then = begun(generator, start, elapsed)
    now = then + pause
    ready = due(generator, progress, now, 100)
    sent = rows(ready)
    assert list(range(progress.next, progress.next + len(sent))) == [number for number, _ in sent]
    assert Progress(start=start, next=progress.next + len(sent)) == ready.progress
    assert 1 <= len(sent) <= 100
    assert all(at <= now for _, at in sent)
    assert ready.then is not None
    assert len(sent) == 100 or ready.then > now
    assert then == sent[0][1]
    assert DueEvents(progress=progress, then=then) == due(generator, progress, then - 1)


@given(GENERATORS, STARTS, st.integers(0, 10**12), st.lists(st.integers(0, 300), max_size=6))
def test_it_does_not_matter_when_it_is_asked(
    generator: Rate | Timer, start: int, elapsed: int, pauses: list[int]
) -> None:
    """However often and however late a generator is asked, every number comes once and with the same time."""
    first, now = begun(generator, start, elapsed)
    sent: list[tuple[int, int]] = []
    progress = first
    for pause in pauses:
        now += pause
        ready = due(generator, progress, now, 50)
        progress = ready.progress
        sent += rows(ready)
    assert sent == (rows(due(generator, first, now, len(sent))) if sent else [])


@pytest.mark.parametrize(
    ("generator", "elapsed", "count"),
    [
        (Rate(per_second=200_000), 999, 199_801),
        (Rate(per_second=200_000), 1_000, 200_001),
        (Rate(per_second=0.1), 29_999, 3),
        (Rate(per_second=0.1), 30_000, 4),
        (Rate(per_second=1 / 3), 86_400_000, 28_801),
        (Rate(per_second=0.7), 10_000, 8),
        (Timer(seconds=60), 59_999, 1),
        (Timer(seconds=60), 60_000, 2),
        (Timer(seconds=0.3), 900, 4),
        (Timer(seconds=0.3), -1, 0),
    ],
)
def test_the_count_is_exact(generator: Rate | Timer, elapsed: int, count: int) -> None:
    """At any time, exactly as many events were sent as fit into the time, plus the one at its beginning."""
    ready = due(generator, Progress(start=5_000), 5_000 + elapsed, 300_000)
    assert count == ready.progress.next == len(rows(ready))


@given(RATES, st.integers(0, 10**13), st.integers(1, 50))
@example(1e-6, 10**13, 1)
@example(1e-6, 4_611_686_018, 50)
def test_times_are_those_of_exact_numbers(rate: float, first: int, count: int) -> None:
    """The times of many numbers at once are those of each alone, in whole numbers, however large the numbers are."""
    pace = paced(rate)
    assert [offset(pace, number) for number in range(first, first + count)] == offsets(pace, first, count).tolist()


@example(1e-6)
@example(1e7)
@given(RATES)
def test_times_beyond_64_bits_come_after_all_others(rate: float) -> None:
    """Numbers whose times exceed 64 bits are due after every time that a clock shows."""
    pace, now = paced(rate), 2**43
    assert offset(pace, 10**40) == offsets(pace, 10**40, 3).tolist()[-1] == NEVER
    far = due(Rate(per_second=rate), Progress(start=now, next=10**40), now)
    assert far.events is None
    assert now < (far.then or 0) < 2**63


@given(RATES)
def test_a_rate_is_precise(rate: float) -> None:
    """A rate is precise to a millionth."""
    assert abs(paced(rate) - Fraction(rate)) <= Fraction(1, 1_000_000)


def test_events_have_their_schema() -> None:
    """The events of a rate and of a timer have the fields of their schemas, sorted by name."""
    for generator in (Rate(per_second=1), Timer(seconds=1)):
        ready = due(generator, Progress(start=0), 0)
        assert ready.events is not None
        assert list(generator.schema.names()) == ready.events.schema.names
    assert NUMBERS == Rate(per_second=1).schema
    assert Schema.of(tick=Kind.INTEGER, at=Kind.TIMESTAMP) == Timer(seconds=1).schema


def test_a_timer_knows_its_next_tick() -> None:
    """Between two ticks nothing is sent, and the next tick is announced."""
    timer, progress = Timer(seconds=60), Progress(start=1_000)
    waits = [due(timer, progress, 1_000)]
    for _ in range(3):
        waits.append(due(timer, waits[-1].progress, (waits[-1].then or 0) - 1))
        assert (None, waits[-2].then) == (waits[-1].events, waits[-1].then)
        waits.append(due(timer, waits[-1].progress, waits[-1].then or 0))
    assert {60_000, 0} == {(after.then or 0) - (before.then or 0) for before, after in pairwise(waits)}


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_that_are_none_are_refused(value: float) -> None:
    """A rate, a number of seconds and a speed are above 0, and finite."""
    with pytest.raises(ValueError, match=r"per_second is .*; give a number between 1e-06 and 1e\+07"):
        Rate(per_second=value)
    with pytest.raises(ValueError, match=r"seconds is .*; give a number between 0.001 and 1e\+06"):
        Timer(seconds=value)
    with pytest.raises(ValueError, match=r"speed is .*; give a number between 1e-06 and 1e\+09"):
        Replay(path=Path("x.csv"), schema=NUMBERS, time_field="at", speed=value)
    with pytest.raises(ValueError, match="per_second is "):
        Replay(path=Path("x.csv"), schema=NUMBERS, per_second=value)


def test_a_replay_needs_its_times() -> None:
    """A replay has either a time field or a rate, and the field's kind has to be a time."""
    schema = Schema.of(at=Kind.TIMESTAMP, name=Kind.STRING)
    both = "a replay needs either a time_field, whose gaps it keeps, or a rate per_second"
    for times in ({}, {"time_field": "at", "per_second": 1.0}):
        with pytest.raises(ValueError, match=both):
            Replay(path=Path("x.csv"), schema=schema, **times)  # type: ignore[arg-type] # wrong on purpose
    for field in ("name", "nowhere"):
        with pytest.raises(ValueError, match=f"the schema has no field '{field}' of kind timestamp or integer"):
            Replay(path=Path("x.csv"), schema=schema, time_field=field)
