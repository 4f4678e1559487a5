"""The plans of jobs in the course of a move; pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from engine.plan import Ingress, Plan, StateImport
from engine.supply import Bridged
from manager.planner import Planner
from manager.transitions.life import Phase
from manager.transitions.move import Move
from merge import Job, JobId


def empty(job: JobId, host: str, *, term: int, pace: float, shards: int = 1, workers: str = "") -> Plan:  # noqa: PLR0913 - what a plan begins with
    """The plan with which a new job warms up."""
    return Plan(job=str(job), host=host, version=1, term=term, pace=pace, shards=shards, workers=workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlans:
    """Makes the plans of one step of a move; made by the committer."""

    move: Move
    planner: Planner
    """Of the jobs as they are to be from this step on."""
    plans: Mapping[JobId, Plan]
    """The newest ones."""
    term: int

    def until_the_cut(self) -> dict[JobId, Plan]:
        """For each job that is left its plan from the cut on; the planner does not know of what moves."""
        return {job: replace(plan, at_cut=self.move.cut) for job, plan in self._next(self.move.left)}

    def after_all(self, jobs: Iterable[JobId]) -> dict[JobId, Plan]:
        """For jobs that go on a plan that knows of no move: the states are theirs, and the cut is to be released."""
        return dict(self._next(jobs))

    def from_the_cut(self) -> dict[JobId, Plan]:
        """For each job that takes something, or takes it back, a plan with the states and positions of the cut."""
        return {job: self._with_states(job, plan) for job, plan in self._next(self.move.begins)}

    def _with_states(self, job: JobId, plan: Plan) -> Plan:
        returns = self.move.phase is Phase.RETURNING
        # A source has no state, and no slot.
        brought = [each for each in self.move.steps if each.works and job == (each.leaves if returns else each.joins)]
        plan = replace(
            plan,
            imports=tuple(
                StateImport(instance=each.instance, job=str(each.leaves), cut=self.move.cut) for each in brought
            ),
        )
        # A job that takes back knows its own place in its streams.
        return plan if returns else replace(plan, ingress=tuple(self._from_cut(job, each) for each in plan.ingress))

    def _from_cut(self, job: JobId, entering: Ingress) -> Ingress:
        """A stream that enters, from where the cut lies in it, if it does."""
        passed = self.move.passed
        at = passed.get(job, {}).get(entering.stream)
        if at is None and not isinstance(entering.supply, Bridged):
            # A cut lies at one position in a raw stream for all readers of one root, which tasks do not leave. That of
            # a bridge is its reader's own, and a new reader begins at its head.
            left = {step.leaves for step in self.move.steps if step.joins == job}
            at = next((passed[each][entering.stream] for each in left if entering.stream in passed.get(each, {})), None)
        return entering if at is None else replace(entering, start=at, since=None)

    def _next(self, jobs: Iterable[JobId]) -> Iterator[tuple[JobId, Plan]]:
        for job in sorted(jobs):
            before = self.plans[job]
            plan = self.planner.plan(job, version=before.version + 1, term=self.term, before=before)
            yield job, replace(plan, pace=before.pace)


def emptied(job: Job, move: Move) -> Job:
    """A job without what moves."""
    return replace(job, active=job.active - {step.instance for step in move.steps})
