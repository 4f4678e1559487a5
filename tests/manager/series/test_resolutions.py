"""The steps of series in the database: joined into longer ones, bounded, pruned, and read; on both databases."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, func, select

from manager.series.figures import SeriesFigures
from manager.series.resolutions import FINEST, MOST_SERIES_STEPS, SERIES_STEPS, Window, read_steps, window, write_step
from manager.store.database import Store, sqlite_url
from manager.store.tables import Leadership, SeriesRow, table_of

NAME = "one"
_ROWS = table_of(SeriesRow).c
HOUR = 3_600
EPOCH = 100_000 * HOUR
ONE = SeriesFigures(seconds=15.0, events_in=30, events_out=10, dead=1, waiting=4, latency_p50=0.1, latency_p99=0.5)
figures = st.builds(
    SeriesFigures,
    seconds=st.floats(1, 60),
    events_in=st.integers(0, 10**12),
    events_out=st.integers(0, 10**12),
    dead=st.integers(0, 10**6),
    waiting=st.integers(0, 10**9),
    latency_p50=st.none() | st.floats(0, 100),
    latency_p99=st.none() | st.floats(0, 100),
    cores=st.none() | st.floats(0, 100),
    alone=st.none() | st.floats(0, 100),
)
runs = st.lists(st.none() | figures, min_size=1, max_size=60)
"""What is known of consecutive steps; most of them are within one of five minutes, or of an hour."""


def led(store: Store) -> Store:
    with store.write() as session:
        session.get_one(Leadership, 1).leader = NAME
    return store


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    """A database of each kind, led by the one who writes."""
    made = led(Store(empty_url))
    yield made
    made.close()


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One file for all examples of a law, each of which empties it first."""
    made = led(Store(sqlite_url(tmp_path_factory.mktemp("series") / "braid.db")))
    yield made
    made.close()


def write(store: Store, first: int, *steps: Mapping[str, SeriesFigures], every: int = FINEST) -> int:
    """Write steps that begin at such intervals; return the beginning of the next one."""
    with store.write() as session:
        for known in steps:
            assert write_step(session, NAME, first, known)
            first += every
    return first


def emptied(store: Store) -> Store:
    with store.write() as session:
        session.execute(delete(SeriesRow))
    return store


def read(store: Store, wanted: Window, dataflow: str = "a") -> list[SeriesFigures | None]:
    with store.read() as session:
        return read_steps(session, dataflow, wanted)


def counts(store: Store) -> dict[int, int]:
    """The number of rows of each resolution."""
    with store.read() as session:
        return {row[0]: row[1] for row in session.execute(select(_ROWS.step, func.count()).group_by(_ROWS.step))}


def check_joined(known: Sequence[SeriesFigures], joined: SeriesFigures | None) -> None:
    """Counts and seconds add up, peaks stay, means lie between their bounds, and what is nowhere known is not known."""
    if not known:
        assert joined is None
        return
    assert joined is not None
    for name in ("events_in", "events_out", "dead"):
        assert sum(getattr(one, name) for one in known) == getattr(joined, name)
    assert sum(one.seconds for one in known) == pytest.approx(joined.seconds)
    assert max(one.waiting for one in known) == joined.waiting
    assert max((one.latency_p99 for one in known if one.latency_p99 is not None), default=None) == joined.latency_p99
    for name in ("latency_p50", "cores", "alone"):
        values = [(getattr(one, name), one.seconds) for one in known if getattr(one, name) is not None]
        if not values:
            assert getattr(joined, name) is None
            continue
        whole = sum(value * seconds for value, seconds in values)
        assert whole / sum(seconds for _, seconds in values) == pytest.approx(getattr(joined, name))
        assert min(value for value, _ in values) * (1 - 1e-9) <= getattr(joined, name)
        assert getattr(joined, name) <= max(value for value, _ in values) * (1 + 1e-9)


