"""Fries under a manager that knows only reports and may die; and schedulers that each leave out one thing.

Reports of jobs and hosts, questions and answers are messages: they are late, get lost, and overtake each other. Hosts
are away for a while, and others take their jobs over. Bridges deliver later than jobs emit. What is concluded from all
that is not decided here: the product's own functions decide when a reconfiguration has switched, and when it is over.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from engine.job.lifecycle import JobState
from engine.plan import Bridged, Ingress, Plan, Subscribed
from manager.kernel import transitions
from manager.kernel.older_events import NO_CLEARANCES, Clearance, Clearances, EndsWanted, look_on
from manager.kernel.transitions import HAS_SWITCHED, LIVES, Phase, TransitionKind
from manager.kernel.wanted import JobStreams, ReachedJob, Reconfiguring
from manager.observations.reports import HostSeen, JobSeen, Measured, StreamMeasured
from manager.observations.sight import JobSight, Sight, SpoolEnd
from manager.reconfigurations.turns import reconfigure
from merge import Home, Instance, JobId
from merge.reconfiguration.covering import Component, components
from tests.simulation.schedulers import Alignment, Fries, Planned, Reconfiguration
from tests.simulation.world import Kind, World

NOW = datetime(2024, 3, 1, tzinfo=UTC)
SECONDS = 10.0
"""Seconds of a step: two of them, and no changed task is watched any more."""
MOST_CRASHES = 4
REPORTS = 0.5
"""Of all steps those at which a job or host reports."""
_LOSS = 0.1
_DELAYS = (0, 0, 0, 2, 30)
"""Steps for which a message is under way."""


@dataclass(slots=True, kw_only=True)
class Knowledge:
    """All that a manager knows; a new one knows nothing."""

    name: int
    jobs: dict[str, JobSight]
    hosts: dict[str, HostSeen]
    ends: dict[tuple[str, str], SpoolEnd]
    clearances: Clearances = NO_CLEARANCES


class Managed(Fries):
    """Covers what earlier reconfigurations changed until its manager has concluded that their older events are gone."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.draw = random.Random(world.numbers.random())
        self.step = 0
        self.ids = {job: JobId(number) for number, job in enumerate(world.jobs, 1)}
        producers = (*world.graph.sources, *world.graph.kinds)
        self.instances = {name: Instance(number) for number, name in enumerate(producers, 1)}
        self.hosts = hosts = [f"host{number}" for number in range(self.draw.randint(1, 3))]
        self.host_of = {job: self.draw.choice(hosts) for job in world.jobs}
        self.filled_by = {spool: self.draw.choice(hosts) for spool in world.spools}
        self.away: dict[str, int] = {}
        """The step at which each host is back."""
        self.delivered = dict.fromkeys(world.graph.kinds, 0)
        """The entries of each task's stream that are in the spools of other jobs."""
        self.versions = dict.fromkeys(world.jobs, 1)
        self.switched: dict[tuple[str, str], int] = {}
        """For each reconfiguration and job the version of the plan with which it switched."""
        self.phases: dict[str, Phase] = {}
        self.since: dict[str, float] = {}
        self.knows = Knowledge(name=0, jobs={}, hosts={}, ends={})
        self.crashes = 0
        self._batches = dict.fromkeys(world.jobs, -1)
        self._pending: dict[str, deque[tuple[int, dict[str, int]]]] = {job: deque() for job in world.jobs}
        self._stamps: dict[str, list[float]] = {spool: [] for spool in world.spools}
        self._ran: str | None = None
        self._under_way: list[tuple[int, Callable[[], None]]] = []
        self._known_reached: dict[tuple[frozenset[str], tuple[int, ...]], tuple[ReachedJob, ...]] = {}
        self._homes = {self.instances[task]: Home(self.ids[job], 0.0) for task, job in world.graph.jobs.items()}

    # What jobs do.

    def between(self, job: str) -> None:
        """Let messages, hosts and the manager go on; then do what is due before a job's next batch."""
        self.step += 1
        self._note_batch()
        self._deliver()
        self._shake()
        self._report()
        if self.draw.random() < 0.5:
            self.look()
        self._ran = None if self.is_away(job) else job
        if not self.is_away(job):
            super().between(job)

    def ready(self, alignment: Alignment, job: str) -> bool:
        return super().ready(alignment, job) and all(
            self.world.positions[job, spool] < self.visible(spool) for spool in alignment.awaited[job]
        )

    def end(self, job: str, spool: str) -> int:
        if self.is_away(job):
            return self.world.positions[job, spool]
        return min(super().end(job, spool), self.visible(spool))

    def visible(self, spool: str) -> int:
        """The place up to which other jobs may read a spool."""
        return self.delivered.get(spool, len(self.world.spools[spool]))

    @property
    def now(self) -> float:
        """The time in seconds."""
        return self.step * SECONDS

    def is_away(self, job: str) -> bool:
        """Whether the host of a job is away."""
        return self.host_of[job] in self.away

    def switch(self, wanted: Reconfiguration, *jobs: str) -> None:
        super().switch(wanted, *jobs)
        for job in jobs:
            self.versions[job] += 1
            self.switched[wanted.name, job] = self.versions[job]

    def covered(self, wanted: Reconfiguration) -> frozenset[str]:
        earlier = [each for each in self.planned if self.phases.get(each.wanted.name) is not Phase.DONE]
        return wanted.changed.union(*(planned.wanted.changed for planned in earlier))

    def ended(self) -> bool:
        return super().ended() and all(self.phases.get(each.wanted.name) is Phase.DONE for each in self.planned)

    # What the manager does.

    def look(self) -> None:
        """Have the product's functions decide by what the manager knows."""
        under_way = tuple(self.reconfiguring())
        sight = Sight(complete=True, jobs=self.knows.jobs, hosts=self.knows.hosts, ends=self.knows.ends)
        self.knows.clearances, questions = self.concluded(under_way, sight)
        for question in questions:
            self._send(partial(self._ask, self.knows.name, question))
        for turn in reconfigure(under_way, sight, {}, self.now, self.knows.clearances):
            if isinstance(turn, transitions.Turn):
                name = self.planned[turn.transition.id].wanted.name
                self.phases[name] = LIVES[TransitionKind.RECONFIGURATION][self.phases[name]][turn.event]
                self.since[name] = self.now

    def concluded(
        self, under_way: tuple[Reconfiguring, ...], sight: Sight
    ) -> tuple[Clearances, tuple[EndsWanted, ...]]:
        """The product's conclusion; defects conclude otherwise."""
        return look_on(self.knows.clearances, under_way, sight, self.now)

    def reconfiguring(self) -> Iterator[Reconfiguring]:
        """The reconfigurations under way, as the committer has them."""
        begun = [
            (number, each)
            for number, each in enumerate(self.planned)
            if each.started and self.phases.setdefault(each.wanted.name, Phase.SWITCHING) is not Phase.DONE
        ]
        if not begun:
            return
        for number, each in begun:
            wanted, near = each.wanted, self._near(each.wanted.changed)
            phase = self.phases[wanted.name]
            others = (other for other in begun if other[1] is not each)
            yield Reconfiguring(
                reconfiguration=transitions.Reconfiguration(
                    id=number,
                    phase=phase,
                    since=self.since.get(wanted.name, 0.0),
                    begun=0.0,
                    dataflows=(),
                    jobs=frozenset(self.ids[job] for job in each.jobs()),
                    awaiting=frozenset(),
                    instances=frozenset(self.instances[name] for name in near),
                    changed=frozenset(self.instances[task] for task in wanted.changed),
                    watched=frozenset(),
                ),
                plans={self.ids[job]: self.plan(job, self._due(each, job)) for job in each.jobs()},
                streams=frozenset(),
                below=frozenset(self.ids[job] for job in self._below(each)),
                reached=self._reached(near) if phase in HAS_SWITCHED else (),
                is_held=any(
                    self.phases[other.wanted.name] not in HAS_SWITCHED
                    and not near.isdisjoint(self._near(other.wanted.changed))
                    for _, other in others
                ),
            )

    def plan(self, job: str, version: int | None = None) -> Plan:
        """The plan of a job, as far as the manager's conclusions depend on it."""
        return Plan(
            job=str(self.ids[job]),
            host=self.host_of[job],
            version=version or self.versions[job],
            ingress=tuple(
                Ingress(
                    stream=spool,
                    instance=self.instances[spool],
                    supply=Bridged() if spool in self.world.graph.kinds else Subscribed(topic=spool, fields={}),
                )
                for spool in self.world.inputs[job]
            ),
        )

    def _reached(self, near: frozenset[str]) -> tuple[ReachedJob, ...]:
        versions = tuple(self.versions.values())
        found = self._known_reached.get((near, versions))
        if found is None:
            streams = JobStreams({self.ids[job]: self.plan(job) for job in self.world.jobs}, self._homes)
            found = streams.reached({self.instances[name] for name in near.intersection(self.world.graph.sources)})
            self._known_reached[near, versions] = found
        return found

    def _due(self, planned: Planned, job: str) -> int:
        return self.switched.get((planned.wanted.name, job), self.versions[job] + 1)

    def _near(self, changed: frozenset[str]) -> frozenset[str]:
        """The dataflows of some tasks, with their sources."""
        parts = [part for part in self.world.graph.parts if not changed.isdisjoint(part)]
        tasks = {task for part in parts for task in part}
        return frozenset(tasks | {producer for producer, task in self.world.graph.streams if task in tasks})

    def _below(self, planned: Planned) -> frozenset[str]:
        """The jobs of the changed tasks, and of all below them."""
        found = set(planned.wanted.changed)
        for producer, consumer in sorted(self.world.graph.streams, key=lambda stream: self.instances[stream[1]]):
            if producer in found:
                found.add(consumer)
        return frozenset(self.world.graph.jobs[task] for task in found)

    # What is under way between them.

    def _send(self, arrive: Callable[[], None]) -> None:
        if self.draw.random() >= _LOSS:
            self._under_way.append((self.step + self.draw.choice(_DELAYS), arrive))

    def _deliver(self) -> None:
        due = [arrive for at, arrive in self._under_way if at <= self.step]
        self._under_way = [(at, arrive) for at, arrive in self._under_way if at > self.step]
        for arrive in due:
            arrive()
        for task, place in self.delivered.items():
            if self.draw.random() < 0.3:
                self.delivered[task] = self.draw.randint(place, len(self.world.spools[task]))

    def _shake(self) -> None:
        """Let a host go, come back, or lose its jobs to another one, or let another manager take over."""
        self.away = {host: back for host, back in self.away.items() if back > self.step}
        if self.draw.random() < 0.02:
            self.away[self.draw.choice(self.hosts)] = self.step + self.draw.randint(5, 80)
        if self.away and self.draw.random() < 0.05:
            lost, heir = self.draw.choice(sorted(self.away)), self.draw.choice(self.hosts)
            for places in (self.host_of, self.filled_by):
                places.update({name: heir for name, host in places.items() if host == lost})
        if self.crashes < MOST_CRASHES and self.draw.random() < 0.02:
            self.crashes += 1
            self.knows = Knowledge(name=self.knows.name + 1, jobs={}, hosts={}, ends={})

    def _report(self) -> None:
        for job in self.world.jobs:
            if not self.is_away(job) and self.draw.random() < REPORTS:
                self._send(partial(self._hear_job, self._seen(job)))
        for host in self.hosts:
            if host not in self.away and self.draw.random() < REPORTS:
                spools = dict.fromkeys((spool for spool, by in self.filled_by.items() if by == host), "ready")
                news = HostSeen(host=host, alive=True, spools=spools, seen=NOW)
                self._send(partial(self._hear_host, news))

    def _hear_job(self, seen: JobSeen) -> None:
        self.knows.jobs[seen.job] = JobSight(seen=seen)

    def _hear_host(self, seen: HostSeen) -> None:
        self.knows.hosts[seen.host] = seen

    def _seen(self, job: str) -> JobSeen:
        pending = self._pending[job]
        while pending and all(self.delivered[task] >= length for task, length in pending[0][1].items()):
            pending.popleft()
        batch, version = self._batches[job], self.versions[job]
        lags = {spool: StreamMeasured(lag_seconds=self.lag(job, spool)) for spool in self.world.inputs[job]}
        return JobSeen(
            job=str(self.ids[job]),
            host=self.host_of[job],
            state=JobState.RUNNING,
            version=version,
            term=1,
            in_effect=version,
            batch=batch,
            positions={spool: self.world.positions[job, spool] for spool in self.world.inputs[job]},
            handed_on=pending[0][0] if pending else batch + 1,
            measured=(Measured(at=self.now, streams=lags),),
            seen=NOW,
        )

    def lag(self, job: str, spool: str) -> float:
        """The seconds for which the oldest entry has waited that a job has still to read."""
        place, stamps = self.world.positions[job, spool], self._stamps[spool]
        return self.now - stamps[place] if place < len(stamps) else 0.0

    def _ask(self, asker: int, question: EndsWanted) -> None:
        if question.host in self.away:
            return
        ends = {spool: self.visible(spool) for spool in question.streams if self.filled_by[spool] == question.host}
        self._send(partial(self._answer, asker, question, ends))

    def _answer(self, asker: int, question: EndsWanted, ends: dict[str, int]) -> None:
        if asker == self.knows.name:
            for spool, end in ends.items():
                known = self.knows.ends.get((question.host, spool))
                if known is None or known.question < question.number:
                    self.knows.ends[question.host, spool] = SpoolEnd(question.number, end)

    def _note_batch(self) -> None:
        for spool, stamps in self._stamps.items():
            stamps.extend([self.now] * (len(self.world.spools[spool]) - len(stamps)))
        if (job := self._ran) is not None:
            self._batches[job] += 1
            lengths = {task: len(self.world.spools[task]) for task in self.world.graph.of(job)}
            self._pending[job].append((self._batches[job], lengths))


