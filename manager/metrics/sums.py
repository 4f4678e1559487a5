"""Sums of the counters of jobs and tasks since the manager's first look, across restarts of jobs.

A job's counters start again with each start, and end with it. A plain sum over jobs would fall whenever that happens,
and `rate()` would take it for a restart of the sum. So the growth of the counters is added up instead.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.observations.reports import InstanceMeasured, JobSeen, Measured

_NOTHING = InstanceMeasured()


@dataclass(slots=True)
class Sums:
    """The sums; changed only by `SumAccumulator`."""

    entered: Counter[str] = field(default_factory=Counter)
    """Events that entered, by job."""
    left: Counter[str] = field(default_factory=Counter)
    """Events that left, by job."""
    cpu_ns: Counter[str] = field(default_factory=Counter)
    """CPU of tasks, by type; the next three are by type too."""
    taken: Counter[str] = field(default_factory=Counter)
    emitted: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)


class SumAccumulator:
    """Adds up the growth from one look to the next; one thread at a time calls `look`."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._since: float | None = None
        self._before: dict[str, Measured] = {}

    def look(self, jobs: Mapping[str, JobSeen], types: Mapping[int, str], now: float) -> None:
        """Add the growth of the present jobs; `now` is the time of the listener's clock.

        Growth before the first look is not added.
        """
        if self._since is None:
            self._since = now
        for name, job in jobs.items():
            if job.measured and (last := job.measured[-1]) is not self._before.get(name):
                self._add(name, self._base(name, last), last, types)
                self._before[name] = last
        for name in self._before.keys() - jobs.keys():
            del self._before[name]
            self.sums.entered.pop(name, None)
            self.sums.left.pop(name, None)

    def _base(self, job: str, last: Measured) -> Measured:
        before = self._before.get(job)
        if before is not None:
            return before if before.run == last.run else Measured(run=last.run)
        began = last.at - last.age if last.age is not None else None
        return Measured(run=last.run) if began is not None and began >= (self._since or 0.0) else last

    def _add(self, job: str, base: Measured, last: Measured, types: Mapping[int, str]) -> None:
        sums = self.sums
        came = ((stream, each.entered) for stream, each in last.streams.items())
        sums.entered[job] += sum(
            max(0, entered - (base.streams[stream].entered if stream in base.streams else 0))
            for stream, entered in came
        )
        sums.left[job] += max(0, last.left - base.left)
        # Grouped first: there may be a hundred thousand tasks, of few types.
        grown: dict[str, list[int]] = {}
        for instance, did in last.instances.items():
            known = base.instances.get(instance, _NOTHING)
            # A task that was removed since has no type any more.
            if (kind := types.get(instance)) is not None:
                of_kind = grown.get(kind) or grown.setdefault(kind, [0, 0, 0, 0])
                of_kind[0] += max(0, did.cpu_ns - known.cpu_ns)
                of_kind[1] += max(0, did.taken - known.taken)
                of_kind[2] += max(0, did.emitted - known.emitted)
                of_kind[3] += max(0, did.dead - known.dead)
        for kind, (cpu_ns, taken, emitted, dead) in grown.items():
            sums.cpu_ns[kind] += cpu_ns
            sums.taken[kind] += taken
            sums.emitted[kind] += emitted
            sums.dead[kind] += dead