@given(runs, st.integers(0, HOUR // FINEST))
def test_longer_steps_keep_sums_and_bounds_and_gaps(common: Store, run: list[SeriesFigures | None], begin: int) -> None:
    """Of whatever is known when, and wherever in an hour it begins; also of steps that are not over."""
    store, first = emptied(common), EPOCH + begin * FINEST
    end = write(store, first, *({} if one is None else {"a": one, "b": ONE} for one in run))
    by_time = {first + place * FINEST: one for place, one in enumerate(run)}
    for step in SERIES_STEPS:
        wanted = Window(step, first // step * step, -(-end // step) * step)
        inside: defaultdict[int, list[SeriesFigures]] = defaultdict(list)
        for at, one in by_time.items():
            if one is not None:
                inside[at // step * step].append(one)
        for at, joined in zip(wanted.steps, read(store, wanted), strict=True):
            check_joined(inside[at], joined)


def test_an_hour_is_made_of_five_minutes_once_they_are_over(store: Store) -> None:
    """Each longer step is written once, when the first short one after it is written, and has the sums of all."""
    end = write(store, EPOCH, *({"a": ONE, "b": ONE} for _ in range(HOUR // FINEST - 1)))
    assert {15: 478, 300: 22} == counts(store)
    write(store, end, {"a": ONE})
    assert {15: 479, 300: 24, 3600: 2} == counts(store)
    (whole,) = read(store, Window(HOUR, EPOCH, EPOCH + HOUR))
    assert whole is not None
    assert (240 * 15.0, 240 * 30, 240) == (whole.seconds, whole.events_in, whole.dead)
    assert (4, 0.5) == (whole.waiting, whole.latency_p99)
    assert pytest.approx(0.1) == whole.latency_p50
    assert whole.cores is None


def test_each_resolution_keeps_so_many_steps(store: Store) -> None:
    """A dataflow that runs for ever takes a bounded room, and one that was removed none in the end."""
    end = write(store, EPOCH, *({"a": ONE} for _ in range(MOST_SERIES_STEPS + 40)))
    assert MOST_SERIES_STEPS == counts(store)[FINEST]
    end = write(store, end, *({"b": ONE} for _ in range(MOST_SERIES_STEPS + 10)), every=HOUR)
    # The newest is not over.
    assert {15: 3, 300: 41, 3600: MOST_SERIES_STEPS - 1} == counts(store)
    assert [None] * MOST_SERIES_STEPS == read(store, window(end - MOST_SERIES_STEPS * HOUR, end))
    with store.read() as session:
        assert ["b"] == list(session.scalars(select(_ROWS.dataflow).distinct()))


@given(st.integers(0, 10**6), st.integers(1, 10**8))
def test_an_answer_has_few_steps_and_reaches_now(begin: int, length: int) -> None:
    """The finest resolution that reaches back, at most 500 steps, the last of which is the newest one."""
    now = begin + length
    wanted = window(begin, now)
    assert 1 <= len(wanted.steps) <= MOST_SERIES_STEPS
    assert wanted.until - wanted.step <= now < wanted.until + FINEST
    for finer, step in pairwise(SERIES_STEPS):
        if wanted.step == step:
            assert length > MOST_SERIES_STEPS * finer
    if length <= (MOST_SERIES_STEPS - 1) * wanted.step:
        assert wanted.since <= begin


def test_only_the_leader_writes_and_each_step_once(store: Store) -> None:
    """Whoever lost the lead writes nothing, nor does a clock that was set back."""
    write(store, EPOCH, {"a": ONE})
    with store.write() as session:
        assert not write_step(session, "two", EPOCH + FINEST, {"a": ONE})
        assert write_step(session, NAME, EPOCH, {"a": replace(ONE, events_in=99)})
    assert {15: 1} == counts(store)
    assert [ONE, None] == read(store, Window(FINEST, EPOCH, EPOCH + 2 * FINEST))
