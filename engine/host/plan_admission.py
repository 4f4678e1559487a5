"""The admission of a plan to a job: it is refused if this host cannot run it, and leaves nothing behind then."""

from collections.abc import Mapping
from pathlib import Path

from engine.behaviour import place_of
from engine.host.consumers import HostConsumers
from engine.job.job import SparkJob
from engine.kernel.worker import NoCut, check_imports
from engine.plan import Plan
from engine.plan_messages import RefusedPlan
from engine.replicas.copies import Copies


class PlanAdmission:
    """Admits plans to the jobs of one host; called from its main thread."""

    def __init__(
        self, host: str, root: Path, consumers: HostConsumers, behaviours: Mapping[str, str], copies: Copies
    ) -> None:
        """`behaviours` are the implementations that are installed here, by their task types."""
        self._host = host
        self._root = root
        self._consumers = consumers
        self._behaviours = behaviours
        self._copies = copies

    def admit(self, job: SparkJob, plan: Plan) -> None:
        """Log a plan that is newer than the job's latest, and have its streams supplied."""
        before = job.streams()
        try:
            behaviours = self._behaviours_of(plan)
            self._check_imports(job, plan)
            job.log(plan, self._consumers.join(job, plan), behaviours)
        except BaseException:
            self._consumers.unjoin(job, plan.streams - before)
            raise
        # Others act upon it as soon as the job reports it: it began to read each stream where its entry says.
        self._copies.settle()

    def _check_imports(self, job: SparkJob, plan: Plan) -> None:
        wanted = [each for each in plan.imports if each.job != job.name]
        if wanted != list(plan.imports):
            # Only the records say which instances left a moment ago.
            if job.follower is not None:
                job.follower.follow()
            here = {instance for entry in job.plans.in_effect() for instance in entry.plan.instances}
            wanted += [each for each in plan.imports if each.job == job.name and each.instance not in here]
        try:
            check_imports(self._root, wanted)
        except NoCut as error:
            raise RefusedPlan(f"{error}; take the cut first") from error

    def _behaviours_of(self, plan: Plan) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in sorted({slot.type for slot in plan.slots}):
            place = place_of(name, self._behaviours)
            if place is None:
                raise RefusedPlan(
                    f"host {self._host!r} has no implementation of the task type {name!r}; install it there"
                )
            found[name] = place
        return found
