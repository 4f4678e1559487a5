"""Moves, driven on: what is due of one by what is seen of the jobs. Pure; its life is in `manager.transitions.life`.

A move that does not come on is hindered: it may be prepared and cut for a while only, because others wait for it. Once
the jobs that take over were told, one that cannot come is waited for as any other, since it may have begun. Only where
all have refused has none begun.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from engine.job.lifecycle import JobState
from engine.plan import CutRequest
from manager.committed.wanted import Moving
from manager.observations.listener import JobSight, Sight
from manager.observations.reports import JobSeen
from manager.reconciler.drains import Wish, may_wish, taken
from manager.reconciler.job_decisions import has_taken_up
from manager.transitions.life import Phase, TransitionEvent
from manager.transitions.move import MOVE_CUTS, Move
from merge import JobId

PREPARING = 60.0
"""Seconds that jobs have to be ready; a new one starts in a few, on a host that starts too in some more."""
CUTTING = 20.0
"""Seconds that a cut may take; hosts give it up after thirty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something has happened to a move; the committer is to take it on."""

    move: Move
    event: TransitionEvent
    why: str = ""
    passed: Mapping[JobId, Mapping[str, int]] = field(default_factory=dict)
    """For each job that has passed the cut where it lies in its streams."""


def go_on(moving: Iterable[Moving], sight: Sight, wished: Mapping[str, float], now: float) -> Iterator[Wish | Turn]:
    """What is due: a cut to take, a turn, and cuts whose states nobody needs any more."""
    alive = [host for _, host in sorted(sight.hosts.items()) if host.alive]
    seen = [job.seen for job in sight.jobs.values() if job.seen is not None]
    kept = {cut for job in seen for cut in job.cuts if cut.startswith(MOVE_CUTS)}
    needed = set[str]()
    for each in moving:
        move = each.move
        needed.add(move.cut)
        if (turn := _turn(each, sight, now)) is not None:
            yield turn
        elif move.phase is Phase.CUTTING and may_wish(move.cut, wished, now):
            yield from taken(move.cut, each.streams, alive)
    for cut in sorted(kept - needed):
        # What a job emitted until the cut is to be sent before it may be stopped.
        if any(job.published <= job.cut_batches[cut] for job in seen if cut in job.cuts):
            continue
        if may_wish(_released(cut), wished, now):
            yield from (Wish(host=host.host, wish=CutRequest(cut=cut, release=True)) for host in alive)


def wish_of(wish: CutRequest) -> str:
    """Under what it is remembered that something was wished for; a cut and its release are two things."""
    return _released(wish.cut) if wish.release else wish.cut


def _released(cut: str) -> str:
    return f"release {cut}"


def _turn(moving: Moving, sight: Sight, now: float) -> Turn | None:
    jobs = _Jobs(moving, sight)
    move = moving.move
    match move.phase:
        case Phase.PREPARING if jobs.are_ready():
            return Turn(move=move, event=TransitionEvent.READY)
        case Phase.CUTTING if jobs.have_passed():
            return Turn(move=move, event=TransitionEvent.PASSED, passed=jobs.positions())
        case Phase.TAKING | Phase.RETURNING if jobs.have_begun():
            return Turn(move=move, event=TransitionEvent.BEGUN)
    if (why := jobs.hindrance(now - move.since)) is not None:
        return Turn(move=move, event=TransitionEvent.HINDERED, why=why)
    return None


class _Jobs:
    """The jobs that a move is about, as they are seen."""

    def __init__(self, moving: Moving, sight: Sight) -> None:
        self._moving = moving
        self._move = moving.move
        self._sight = sight

    def are_ready(self) -> bool:
        """Whether those that are left know where to end, and the new ones are warm."""
        return all(map(self._knows, self._move.left)) and all(map(self._runs, self._move.opens))

    def have_passed(self) -> bool:
        """Whether all that moves has passed the cut; then nothing of it is under way between jobs."""
        positions = self.positions()
        return all(job in positions and self._lets_go(job) for job in self._move.left)

    def have_begun(self) -> bool:
        """Whether those that take, or take back, run what they were told."""
        return all(map(self._runs, self._move.begins))

    def positions(self) -> dict[JobId, Mapping[str, int]]:
        """For each job of which all that moves has passed the cut where it lies in its streams."""
        found: dict[JobId, Mapping[str, int]] = {}
        for job in self._move.left:
            seen = self._seen(job)
            if seen is not None and self._leaving(job) <= seen.cuts.get(self._move.cut, frozenset()):
                found[job] = seen.cut_positions[self._move.cut]
        return found

    def hindrance(self, age: float) -> str | None:
        """Why it has to be put off or gone back from, if it has to."""
        told = {job: seen.refused for job in self._told() if (seen := self._seen(job)) is not None and seen.refused}
        refused = "; ".join(f"job {job} refused: {why}" for job, why in sorted(told.items()))
        match self._move.phase:
            case Phase.PREPARING | Phase.CUTTING:
                patience = PREPARING if self._move.phase is Phase.PREPARING else CUTTING
                return refused or self._given_up() or (self._late(patience) if age > patience else None)
            case Phase.TAKING:
                return refused if told.keys() >= self._move.begins else None
        return None

    def _given_up(self) -> str:
        gave = [job for job in sorted(self._move.left) if (seen := self._seen(job)) and self._move.cut in seen.given_up]
        return f"job {', '.join(map(str, gave))} gave the cut up" if gave else ""

    def _late(self, patience: float) -> str:
        waits = sorted(job for job in self._told() if not self._runs(job) or job not in self.positions())
        return f"job {', '.join(map(str, waits))} did not come as far within {patience:.0f} s"

    def _told(self) -> frozenset[JobId]:
        """The jobs that were told something in this phase."""
        early = self._move.phase in {Phase.PREPARING, Phase.CUTTING}
        return self._move.left | self._move.opens.keys() if early else self._move.begins

    def _knows(self, job: JobId) -> bool:
        return has_taken_up(self._seen(job), self._moving.plans[job])

    def _runs(self, job: JobId) -> bool:
        seen = self._seen(job)
        return self._lives(job) and seen is not None and seen.in_effect >= self._moving.plans[job].version

    def _lives(self, job: JobId) -> bool:
        seen = self._seen(job)
        return self._knows(job) and seen is not None and seen.state == JobState.RUNNING

    def _lets_go(self, job: JobId) -> bool:
        """Whether it runs without what moves, or has nothing else to run; then it does not hurry to say so."""
        return self._runs(job) if self._moving.plans[job].streams else self._lives(job)

    def _leaving(self, job: JobId) -> frozenset[int]:
        return frozenset(step.instance for step in self._move.steps if step.works and step.leaves == job)

    def _seen(self, job: JobId) -> JobSeen | None:
        return self._sight.jobs.get(str(job), JobSight()).seen
