"""Counters: their growth between two looks, and the users that it is shared among."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.savings.counters import BrokerCpu, CounterGrowth, Counters, counters, growth, running_snapshot, usage_of
from tests.manager.managers import Manager

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = 10**9


def host(name: str = "north", **cpu: float) -> HostSeen:
    return HostSeen(host=name, alive=True, cpu=cpu, seen=NOW)


def job(cpu: int, *, at: float, run: int = 1, batch: int = 0, age: float | None = None) -> JobSeen:
    """Return a job with one task that took so much CPU and so many events."""
    measured = Measured(
        at=at,
        run=run,
        age=age,
        batch=batch,
        instances={7: InstanceMeasured(cpu_ns=cpu)},
        streams={"s": StreamMeasured(entered=cpu)},
    )
    return JobSeen(job="1", host="north", state="running", measured=(measured,), seen=NOW)


def seen(before: Counters | None, at: float, *hosts: HostSeen, **jobs: JobSeen) -> Counters:
    return counters(before, at, hosts, {each.job: each for each in jobs.values()}, there=("1",))


def test_only_new_growth_counts() -> None:
    """Hosts and jobs that ran before the first look count from there."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0), a=job(300, at=100.0, batch=4, age=90.0))
    then = seen(first, 105.0, host(driver=6.0, jvm=11.5), a=job(500, at=105.0, batch=7, age=95.0))
    assert growth(first, then) == CounterGrowth(
        seconds=5.0, cpu={"driver": SECOND, "jvm": 2_500_000_000}, tasks={7: 200}, batches={"1": 3}, entered={"s": 200}
    )


def test_a_new_job_counts_from_its_start() -> None:
    """One that started since the first look counts whole; an older one counts only from its first report."""
    first = seen(None, 100.0)
    young = growth(first, seen(first, 105.0, a=job(300, at=105.0, batch=2, age=4.0)))
    assert ({7: 300}, {"1": 3}, {"s": 300}) == (young.tasks, young.batches, young.entered)
    for age in (5.1, None):
        old = seen(first, 105.0, a=job(300, at=105.0, batch=2, age=age))
        assert {} == growth(first, old).tasks
        assert {7: 1} == growth(old, seen(old, 110.0, a=job(301, at=110.0, batch=2))).tasks


def test_a_restarted_job_counts_from_its_restart() -> None:
    """All its counters start again, but batch numbers continue."""
    first = seen(None, 100.0, a=job(300, at=100.0, batch=4))
    then = seen(first, 105.0, a=job(20, at=105.0, run=2, batch=6))
    assert ({7: 20}, {"1": 2}, {"s": 20}) == (
        growth(first, then).tasks,
        growth(first, then).batches,
        growth(first, then).entered,
    )


def test_a_restarted_host_counts_from_its_restart() -> None:
    """A lower counter of any process shows the restart."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0, worker=1.0))
    then = seen(first, 105.0, host(driver=0.5, jvm=9.5))
    assert {"driver": SECOND // 2, "jvm": 9_500_000_000} == growth(first, then).cpu


def test_a_silent_job_or_host_continues_from_its_last_report() -> None:
    """Its growth counts once, when it reports again."""
    first = seen(None, 100.0, host(driver=5.0), a=job(300, at=100.0, batch=4))
    silent = seen(first, 105.0, HostSeen(host="north", alive=False, seen=NOW))
    again = seen(silent, 110.0, host(driver=7.0), a=job(310, at=110.0, batch=5, age=1.0))
    assert ({}, {}) == (growth(first, silent).tasks, growth(first, silent).batches)
    assert ({"driver": 0}, {"driver": 2 * SECOND}) == (growth(first, silent).cpu, growth(silent, again).cpu)
    assert ({7: 10}, {"1": 1}) == (growth(silent, again).tasks, growth(silent, again).batches)


def test_a_restarted_broker_counts_as_a_new_process() -> None:
    """CPU that it took before the first look does not count."""

    def broker(before: Counters | None, at: float, pid: int, seconds: float) -> Counters:
        taken = BrokerCpu(pid=pid, began=str(pid), seconds=seconds)
        return counters(before, at, (), {}, there=(), broker=taken)

    first = broker(None, 100.0, 1, 50.0)
    second = broker(first, 105.0, 1, 51.0)
    gone = counters(second, 110.0, (), {}, there=())
    third = broker(gone, 115.0, 2, 0.5)
    assert [SECOND, 0, SECOND // 2] == [
        growth(one, two).cpu["broker"] for one, two in ((first, second), (second, gone), (gone, third))
    ]


def test_unknown_parts_count_as_workers() -> None:
    """Hosts of other releases may report other parts."""
    first = seen(None, 100.0, host(driver=1.0, gpu=1.0))
    assert {"driver": 0, "worker": SECOND} == growth(first, seen(first, 105.0, host(driver=1.0, gpu=2.0))).cpu


@given(
    st.lists(
        st.one_of(
            st.just("restart"),
            st.dictionaries(st.sampled_from(["driver", "jvm"]), st.integers(0, 1_000), min_size=1),
        ),
        max_size=20,
    )
)
def test_no_growth_counts_twice(steps: list[str | Mapping[str, int]]) -> None:
    """Whatever hosts restart, growth is never negative, and its sum never exceeds the CPU taken."""
    taken, reported = 0, {"driver": 0, "jvm": 0}
    last = first = seen(None, 0.0, host(driver=0.0, jvm=0.0))
    found = 0
    for at, step in enumerate(steps, 1):
        reported = (
            {"driver": 0, "jvm": 0}
            if isinstance(step, str)
            else {part: seconds + step.get(part, 0) for part, seconds in reported.items()}
        )
        taken += 0 if isinstance(step, str) else sum(step.values())
        following = seen(last, float(at), host(driver=float(reported["driver"]), jvm=float(reported["jvm"])))
        more = growth(last, following).cpu
        assert all(each >= 0 for each in more.values())
        found += sum(more.values())
        last = following
    assert found == taken * SECOND
    assert 0.0 == first.since == last.since


def test_tasks_jobs_and_bridges_have_their_users(sqlite: str) -> None:
    """Sources have none, and a bridge is used by those whose events it carries into a job of theirs."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann", "bob")
    manager.register("weather")
    ann = manager.submit("ann", "s:source > a:map > k:sink")
    bob = manager.submit("bob", "s:source > a:map > b:map > k:sink")
    with manager.committer.looking() as state:
        use = usage_of(running_snapshot(state))
        shared = next(each for each, users in state.running.users.items() if len(users) == 2 and each in use.tasks)
        sources = {each for each, task in state.running.tasks.items() if not task.inputs}
    assert {ann: "ann", bob: "bob"} == use.tenants
    assert tuple(sorted((ann, bob))) == use.tasks[shared]
    assert sources.isdisjoint(use.tasks)
    assert {ann: frozenset({"1"}), bob: frozenset({"1", "2"})} == use.homes
    assert {"1": tuple(sorted((ann, bob))), "2": (bob,)} == use.jobs
    assert ((bob,),) == use.bridges
    assert use.streams[ann] == use.streams[bob]
    manager.close()