class OneToOne(Fries):
    """Takes every task to be one-to-one."""

    def components(self, changed: frozenset[str]) -> tuple[Component, ...]:
        return components(self.world.graph.streams, changed)


class Presuming(Fries):
    """Takes a task for unique that emits one event at most for each that it takes, although several of one may come."""

    def unique(self) -> frozenset[str]:
        return super().unique() | self.world.graph.of_kind(Kind.MAP)


class Unaligned(Fries):
    """Switches at the first marker, not the last."""

    def ready(self, alignment: Alignment, job: str) -> bool:
        streams = alignment.awaited[job]
        return not streams or any(self.world.next_entry(job, stream) == alignment.marker for stream in streams)


class Unmarked(Fries):
    """Puts no markers into sources: each job switches at its own position."""

    def awaited(self, part: Component) -> dict[str, frozenset[str]]:
        sources = self.world.graph.sources
        return {job: streams.difference(sources) for job, streams in super().awaited(part).items()}


class Forgetful(Fries):
    """Covers only the tasks that a reconfiguration itself changes."""

    def covered(self, wanted: Reconfiguration) -> frozenset[str]:
        return wanted.changed


class Impatient(Fries):
    """Waits for no other reconfiguration."""

    def blocked(self, _planned: Planned, _busy: set[str]) -> bool:
        return False


