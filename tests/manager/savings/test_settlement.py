"""Laws of shares and baselines: they hold for any usage, in the steps of any interval."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from manager.savings.counters import CounterGrowth, Usage
from manager.savings.ledger import (
    HOUR,
    KEPT,
    LONGEST_STEP,
    MINUTE,
    MOST_POINTS,
    NO_SHARE,
    points,
    steps,
)
from manager.savings.settlement import (
    CostSplit,
    CpuEstimate,
    MeteredShare,
    Price,
    Settlement,
    Whole,
    Work,
    combined,
    packed_groups,
    saved_cpu,
    settle,
    split,
)

DATAFLOWS = ("a", "b", "c", "d")
PRICE = Price(batch=0.06, batch_low=0.04, batch_high=0.08, bridge=0.01, paused=0.0001, pace=1.0)
SECOND = 10**9


def usage(tasks: dict[int, tuple[str, ...]], jobs: dict[int, str], **more: int) -> Usage:
    """Return the usage of tasks that each run in a job; each dataflow reads a stream of its own name."""
    users = sorted({dataflow for those in tasks.values() for dataflow in those})
    homes = {each: frozenset(jobs[task] for task, those in tasks.items() if each in those) for each in users}
    return Usage(
        tenants={each: f"tenant of {each}" for each in users},
        tasks=tasks,
        jobs={job: tuple(each for each in users if job in homes[each]) for job in sorted(set(jobs.values()))},
        homes=homes,
        streams={each: frozenset({each}) for each in users},
        bridges=tuple(tasks[task] for task in sorted(tasks)[: more.get("bridges", 0)]),
        paused=more.get("paused", 0),
    )


@st.composite
def times(draw: st.DrawFn) -> CostSplit:
    """Draw a time in which some tasks ran in some jobs for some dataflows; the measured CPU may be less than theirs."""
    users = st.sets(st.sampled_from(DATAFLOWS), min_size=1).map(lambda each: tuple(sorted(each)))
    tasks = draw(st.dictionaries(st.integers(1, 6), users, min_size=1))
    jobs = {task: draw(st.sampled_from("xyz")) for task in tasks}
    used = usage(tasks, jobs, bridges=draw(st.integers(0, len(tasks))), paused=draw(st.integers(0, 5)))
    count = st.integers(0, 10)
    growth = CounterGrowth(
        seconds=draw(st.floats(0.5, 10.0)),
        cpu={part: draw(st.integers(0, 10**10)) for part in ("driver", "jvm", "worker")},
        tasks={task: draw(st.integers(0, 10**9)) for task in tasks},
        batches={job: draw(count) for job in used.jobs},
        entered={dataflow: draw(count) for dataflow in used.homes},
    )
    return split(growth, used, used, pace=1.0)


def shares(settled: Settlement) -> dict[str, int]:
    return {dataflow: share.cpu for dataflow, share in settled.shares.items()}


@given(times(), times())
def test_shares_and_overhead_are_the_measured_whole(one: CostSplit, two: CostSplit) -> None:
    """They add up to the nanosecond, none is negative, and no share exceeds its stand-alone estimate."""
    for settled in (settle(one, PRICE), settle(combined((one, two)), PRICE)):
        assert sum(settled.cpu.values()) == sum(shares(settled).values()) + settled.overhead
        assert 0 <= settled.overhead
        for share in settled.shares.values():
            assert 0 <= share.cpu <= share.alone.likely


@given(times())
def test_estimates_lie_between_their_bounds(done: CostSplit) -> None:
    """That holds for each stand-alone estimate and for both baselines."""
    settled = settle(done, PRICE)
    for each in (settled.launched, settled.packed, *(share.alone for share in settled.shares.values())):
        assert 0 <= each.low <= each.likely <= each.high
    for share in settled.shares.values():
        assert 0 <= share.saving.low <= share.saving.likely <= share.saving.high
        assert share.alone.likely == share.cpu + share.saving.likely


@given(times())
def test_work_is_that_of_tasks_with_and_without_sharing(done: CostSplit) -> None:
    """The shares of it do not exceed the work done; dataflows without measured CPU are left out."""
    settled = settle(done, PRICE)
    assert settled.work.done == done.tasks <= settled.work.alone
    shares = settled.shares.values()
    assert sum(share.work.alone for share in shares) <= settled.work.alone
    assert sum(share.work.done for share in shares) <= settled.work.done
    assert all(share.work.done <= share.work.alone for share in shares)


@given(times())
def test_what_sharing_and_packing_saved_is_what_running_alone_adds(done: CostSplit) -> None:
    """Of each dataflow and of all, each nanosecond once; nothing is said of sharing where no work was shared."""
    settled = settle(done, PRICE)
    measured = sum(settled.cpu.values())
    kept = [(settled.work, settled.launched, measured, settled.launched.less(measured))]
    kept += [(share.work, share.alone, share.cpu, share.saving) for share in settled.shares.values()]
    for work, alone, cpu, difference in kept:
        saved = saved_cpu(work, difference)
        assert alone.likely == cpu + (saved.by_sharing or 0) + saved.by_packing.likely
        assert (work.alone == work.done) == (saved.by_sharing is None) == (saved.work_by_sharing is None)


@given(times())
def test_packing_takes_no_more_than_launching(done: CostSplit) -> None:
    """Fewer jobs than dataflows do no more batches than one job for each."""
    settled = settle(done, PRICE)
    assert settled.packed.likely <= settled.launched.likely


@given(st.permutations(DATAFLOWS), times())
def test_shares_are_independent_of_names(names: list[str], done: CostSplit) -> None:
    """A renamed dataflow pays the same, so equals pay the same."""
    new = dict(zip(DATAFLOWS, names, strict=True))
    renamed = replace(
        done,
        dataflows={new[each]: taken for each, taken in done.dataflows.items()},
        tenants={new[each]: tenant for each, tenant in done.tenants.items()},
        homes={new[each]: homes for each, homes in done.homes.items()},
    )
    assert {new[each]: cpu for each, cpu in shares(settle(done, PRICE)).items()} == shares(settle(renamed, PRICE))


def test_equals_pay_the_same() -> None:
    """Two dataflows with the same tasks in the same job, and the same streams, pay the same to the nanosecond."""
    used = usage({1: ("a", "b", "c"), 2: ("a", "b")}, {1: "x", 2: "x"})
    growth = CounterGrowth(
        seconds=5.0,
        cpu={"jvm": 5 * SECOND},
        tasks={1: 1_000_000_001, 2: 7},
        batches={"x": 5},
        entered=dict.fromkeys("abc", 50),
    )
    found = shares(settle(split(growth, used, used, pace=1.0), PRICE))
    assert found["a"] == found["b"] > found["c"] > 0


def test_shared_work_is_divided_and_counts_whole_alone() -> None:
    """A task of three dataflows is a third of each one's work, and a task of one dataflow is all of it."""
    used = usage({1: ("a", "b", "c"), 2: ("a",)}, {1: "x", 2: "x"})
    growth = CounterGrowth(seconds=5.0, cpu={"jvm": 5 * SECOND}, tasks={1: 3 * SECOND, 2: SECOND})
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    assert Work(done=4 * SECOND, alone=10 * SECOND) == settled.work
    assert Work(done=2 * SECOND, alone=4 * SECOND) == settled.shares["a"].work
    assert Work(done=SECOND, alone=3 * SECOND) == settled.shares["b"].work


