"""What was done between two looks, by counters that begin anew."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured
from manager.savings.counter_growth import BrokerCpu, CounterGrowth, Counters, counters, growth

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SECOND = 10**9


def host(name: str = "north", **cpu: float) -> HostSeen:
    return HostSeen(host=name, alive=True, cpu=cpu, seen=NOW)


def job(cpu: int, *, at: float, run: int = 1, batch: int = 0, age: float | None = None) -> JobSeen:
    """A job with one task, which took so much and as many events."""
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


def test_only_what_is_new_counts() -> None:
    """Of hosts and jobs that had run before the first look, what they did since then."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0), a=job(300, at=100.0, batch=4, age=90.0))
    then = seen(first, 105.0, host(driver=6.0, jvm=11.5), a=job(500, at=105.0, batch=7, age=95.0))
    assert growth(first, then) == CounterGrowth(
        seconds=5.0, cpu={"driver": SECOND, "jvm": 2_500_000_000}, tasks={7: 200}, batches={"1": 3}, entered={"s": 200}
    )


def test_a_job_that_begins_counts_from_its_beginning() -> None:
    """One that began since the first look counts whole, its first batch too; of an older one only what follows."""
    first = seen(None, 100.0)
    young = growth(first, seen(first, 105.0, a=job(300, at=105.0, batch=2, age=4.0)))
    assert ({7: 300}, {"1": 3}, {"s": 300}) == (young.tasks, young.batches, young.entered)
    for age in (5.1, None):
        old = seen(first, 105.0, a=job(300, at=105.0, batch=2, age=age))
        assert {} == growth(first, old).tasks
        assert {7: 1} == growth(old, seen(old, 110.0, a=job(301, at=110.0, batch=2))).tasks


def test_a_job_that_is_started_again_counts_anew() -> None:
    """All that it took since then, but its batches go on where they were."""
    first = seen(None, 100.0, a=job(300, at=100.0, batch=4))
    then = seen(first, 105.0, a=job(20, at=105.0, run=2, batch=6))
    assert ({7: 20}, {"1": 2}, {"s": 20}) == (
        growth(first, then).tasks,
        growth(first, then).batches,
        growth(first, then).entered,
    )


def test_a_host_that_is_started_again_counts_anew() -> None:
    """All that its processes took since then, told by any of them having taken less."""
    first = seen(None, 100.0, host(driver=5.0, jvm=9.0, worker=1.0))
    then = seen(first, 105.0, host(driver=0.5, jvm=9.5))
    assert {"driver": SECOND // 2, "jvm": 9_500_000_000} == growth(first, then).cpu


def test_who_is_silent_goes_on_where_it_was() -> None:
    """A job or host of which nothing is heard for a while is counted once, when it is heard again."""
    first = seen(None, 100.0, host(driver=5.0), a=job(300, at=100.0, batch=4))
    silent = seen(first, 105.0, HostSeen(host="north", alive=False, seen=NOW))
    again = seen(silent, 110.0, host(driver=7.0), a=job(310, at=110.0, batch=5, age=1.0))
    assert ({}, {}) == (growth(first, silent).tasks, growth(first, silent).batches)
    assert ({"driver": 0}, {"driver": 2 * SECOND}) == (growth(first, silent).cpu, growth(silent, again).cpu)
    assert ({7: 10}, {"1": 1}) == (growth(silent, again).tasks, growth(silent, again).batches)


def test_a_broker_that_is_started_again_counts_anew() -> None:
    """As another process; what it took before the first look does not count."""

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


def test_what_a_host_calls_otherwise_is_counted() -> None:
    """Parts that a host of another release tells are counted among its workers."""
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
def test_no_look_counts_what_another_counted(steps: list[str | Mapping[str, int]]) -> None:
    """However hosts go on and are started again: never below nothing, and in all no more than they took."""
    taken, told = 0, {"driver": 0, "jvm": 0}
    last = first = seen(None, 0.0, host(driver=0.0, jvm=0.0))
    found = 0
    for at, step in enumerate(steps, 1):
        told = (
            {"driver": 0, "jvm": 0}
            if isinstance(step, str)
            else {part: seconds + step.get(part, 0) for part, seconds in told.items()}
        )
        taken += 0 if isinstance(step, str) else sum(step.values())
        following = seen(last, float(at), host(driver=float(told["driver"]), jvm=float(told["jvm"])))
        more = growth(last, following).cpu
        assert all(each >= 0 for each in more.values())
        found += sum(more.values())
        last = following
    assert found == taken * SECOND
    assert 0.0 == first.since == last.since
