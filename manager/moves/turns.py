"""Moves: the next step of each, a pure function of the observed jobs; `manager.kernel.transitions` has the table.

Preparing and cutting have a time limit, because other changes wait for the move; a move that exceeds it is hindered.
Once the plans of the jobs that take over are published there is no limit: a job that does not answer may have begun.
Only if all of them refused is it certain that none has.
"""

from collections.abc import Iterable, Iterator, Mapping

from engine.job.lifecycle import JobState
from manager.jobs.decisions import has_taken_up
from manager.kernel.older_events import Wish, Wishing
from manager.kernel.transitions import MOVE_CUTS, Phase, TransitionEvent, Turn
from manager.kernel.wanted import Moving
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight
from merge import JobId

PREPARE_WITHIN = 60.0
"""Seconds until the jobs must be ready; a new job takes a few, and some more if its host starts too."""
CUT_WITHIN = 20.0
"""Seconds that a cut may take; hosts give a cut up after thirty."""


def go_on(moving: Iterable[Moving], sight: Sight, wished: Mapping[str, float], now: float) -> Iterator[Wish | Turn]:
    """Yield the wishes for cuts to take or release, and the turns of moves."""
    wishing = Wishing(sight.hosts, wished, now)
    seen = [job.seen for job in sight.jobs.values() if job.seen is not None]
    kept = {cut for job in seen for cut in job.cuts if cut.startswith(MOVE_CUTS)}
    needed = set[str]()
    for entry in moving:
        move = entry.move
        needed.add(move.cut)
        if (turn := _turn(entry, sight, now)) is not None:
            yield turn
        elif move.phase is Phase.CUTTING:
            yield from wishing.take(move.cut, entry.streams)
    for cut in sorted(kept - needed):
        # A job may be stopped after the release, so everything that it emitted before the cut has to be sent first.
        if all(job.published > job.cut_batches[cut] for job in seen if cut in job.cuts):
            yield from wishing.release(cut)


def _turn(moving: Moving, sight: Sight, now: float) -> Turn | None:
    jobs = _Jobs(moving, sight)
    move = moving.move
    match move.phase:
        case Phase.PREPARING if jobs.are_ready():
            return Turn(move, TransitionEvent.READY)
        case Phase.CUTTING if jobs.have_passed():
            return Turn(move, TransitionEvent.PASSED, passed=jobs.positions())
        case Phase.TAKING | Phase.RETURNING if jobs.have_begun():
            return Turn(move, TransitionEvent.BEGUN)
    why = jobs.hindrance(now - move.since)
    return None if why is None else Turn(move, TransitionEvent.HINDERED, why)


class _Jobs:
    """The observed jobs of a move."""

    def __init__(self, moving: Moving, sight: Sight) -> None:
        self._moving = moving
        self._move = moving.move
        self._sight = sight

    def are_ready(self) -> bool:
        """Return true once the jobs that are left have logged their plans, and the new jobs run."""
        return all(map(self._knows, self._move.left)) and all(map(self._runs, self._move.opens))

    def have_passed(self) -> bool:
        """Return true once all tasks that move have passed the cut, so that no event is in transit between jobs."""
        positions = self.positions()
        return all(job in positions and self._lets_go(job) for job in self._move.left)

    def have_begun(self) -> bool:
        """Return true once all jobs that take over, or take back, run their plans."""
        return all(map(self._runs, self._move.begins))

    def positions(self) -> dict[JobId, Mapping[str, int]]:
        """Return the cut's positions in each job whose moving tasks have all passed it."""
        positions: dict[JobId, Mapping[str, int]] = {}
        for job in self._move.left:
            seen = self._seen(job)
            if seen is not None and self._leaving(job) <= seen.cuts.get(self._move.cut, frozenset()):
                positions[job] = seen.cut_positions[self._move.cut]
        return positions

    def hindrance(self, age: float) -> str | None:
        """Return the reason why the move has to be put off or reversed; None if it does not."""
        refusals = {
            job: seen.refused for job in self._addressed() if (seen := self._seen(job)) is not None and seen.refused
        }
        refused = "; ".join(f"job {job} refused: {why}" for job, why in sorted(refusals.items()))
        match self._move.phase:
            case Phase.PREPARING | Phase.CUTTING:
                limit = PREPARE_WITHIN if self._move.phase is Phase.PREPARING else CUT_WITHIN
                return refused or self._given_up() or (self._late(limit) if age > limit else None)
            case Phase.TAKING:
                return refused if refusals.keys() >= self._move.begins else None
        return None

    def _given_up(self) -> str:
        gave = [job for job in sorted(self._move.left) if (seen := self._seen(job)) and self._move.cut in seen.given_up]
        return f"job {', '.join(map(str, gave))} gave the cut up" if gave else ""

    def _late(self, limit: float) -> str:
        waits = sorted(job for job in self._addressed() if not self._runs(job) or job not in self.positions())
        return f"job {', '.join(map(str, waits))} was not ready within {limit:.0f} s"

    def _addressed(self) -> frozenset[JobId]:
        """The jobs to which plans were published in this phase."""
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
        """Return true if the job runs without the moving tasks. One without other streams only has to live."""
        return self._runs(job) if self._moving.plans[job].streams else self._lives(job)

    def _leaving(self, job: JobId) -> frozenset[int]:
        return frozenset(step.instance for step in self._move.steps if step.works and step.leaves == job)

    def _seen(self, job: JobId) -> JobSeen | None:
        return self._sight.jobs.get(str(job), JobSight()).seen