def test_a_dataflow_that_uses_nothing_pays_nothing() -> None:
    """Without active tasks and without events, it pays for no batch of others."""
    used = usage({1: ("a",), 2: ("b",)}, {1: "x", 2: "x"})
    growth = CounterGrowth(seconds=5.0, cpu={"jvm": 5 * SECOND}, tasks={1: SECOND}, batches={"x": 5}, entered={"a": 9})
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    assert ["a"] == list(settled.shares)
    assert settled.overhead == 5 * SECOND - settled.shares["a"].cpu


TASKS = st.dictionaries(
    st.integers(1, 6),
    st.tuples(st.sets(st.sampled_from(DATAFLOWS), min_size=1), st.integers(0, 100).map(lambda each: each * 12)),
    min_size=1,
)


@given(TASKS)
def test_tasks_are_split_by_the_shapley_value(tasks: dict[int, tuple[set[str], int]]) -> None:
    """A share is the cost that a dataflow adds to those before it, averaged over all orders."""
    used = usage({task: tuple(sorted(users)) for task, (users, _) in tasks.items()}, dict.fromkeys(tasks, "x"))
    done = split(
        CounterGrowth(seconds=1.0, tasks={task: cost for task, (_, cost) in tasks.items()}), used, used, pace=1.0
    )

    def cost(group: tuple[str, ...]) -> int:
        return sum(taken for users, taken in tasks.values() if users & set(group))

    orders = list(permutations(used.homes))
    for dataflow, taken in done.dataflows.items():
        before = [order[: order.index(dataflow)] for order in orders]
        added = sum(cost((*group, dataflow)) - cost(group) for group in before)
        assert Fraction(added, len(orders)) == taken.tasks


