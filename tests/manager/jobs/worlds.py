"""A simulated broker with hosts that execute plans in small steps, and the sight that decisions are made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engine.job.lifecycle import JobState
from engine.plan import Bridged, Forward, Ingress, Plan, Port
from manager.jobs.decisions import Clean, Decision, Memory, PublishPlan, decide, has_taken_up
from manager.kernel.wanted import WantedJob
from manager.observations.messages import wiring
from manager.observations.reports import HostSeen, JobSeen
from manager.observations.sight import JobSight, Sight

NOW = datetime(2024, 3, 1, tzinfo=UTC)


def plan(
    job: str, version: int = 1, *, host: str = "h", reads: Iterable[int] = (), forwards: Iterable[int] = ()
) -> Plan:
    """Return a plan that reads and forwards the outputs of instances."""
    return Plan(
        job=job,
        host=host,
        version=version,
        ingress=tuple(Ingress(stream=f"bridge/{each}:out", instance=each, supply=Bridged()) for each in reads),
        forwards=tuple(Forward(instance=each) for each in forwards),
    )


def wanting(*plans: Plan, stopped: Iterable[str] = ()) -> dict[str, WantedJob]:
    """Return the wanted jobs: those with these plans, and those to stop."""
    wanted = {each.job: WantedJob(job=each.job, host=each.host, plan=each) for each in plans}
    return wanted | {job: WantedJob(job=job, host="h", plan=None) for job in stopped}


@dataclass
class Simulated:
    """A job on its simulated host."""

    logged: Plan
    in_effect: Plan | None = None
    state: JobState = JobState.STARTING
    closing: set[Port] = field(default_factory=set)
    """Streams whose end is not confirmed."""

    @property
    def sends(self) -> set[Port]:
        return {each.origin for each in self.in_effect.forwards} if self.in_effect else set()

    @property
    def joined(self) -> set[Port]:
        """The streams whose spools the host keeps: those of the logged plan, and for a while of the one before."""
        if self.state is JobState.STOPPED:
            return set()
        return {each.origin for held in (self.logged, self.in_effect) if held for each in held.ingress}


@dataclass
class World:
    """All jobs, the messages that the broker retains, and a clock."""

    retained: dict[str, Plan] = field(default_factory=dict)
    published: dict[str, list[Plan]] = field(default_factory=dict)
    jobs: dict[str, Simulated] = field(default_factory=dict)
    untaken: dict[str, Plan | None] = field(default_factory=dict)
    """What hosts have not taken up yet."""
    away: set[str] = field(default_factory=set)
    memory: Memory = field(default_factory=Memory)
    now: float = 0.0
    broken: list[str] = field(default_factory=list)
    """What was done out of order."""

    def sight(self) -> Sight:
        hosts = {
            name: HostSeen(host=name, alive=name not in self.away, seen=NOW)
            for name in {"h", "i"} | {each.host for each in self.retained.values()}
        }
        names = self.retained.keys() | self.jobs.keys()
        return Sight(complete=True, jobs={name: self._sight(name) for name in names}, hosts=hosts)

    def decide(self, wanted: Mapping[str, WantedJob]) -> Decision:
        """Decide, and publish everything."""
        decision = decide(wanted, self.sight(), self.memory, self.now)
        self.memory = decision.memory
        for step in decision.steps:
            if isinstance(step, Clean):
                self.jobs.pop(step.job, None)
            else:
                self._publish(step, wanted)
        return decision

    def take(self, job: str) -> None:
        """Let the host take up the published plan of a job."""
        if job not in self.untaken or self._host(job) in self.away:
            return
        plan_taken, known = self.untaken.pop(job), self.jobs.get(job)
        if plan_taken is None:
            if known is not None:
                known.state = JobState.STOPPED
                known.closing.clear()
        elif known is None or known.state is JobState.STOPPED:
            self.jobs[job] = Simulated(logged=plan_taken)
        else:
            known.logged = plan_taken

    def run(self, job: str) -> None:
        """Run a batch of a job with its latest plan, which may end streams."""
        known = self.jobs.get(job)
        if known is None or known.logged.host in self.away or known.state is JobState.STOPPED:
            return
        before, known.state = known.sends, JobState.RUNNING
        known.in_effect = known.logged
        known.closing = (known.closing | (before - known.sends)) - known.sends

    def hear(self, job: str) -> None:
        """Deliver the ends of a job's streams to the consumers that are left."""
        known = self.jobs.get(job)
        if known is not None:
            known.closing = {each for each in known.closing if not self._has_reader(job, each)}

    def settle(self, wanted: Mapping[str, WantedJob], bound: int = 200) -> int:
        """Continue until nothing is left to do, and return the number of decisions."""
        decision = Decision(memory=self.memory)
        for count in range(bound):
            decision = self.decide(wanted)
            before = repr((self.jobs, self.retained, self.untaken))
            for act in (self.take, self.run, self.hear):
                for job in sorted(self.jobs.keys() | self.untaken.keys()):
                    act(job)
            self.now += 1
            if not decision.steps and not decision.waits and before == repr((self.jobs, self.retained, self.untaken)):
                return count
        raise AssertionError(f"not settled: {decision.steps} {decision.waits}")

    def reached(self, wanted: Mapping[str, WantedJob]) -> bool:
        """Return true if every job is as wanted, and no other runs."""
        running = {job: known for job, known in self.jobs.items() if known.state is not JobState.STOPPED}
        goal = {job: each.plan for job, each in wanted.items() if each.plan is not None}
        return goal == {job: known.in_effect for job, known in running.items()}

    def _publish(self, step: PublishPlan, wanted: Mapping[str, WantedJob]) -> None:
        if step.plan is None:
            self._check_stop(step.job, wanted)
            self.retained.pop(step.job, None)
        else:
            self._check(step.plan, wanted)
            self.retained[step.job] = step.plan
            self.published.setdefault(step.job, []).append(step.plan)
        self.untaken[step.job] = step.plan

    def _check(self, plan_taken: Plan, wanted: Mapping[str, WantedJob]) -> None:
        known = self.jobs.get(plan_taken.job)
        begun = {each.origin for each in plan_taken.forwards} - (
            {each.origin for each in known.logged.forwards} if known else set()
        )
        for name, each in wanted.items():
            if each.plan is not None and begun & wiring(each.plan).reads and each.plan.host not in self.away:
                reader = self.jobs.get(name)
                if reader is None or not begun & wiring(each.plan).reads <= reader.joined:
                    self.broken.append(f"{plan_taken.job} forwards before {name} reads")

    def _check_stop(self, job: str, wanted: Mapping[str, WantedJob]) -> None:
        known = self.jobs.get(job)
        for name, each in wanted.items():
            producer = self.jobs.get(name)
            if known is not None and producer is not None and each.plan is not None:
                ends = (producer.closing | producer.sends) - {forward.origin for forward in each.plan.forwards}
                if ends & {ingress.origin for ingress in known.logged.ingress}:
                    self.broken.append(f"{job} leaves before {name} has ended its stream")

    def _has_reader(self, producer: str, origin: Port) -> bool:
        return any(origin in each.joined for name, each in self.jobs.items() if name != producer)

    def _host(self, job: str) -> str:
        plan_taken = self.untaken[job]
        if plan_taken is not None:
            return plan_taken.host
        return self.jobs[job].logged.host if job in self.jobs else "h"

    def _sight(self, job: str) -> JobSight:
        known = self.jobs.get(job)
        retained = self.retained.get(job)
        wirings = tuple(wiring(each) for each in self.published.get(job, ()))
        planned = wiring(retained) if retained else None
        if known is None:
            return JobSight(planned=planned, wirings=wirings)
        seen = JobSeen(
            job=job,
            host=known.logged.host,
            state=known.state,
            term=known.logged.term,
            version=known.logged.version,
            in_effect=known.in_effect.version if known.in_effect else 0,
            seen=NOW,
        )
        unconfirmed = frozenset(known.sends | known.closing)
        return JobSight(seen=seen, planned=planned, wirings=wirings, unconfirmed=unconfirmed)


def taken_up(world: World, wanted: Mapping[str, WantedJob]) -> bool:
    """Return true once every live host has logged the wanted plans."""
    return all(
        has_taken_up(world.sight().jobs.get(job, JobSight()).seen, each.plan)
        for job, each in wanted.items()
        if each.plan is not None and each.plan.host not in world.away
    )
