"""Generators: the numbers that are due at a time, and runs that fill spools and are killed at every step."""

import json
import math
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.generated.file_replay import Unreplayable
from bridge.generated.generator_run import _GROUPING, _LONGEST, GENERATOR, GeneratorRun
from bridge.generated.generators import (
    MOST_DUE_EVENTS,
    NEVER,
    DueEvents,
    Progress,
    Rate,
    Replay,
    Timer,
    due,
    offset,
    offsets,
    paced,
)
from bridge.intake import Expected
from bridge.raw_events import Unfit
from bridge.spools.deliveries import InDoubt
from bridge.spools.log import Item, Placed, unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool, SpoolState
from dags import Kind, Schema
from tests.twins.memory_clock import MemoryClock
from tests.twins.memory_spool import MemorySpool

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


ROOMY = 10**9
START = 1_000.0
BOUND = 30.0
NUMBERED = Schema.of(n=Kind.INTEGER, at=Kind.TIMESTAMP)


class NotifyingSpool(MemorySpool):
    """A spool that signals when it has some events."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = Event()

    def append(
        self,
        items: Sequence[Item],
        producers: Mapping[str, Expected | None] | None = None,
        in_doubt: InDoubt | None = None,
    ) -> int:
        first = super().append(items, producers, in_doubt)
        if self.end > 1_000:
            self.enough.set()
        return first


def events(placed: Iterator[Placed]) -> list[tuple[int, int]]:
    """Each number with its time in milliseconds."""
    found: list[tuple[int, int]] = []
    for _, item in placed:
        batch = unpacked(item.payload)
        (name,) = {"n", "number", "tick"} & set(batch.schema.names)
        found += zip(batch.column(name).to_pylist(), batch.column("at").cast("int64").to_pylist(), strict=True)
    return found


def numbers(spool: MemorySpool) -> list[int]:
    return [number for number, _ in events(spool.read(spool.first, ROOMY))]


@given(st.lists(st.floats(0, 5), max_size=12), st.sampled_from(["0.3", "1", "7", "50"]))
def test_due_events_are_in_the_spool(pauses: list[float], per_second: str) -> None:
    """Whenever a generator works, and with whichever runner, the spool holds every due number once."""
    clock, spool, pace = MemoryClock(START), MemorySpool(), Fraction(per_second) / 1000
    for pause in [0.0, *pauses]:
        clock.advance(pause)
        # Another one each time: nothing is kept but what is in the spool.
        while GeneratorRun(Rate(per_second=float(per_second)), spool, clock=clock).work() == 0.0:
            pass
        count = math.floor((math.floor(clock.now() * 1000) - 1_000_000) * pace) + 1
        assert Expected(epoch=1_000_000, next=count) == spool.producers[GENERATOR]
    whole = [(number, 1_000_000 + math.ceil(number / pace)) for number in range(spool.end)]
    assert whole == events(spool.read(0, ROOMY))


def test_high_rates_come_in_bounded_batches() -> None:
    """A generator that is behind sends full batches without a pause, until it has caught up."""
    clock, spool = MemoryClock(START), MemorySpool()
    generating = GeneratorRun(Rate(per_second=200_000), spool, clock=clock)
    assert _GROUPING == generating.work()
    clock.advance(1)
    pauses = [generating.work() for _ in range(4)]
    assert [0.0, 0.0, 0.0, _GROUPING] == pauses
    counts = [item.count for _, item in spool.read(0, ROOMY)]
    assert [1, *[MOST_DUE_EVENTS] * 4] == counts
    assert all(after == before + 1 for before, after in pairwise(numbers(spool)))


def test_nothing_due_writes_nothing() -> None:
    """Between two ticks the spool is left alone, and the wait is as long as needed, but bounded."""
    clock, spool = MemoryClock(START), MemorySpool()
    generating = GeneratorRun(Timer(seconds=2.5), spool, clock=clock)
    assert _LONGEST == generating.work()
    clock.advance(2.0)
    assert (0.5, 1) == (generating.work(), spool.end)
    clock.advance(0.5)
    assert (_LONGEST, 2) == (generating.work(), spool.end)


def test_a_full_spool_is_waited_for() -> None:
    """While the spool is full nothing is sent, and once it was read everything comes, none left out."""
    clock, spool = MemoryClock(START), MemorySpool(most_bytes=1)
    spool.commit("job", 0)
    generating = GeneratorRun(Rate(per_second=10), spool, clock=clock)
    generating.work()
    clock.advance(3)
    assert (SpoolState.FULL, _GROUPING, [0]) == (spool.state, generating.work(), numbers(spool))
    spool.commit("job", 1)
    generating.work()
    assert list(range(1, 31)) == numbers(spool)


def test_events_are_stamped_when_they_are_spooled() -> None:
    """An item's stamp is the time of its spooling, however late that is."""
    clock, spool = MemoryClock(START), MemorySpool()
    generating = GeneratorRun(Rate(per_second=1), spool, clock=clock)
    generating.work()
    clock.advance(2.5)
    generating.work()
    assert [1_000_000, 1_002_500] == [item.stamp for _, item in spool.read(0, ROOMY)]