@given(st.integers(0, 10**9), st.integers(0, 10), st.integers(0, 10**10))
def test_a_dataflow_that_is_alone_saves_nothing(task: int, batches: int, idle: int) -> None:
    """It pays its stand-alone cost, and separate execution equals the measured whole."""
    used = usage({1: ("a",)}, {1: "x"})
    measured = task + idle
    growth = CounterGrowth(seconds=5.0, cpu={"jvm": measured}, tasks={1: task}, batches={"x": batches})
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    for baseline in (settled.launched, settled.packed):
        assert (measured, measured, measured) == (baseline.low, baseline.likely, baseline.high)
    for share in settled.shares.values():
        assert share.cpu == share.alone.likely
        assert (0, 0, 0) == (share.saving.low, share.saving.likely, share.saving.high)


@given(st.integers(1, 4))
def test_packing_without_sharing_saves_by_packing_only(count: int) -> None:
    """Dataflows that share a job but no task save all jobs but one, and nothing by sharing."""
    names = DATAFLOWS[:count]
    used = usage({at: (name,) for at, name in enumerate(names)}, dict.fromkeys(range(count), "x"))
    growth = CounterGrowth(
        seconds=5.0,
        cpu={"jvm": 10 * SECOND},
        tasks=dict.fromkeys(range(count), SECOND // 10),
        batches={"x": 5},
        entered=dict.fromkeys(names, 100),
    )
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    assert sum(settled.cpu.values()) == settled.packed.likely
    assert (count - 1) * 5 * 60_000_000 == settled.launched.likely - settled.packed.likely
    for share in settled.shares.values():
        saved = saved_cpu(share.work, share.saving)
        assert (None, share.saving) == (saved.by_sharing, saved.by_packing)
        assert (count > 1) == (share.saving.likely > 0)


def test_a_shared_task_is_saved_by_sharing() -> None:
    """A task of two dataflows saves its CPU once, half for each, besides what packing saves."""
    used = usage({1: ("a", "b")}, {1: "x"})
    growth = CounterGrowth(
        seconds=5.0, cpu={"jvm": 10 * SECOND}, tasks={1: SECOND}, batches={"x": 5}, entered={"a": 100, "b": 100}
    )
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    assert SECOND == settled.packed.likely - sum(settled.cpu.values())
    batches = 5 * 60_000_000
    assert {(SECOND + batches) // 2} == set(shares(settled).values())
    assert {SECOND + batches} == {share.alone.likely for share in settled.shares.values()}
    for share in settled.shares.values():
        saved = saved_cpu(share.work, share.saving)
        assert (0.5, SECOND // 2, batches // 2) == (saved.work_by_sharing, saved.by_sharing, saved.by_packing.likely)


def test_prices_never_exceed_the_measured_cpu() -> None:
    """A batch priced above the CPU that tasks left costs that CPU, and nothing is left over."""
    used = usage({1: ("a",)}, {1: "x"})
    growth = CounterGrowth(seconds=5.0, cpu={"jvm": 1_000}, tasks={1: 400}, batches={"x": 6})
    settled = settle(split(growth, used, used, pace=1.0), PRICE)
    assert (1_000, 0) == (settled.shares["a"].cpu, settled.overhead)


def test_jobs_hold_no_more_than_their_capacity() -> None:
    """Dataflows are packed by their stand-alone loads; a batch may take half of the pace."""
    used = usage({at: (name,) for at, name in enumerate(DATAFLOWS)}, dict.fromkeys(range(4), "x"))
    takes = dict(enumerate((4 * SECOND, SECOND, SECOND, SECOND)))
    growth = CounterGrowth(
        seconds=5.0, cpu={"worker": 9 * SECOND}, tasks=takes, batches={"x": 5}, entered=dict.fromkeys(DATAFLOWS, 9)
    )
    # 0.8 and three times 0.2 cores, where a job holds 0.44.
    assert [["a"], ["b", "c"], ["d"]] == packed_groups(split(growth, used, used, pace=1.0), PRICE)


def test_a_task_counts_for_its_last_user() -> None:
    """Work until a dataflow was removed is that dataflow's, and work without users belongs to none."""
    before = usage({1: ("a", "b"), 2: ("b",)}, {1: "x", 2: "x"})
    after = usage({1: ("a",)}, {1: "x"})
    growth = CounterGrowth(seconds=1.0, cpu={"worker": 1_000}, tasks={1: 100, 2: 10, 3: 1})
    settled = settle(split(growth, before, after, pace=1.0), PRICE)
    assert {"a": 100, "b": 10} == shares(settled)
    assert 890 == settled.overhead


NOW = 490_000 * HOUR + 1_234.5


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@given(
    st.floats(0.0, 500.0 * 24 * HOUR),
    st.floats(1.0, 500.0 * 24 * HOUR),
    st.none() | st.integers(MINUTE, LONGEST_STEP),
)
def test_steps_cover_the_interval(back: float, length: float, step: int | None) -> None:
    """They are whole minutes that are kept, or whole hours, and at least as long as requested."""
    begin = NOW - back
    end = min(begin + length, NOW)
    found = steps(at(begin), at(end), step, NOW)
    within = found.interval
    assert within.since <= begin <= end <= within.until
    assert 0 == within.since % found.step == within.until % found.step == found.step % within.span
    assert found.step >= (step or MINUTE)
    assert within.span == HOUR or (within.span == MINUTE and within.since >= NOW - KEPT + MINUTE)
    assert step is not None or found.count <= MOST_POINTS + 1


def test_the_default_step_gives_a_readable_chart() -> None:
    """The last hour has steps of a minute, and a month has steps of six hours."""
    assert (MINUTE, 61) == ((last := steps(None, None, None, NOW)).step, last.count)
    month = steps(at(NOW - 30 * 24 * HOUR), None, None, NOW)
    assert (6 * HOUR, 121) == (month.step, month.count)


def test_unmetered_steps_have_points() -> None:
    """There is one point per step, in order; metered minutes are added up, and unmetered ones have no values."""
    wanted = steps(at(NOW - 600), at(NOW), 5 * MINUTE, NOW)
    begin = wanted.interval.since
    whole = Whole(seconds=60.0, cpu={"jvm": 60 * 10**9}, launched=CpuEstimate(low=1, likely=180 * 10**9, high=3))
    share = MeteredShare(cpu=30 * 10**9, alone=CpuEstimate(likely=60 * 10**9), saving=CpuEstimate())
    metered = [(begin, whole), (begin + MINUTE, whole)]
    found = points(wanted, metered, [(begin, share)], whole_too=True, price_per_core_hour=None)
    assert [begin + number * 300 for number in range(wanted.count)] == [int(each.at.timestamp()) for each in found]
    first, *rest = found
    assert first.measured is not None
    assert first.alone_launched is not None
    assert first.share is not None
    assert (120.0, 1.0, 3.0, 0.25) == (
        first.metered_seconds,
        first.measured.cores,
        first.alone_launched.likely,
        first.share.cores,
    )
    assert {(0.0, None, None)} == {(each.metered_seconds, each.measured, each.share) for each in rest}
    (own, *_) = points(wanted, metered, [], whole_too=False, price_per_core_hour=None)
    assert (None, None, None) == (own.measured, own.alone_launched, own.alone_packed)
    assert own.share is not None
    assert NO_SHARE.cpu == own.share.cpu_ns