class _ByLags(Managed):
    """Takes a reconfiguration for over once no job seems to have an event to read from before its switch."""

    def concluded(
        self, under_way: tuple[Reconfiguring, ...], sight: Sight
    ) -> tuple[Clearances, tuple[EndsWanted, ...]]:
        over = {
            each.reconfiguration.id: Clearance(is_clear=True)
            for each in under_way
            if each.reconfiguration.phase in HAS_SWITCHED and self._is_over(each, sight)
        }
        return Clearances(of=over), ()

    def _is_over(self, each: Reconfiguring, sight: Sight) -> bool:
        lags = [self.known_lag(job, sight) for job in self.asked(each)]
        return all(lag is not None and lag < self.now - each.reconfiguration.since for lag in lags)

    def asked(self, each: Reconfiguring) -> Iterable[JobId]:
        """The jobs whose lags count."""
        return (reached.job for reached in each.reached)

    def known_lag(self, job: JobId, _sight: Sight) -> float | None:
        """The lag of a job, as it is; None if it is not known."""
        (name,) = (name for name, known in self.ids.items() if known == job)
        return max((self.lag(name, spool) for spool in self.world.inputs[name]), default=0.0)

    def reported_lag(self, job: JobId, sight: Sight) -> float | None:
        """The lag that a job has reported last."""
        seen = sight.jobs.get(str(job), JobSight()).seen
        if seen is None:
            return None
        return max((stream.lag_seconds for stream in seen.measured[-1].streams.values()), default=0.0)