def test_a_clock_that_is_set_back_sends_nothing_twice() -> None:
    """When time goes back, nothing is sent until it has caught up."""
    spool = MemorySpool()
    for now, count in [(START, 1), (START + 1, 2), (START - 100, 2), (START + 1, 2), (START + 2, 3)]:
        GeneratorRun(Rate(per_second=1), spool, clock=MemoryClock(now)).work()
        assert list(range(count)) == numbers(spool)


@pytest.mark.parametrize("repeat", [False, True])
def test_a_replay_ends_or_begins_again(tmp_path: Path, *, repeat: bool) -> None:
    """A replay sends its file with its gaps; then nothing more comes, or the file again; also with a new runner."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"n": {number}, "at": {number * 1_000}}}\n' for number in range(3)))
    replay = Replay(path=path, schema=NUMBERED, time_field="at", speed=2.0, repeat=repeat)
    clock, spool = MemoryClock(START), MemorySpool()
    generating = GeneratorRun(replay, spool, clock=clock)
    sent: list[list[int]] = []
    for turn in range(7):
        if turn == 4:
            generating = GeneratorRun(replay, spool, clock=clock)
        while generating.work() == 0.0:
            pass
        sent.append(numbers(spool))
        clock.advance(0.5)
    rounds = [0, 1, 2, 0, 1, 2, 0]
    assert [rounds[: turn + 1] if repeat else rounds[: min(turn + 1, 3)] for turn in range(7)] == sent
    assert (generating.work() is None) is not repeat


def test_unfit_lines_are_reported(tmp_path: Path) -> None:
    """A line of a replay that does not fit its schema is reported, and the rest is sent."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"n": 1, "at": 0}\n{"n": "x"}\n{"n": 3, "at": 0}\n')
    refused: list[Unfit] = []
    spool, replay = MemorySpool(), Replay(path=path, schema=NUMBERED, time_field="at")
    GeneratorRun(replay, spool, clock=MemoryClock(START), on_unfit=refused.append).work()
    assert ([1, 3], ['{"n": "x"}']) == (numbers(spool), [each.event for each in refused])


def test_a_replay_that_fails_is_not_over(tmp_path: Path) -> None:
    """A file that cannot be read is reported every time, and once it is corrected the replay goes on."""
    path, clock, spool = tmp_path / "a.csv", MemoryClock(START), MemorySpool()
    path.write_text("n,at\n0,0\nx,0\n")
    generating = GeneratorRun(Replay(path=path, schema=NUMBERED, time_field="at"), spool, clock=clock)
    for _ in range(2):
        with pytest.raises(Unreplayable, match="row 2: the field 'n' should be of kind integer, but is 'x'"):
            generating.work()
    path.write_text("n,at\n0,0\n1,0\n")
    generating.work()
    assert (None, [0, 1]) == (generating.work(), numbers(spool))


def test_a_failed_append_is_repeated(tmp_path: Path) -> None:
    """After a full disk, the same numbers are sent again."""
    full = False

    def step(name: str) -> None:
        if full and name == "sync":
            raise OSError(28, "No space left on device")

    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"n": {number}, "at": 0}}\n' for number in range(5)))
    spool, clock = Spool(tmp_path / "spool", most_bytes=ROOMY, step=step), MemoryClock(START)
    generating = GeneratorRun(Replay(path=path, schema=NUMBERED, per_second=1), spool, clock=clock)
    generating.work()
    clock.advance(2)
    full = True
    with pytest.raises(OSError, match="No space left on device"):
        generating.work()
    full = False
    generating.work()
    assert [0, 1, 2] == [number for number, _ in events(read(spool.folder, 0, ROOMY))]
    spool.close()


