"""The looks at a job: how they end, how many there are, and what is kept for them."""

from engine.job.looks import MOST_SEEN_CHARACTERS, JobLooks
from engine.port_events import LONGEST_SHOWN, MOST_INSTANCES, MOST_SHOWN_EVENTS, PortSample, SampledPort, SeenPort


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def sample(*events: str, instance: int = 7, port: str = "in", count: int | None = None) -> PortSample:
    return PortSample(SampledPort(instance, port, is_input=True), len(events) if count is None else count, events)


def ports(looks: JobLooks) -> list[SeenPort]:
    return [port for seen in looks.news() for port in seen.ports]


def test_nothing_is_looked_at_or_kept_until_somebody_asks() -> None:
    """What comes without a look is dropped."""
    looks = JobLooks()
    looks.note([7], [sample("1")])
    assert ([], []) == (looks.instances(), [*looks.news()])


def test_a_look_ends_by_itself_with_all_that_was_kept_for_it() -> None:
    """Unless it is renewed; one that begins again begins with nothing."""
    clock = Clock()
    looks = JobLooks(clock)
    looks.renew(7, 10.0)
    clock.now = 9.0
    looks.renew(7, 10.0)
    clock.now = 18.0
    assert [7] == looks.instances()
    looks.note([7], [sample("1")])
    clock.now = 19.0
    assert ([], []) == (looks.instances(), [*looks.news()])
    looks.renew(7, 10.0)
    assert [] == ports(looks)


def test_no_more_instances_are_looked_at_than_a_job_bears() -> None:
    """Those that are stay, and another finds room once one of them has ended."""
    clock = Clock()
    looks = JobLooks(clock)
    for instance in range(MOST_INSTANCES + 3):
        looks.renew(instance, 10.0 if instance else 5.0)
    assert [*range(MOST_INSTANCES)] == looks.instances()
    clock.now = 6.0
    looks.renew(99, 10.0)
    assert [*range(1, MOST_INSTANCES), 99] == looks.instances()


def test_the_newest_events_of_all_batches_are_news_once() -> None:
    """A batch without any is news too, since it says that nobody has to wait for one."""
    looks = JobLooks()
    looks.renew(7, 10.0)
    looks.note([7], [])
    assert [(7, ())] == [(seen.instance, seen.ports) for seen in looks.news()]
    assert [] == [*looks.news()]
    looks.note([7], [sample("1", "2", count=50)])
    looks.note([7], [sample(*map(str, range(3, 3 + MOST_SHOWN_EVENTS - 1)))])
    (port,) = ports(looks)
    assert ("in", True, 50 + MOST_SHOWN_EVENTS - 1) == (port.port, port.is_input, port.count)
    assert [*map(str, range(2, 2 + MOST_SHOWN_EVENTS))] == [seen.event for seen in port.newest]


def test_what_is_kept_of_an_instance_is_bounded_over_all_its_ports() -> None:
    """The newest stay where there is room."""
    looks = JobLooks()
    looks.renew(7, 10.0)
    many = 10
    for _ in range(2):
        long = ["x" * LONGEST_SHOWN] * MOST_SHOWN_EVENTS
        looks.note([7], [sample(*long, port=str(port)) for port in range(many)])
    kept = ports(looks)
    assert {MOST_SEEN_CHARACTERS // many // LONGEST_SHOWN} == {len(port.newest) for port in kept}
    assert {2 * MOST_SHOWN_EVENTS} == {port.count for port in kept}
