"""Schedulers that each leave out one thing which consistency needs; some schedule must show it."""

from collections.abc import Iterable
from dataclasses import replace

from manager.kernel.older_events import Clearance, Clearances, EndsWanted
from manager.kernel.transitions import HAS_SWITCHED
from manager.kernel.wanted import Reconfiguring
from manager.observations.sight import JobSight, Sight
from merge import JobId
from merge.reconfiguration.covering import Component, components
from tests.simulation.fries import Fries, Planned
from tests.simulation.graphs import Kind
from tests.simulation.managed import Managed
from tests.simulation.markers import Alignment
from tests.simulation.schedulers import Reconfiguration


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