def test_it_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """In a thread a generator works until it is stopped, and a replay until it is over."""
    (tmp_path / "a.csv").write_text("n,at\n0,0\n1,20\n2,40\n")
    spool = MemorySpool()
    GeneratorRun(Replay(path=tmp_path / "a.csv", schema=NUMBERED, time_field="at"), spool).run()
    assert [0, 1, 2] == numbers(spool)
    spool = NotifyingSpool()
    generating = GeneratorRun(Rate(per_second=100_000), spool)
    running = Thread(target=generating.run)
    running.start()
    assert spool.enough.wait(BOUND)
    generating.stop()
    running.join(BOUND)
    assert not running.is_alive()
    assert list(range(spool.end)) == numbers(spool)


STEPS = ["open", "write", "sync", "rename", "sync folder", "done", "remove"]
GENERATED = """
import json, os, signal, sys
from pathlib import Path
from bridge import GeneratorRun, Rate, Replay, Spool, commit
from tests.twins.memory_clock import MemoryClock
from dags import Kind, Schema

folder, (kind, fatal, at, turn, rounds) = Path(sys.argv[1]), json.loads(sys.argv[2])
generator = (
    Rate(per_second=70)
    if kind == "rate"
    else Replay(
        path=folder / "a.jsonl", schema=Schema.of(n=Kind.INTEGER, at=Kind.TIMESTAMP), time_field="at", repeat=True
    )
)
calls = 0

def step(name):
    global calls
    calls += fatal in (name, "any")
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)

spool = Spool(folder / "spool", most_bytes=10**9, step=step)
clock = MemoryClock(1_000.0 + turn * 0.1)
generating = GeneratorRun(generator, spool, clock=clock)
for turn in range(turn, turn + rounds):
    while generating.work() == 0.0:
        pass
    print(json.dumps([turn, spool.end]), flush=True)
    if turn % 4 == 2:
        commit(folder / "spool", "job", max(spool.first, spool.end - 20))
        spool.prune()
    clock.advance(0.1)
"""


def _killed(folder: Path, kind: str, fatal: str, at: int, turn: int) -> tuple[int, int, bool]:
    """The turn and the position that it printed last, and whether it was killed."""
    ended = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", GENERATED, str(folder), json.dumps([kind, fatal, at, turn, 12])],
        stdout=subprocess.PIPE,
        check=False,
    )
    assert ended.returncode in {0, -signal.SIGKILL}
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return *(lines[-1] if lines else (turn, 0)), ended.returncode != 0


def _check(folder: Path, kind: str, reported: int) -> None:
    """Every number once, each with its time, and at least as many as were reported."""
    spool = Spool(folder / "spool", most_bytes=ROOMY)
    first, end, kept = spool.first, spool.end, spool.producers.get(GENERATOR)
    spool.close()
    assert end >= reported
    if kept is None:
        assert end == 0
        return
    assert end == kept.next
    period, rows = (0, 0) if kind == "rate" else (900, 90)
    for number, (n, at) in enumerate(events(read(folder / "spool", first, ROOMY)), first):
        if kind == "rate":
            assert (number, kept.epoch + -(-number * 1000 // 70)) == (n, at)
        else:
            assert (number % rows, number % rows * period // rows) == (n, at)


def _file(folder: Path) -> None:
    (folder / "a.jsonl").write_text("".join(f'{{"n": {n}, "at": {n * 10}}}\n' for n in range(90)))


@pytest.mark.parametrize("kind", ["rate", pytest.param("replay", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("fatal", "at"), [*((name, 2) for name in STEPS), ("open", 1), ("sync folder", 1)])
def test_a_generator_killed_at_a_step_doubles_and_omits_nothing(tmp_path: Path, fatal: str, at: int, kind: str) -> None:
    """Killed at the n-th step of any name and started again, a generator sends every number once, at its time."""
    _file(tmp_path)
    turn, end, killed = _killed(tmp_path, kind, fatal, at, 0)
    assert killed
    _check(tmp_path, kind, end)
    later, further, killed = _killed(tmp_path, kind, "none", 1, turn + 1)
    assert (turn + 12, False) == (later, killed)
    assert further > end
    _check(tmp_path, kind, further)


@pytest.mark.parametrize("kind", ["rate", "replay"])
def test_a_generator_killed_again_and_again_doubles_and_omits_nothing(tmp_path: Path, kind: str) -> None:
    """A series of kills at random steps leaves no hole and no double."""
    _file(tmp_path)
    chance, turn, end = random.Random(7), 0, 0
    for _ in range(5):
        turn, reported, _ = _killed(tmp_path, kind, "any", chance.randint(1, 50), turn)
        end = max(end, reported)
        _check(tmp_path, kind, end)
    assert end > 0
