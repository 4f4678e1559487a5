"""Sums of the counters of jobs and tasks, across restarts."""

from hypothesis import given
from hypothesis import strategies as st

from manager.observations.reports import InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.overview.metrics import SumAccumulator, Sums
from tests.manager.metrics.observed import running

TYPES = {1: "where", 2: "where", 3: "count"}


def job(*, run: int, done: dict[int, int], at: float = 100.0, age: float | None = None) -> JobSeen:
    """Return a job whose instances took so many events; it has read and sent as many as all of them."""
    every = sum(done.values())
    last = Measured(
        at=at,
        run=run,
        age=age,
        instances={number: InstanceMeasured(taken=taken, cpu_ns=taken) for number, taken in done.items()},
        streams={"s": StreamMeasured(entered=every)},
        left=every,
    )
    return running("1", last)


def added(*looks: dict[str, JobSeen]) -> Sums:
    adding = SumAccumulator()
    for jobs in looks:
        adding.look(jobs, TYPES, 50.0)
    return adding.sums


@given(st.lists(st.lists(st.dictionaries(st.sampled_from([1, 2, 3]), st.integers(0, 9)), max_size=4), max_size=4))
def test_sums_hold_all_growth_after_the_first_look(runs: list[list[dict[int, int]]]) -> None:
    """Whatever jobs restart and tasks come and go, nothing counts twice, and no sum falls."""
    adding, before = SumAccumulator(), 0
    adding.look({}, TYPES, 50.0)
    expected = {"where": 0, "count": 0}
    for run, growths in enumerate(runs, 1):
        done: dict[int, int] = {}
        for grown in growths:
            done = {number: done.get(number, 0) + more for number, more in (done | grown).items()}
            adding.look({"1": job(run=run, done=done, age=1.0)}, TYPES, 50.0)
            now = adding.sums.taken.total()
            assert before <= now
            before = now
        for number, taken in done.items():
            expected[TYPES[number]] += taken
    assert expected == {kind: adding.sums.taken[kind] for kind in expected}
    assert sum(expected.values()) == adding.sums.entered["1"] == adding.sums.left["1"]


def test_growth_before_the_first_look_does_not_count() -> None:
    """A new manager finds jobs that have run for long, whose counters would give a false rate."""
    old = job(run=3, done={1: 70}, age=80.0)
    assert 0 == added({"1": old}).taken["where"]
    assert 2 == added({"1": old}, {"1": job(run=3, done={1: 72}, age=81.0)}).taken["where"]


def test_the_work_of_a_job_that_is_gone_stays_in_the_sums() -> None:
    """The sums by type stay, and those of the job are no longer exposed."""
    sums = added({}, {"1": job(run=1, done={1: 5, 3: 1}, age=1.0)}, {})
    assert ({"where": 5, "count": 1}, {}) == (dict(sums.taken), dict(sums.entered))


def test_a_removed_task_is_skipped() -> None:
    """Its type is no longer known; the other tasks of its job count."""
    assert {"where": 2} == dict(added({}, {"1": job(run=1, done={1: 2, 9: 4}, age=1.0)}).taken)