class JobsBelowOnly(_ByLags):
    """Knows every lag, but looks at the jobs of changed tasks and below only, not at those beside them."""

    def asked(self, each: Reconfiguring) -> Iterable[JobId]:
        return each.below


class MissingCounts(_ByLags):
    """Takes the lag of a job that this manager has not heard yet for none, and knows all others."""

    def known_lag(self, job: JobId, sight: Sight) -> float | None:
        return 0.0 if self.reported_lag(job, sight) is None else super().known_lag(job, sight)


class StaleCounts(_ByLags):
    """Takes the lag that a job has reported last for the one that it has."""

    def known_lag(self, job: JobId, sight: Sight) -> float | None:
        return self.reported_lag(job, sight)


class AskedEarly(Managed):
    """Asks where bridges end without waiting until they have all that was emitted."""

    def look(self) -> None:
        for name, known in self.knows.jobs.items():
            if known.seen is not None:
                self.knows.jobs[name] = JobSight(seen=replace(known.seen, handed_on=known.seen.batch + 1))
        super().look()


class OldAnswers(Managed):
    """Counts an answer whenever the question was asked."""

    def concluded(
        self, under_way: tuple[Reconfiguring, ...], sight: Sight
    ) -> tuple[Clearances, tuple[EndsWanted, ...]]:
        renewed = {of: end._replace(question=10**9) for of, end in sight.ends.items()}
        return super().concluded(under_way, replace(sight, ends=renewed))
