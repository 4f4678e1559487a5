"""Laws of the queue of reconfigurations: the order of the requests where they meet, and nobody waits for ever."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from manager.kernel.transitions import Comer, Phase, Reconfiguration, meeting
from manager.reconfigurations.request import ahead, in_the_way, queue_place
from merge import JobId

_JOBS = st.frozensets(st.integers(0, 4).map(JobId), min_size=1, max_size=3)
_NEXT = {
    Phase.WAITING: Phase.PREPARING,
    Phase.PREPARING: Phase.SWITCHING,
    Phase.SWITCHING: Phase.PROVING,
    Phase.PROVING: Phase.DONE,
}


class Queue:
    """Reconfigurations that are asked for and go on, by the rules alone."""

    def __init__(self) -> None:
        self.under_way: dict[int, Reconfiguration] = {}
        self.jobs: list[frozenset[JobId]] = []
        self.begun: list[int] = []
        """The numbers in the order in which they began."""

    def ask(self, jobs: frozenset[JobId]) -> None:
        number = len(self.jobs)
        self.jobs.append(jobs)
        asked = reconfiguration(number, jobs)
        if meeting(Comer.RECONFIGURATION, asked.scope, self.under_way.values()) is None:
            asked = replace(asked, phase=Phase.PREPARING)
            self.begun.append(number)
        self.under_way[number] = asked

    def go_on(self, number: int) -> bool:
        """Take one on by a phase, if it may."""
        current = self.under_way[number]
        if current.phase is Phase.WAITING:
            if in_the_way(current, self.under_way.values()):
                return False
            # What the reconciler clears the committer lets through as well.
            assert meeting(Comer.RECONFIGURATION, current.scope, ahead(current, self.under_way.values())) is None
            self.begun.append(number)
        self.under_way[number] = replace(current, phase=_NEXT[current.phase])
        if self.under_way[number].phase is Phase.DONE:
            del self.under_way[number]
        return True


def reconfiguration(number: int, jobs: frozenset[JobId]) -> Reconfiguration:
    """One that waits."""
    nothing = frozenset[JobId]()
    return Reconfiguration(
        id=number,
        phase=Phase.WAITING,
        since=0.0,
        begun=0.0,
        dataflows=(),
        jobs=jobs,
        awaiting=nothing,
        sources=frozenset(),
        instances=frozenset(),
        changed=frozenset(),
        watched=frozenset(),
    )


@given(steps=st.lists(st.one_of(_JOBS, st.integers(0, 20)), max_size=40))
def test_those_that_meet_begin_in_the_order_of_the_requests(steps: list[frozenset[JobId] | int]) -> None:
    """Whenever they are asked for and go on; those that do not meet wait for nobody, and in the end all are over."""
    queue = Queue()
    for step in steps:
        if isinstance(step, frozenset):
            queue.ask(step)
        elif queue.under_way:
            queue.go_on(sorted(queue.under_way)[step % len(queue.under_way)])
        for number, waiting_one in queue.under_way.items():
            if waiting_one.phase is Phase.WAITING:
                assert _reached(queue, number) == {other.id for other in queue_place(waiting_one, _every(queue)).behind}
                assert (
                    1 + sum(queue.under_way[other].phase is Phase.WAITING for other in _reached(queue, number))
                    == queue_place(waiting_one, _every(queue)).place
                )
    while queue.under_way:
        assert any(queue.go_on(number) for number in sorted(queue.under_way))
    place = {number: at for at, number in enumerate(queue.begun)}
    assert len(queue.jobs) == len(place)
    for first, second in combinations(range(len(queue.jobs)), 2):
        if queue.jobs[first] & queue.jobs[second]:
            assert place[first] < place[second]


def _every(queue: Queue) -> tuple[Reconfiguration, ...]:
    return tuple(queue.under_way.values())


def _reached(queue: Queue, number: int) -> set[int]:
    """Those before it, not switched yet, that it meets, or that one of these which waits meets; by definition."""
    reached: set[int] = set()
    for other in range(number - 1, -1, -1):
        current = queue.under_way.get(other)
        if current is None or current.phase is Phase.PROVING:
            continue
        waiting = {number} | {
            waiting_one for waiting_one in reached if queue.under_way[waiting_one].phase is Phase.WAITING
        }
        if any(queue.jobs[waiting_one] & queue.jobs[other] for waiting_one in waiting):
            reached.add(other)
    return reached
