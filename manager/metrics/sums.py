"""SumAccumulator up: what jobs and tasks have done since a manager first looked, across all starts of jobs.

Counts begin anew with each start of a job and end with it. A sum of them over many would fall whenever one does, and
whatever computes rates would take that for a fresh start of all. So only what they grow by is added.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.observations.reports import InstanceMeasured, JobSeen, Measured

_NOTHING = InstanceMeasured()


@dataclass(slots=True)
class Sums:
    """What was done in all; changed by `SumAccumulator` only."""

    entered: Counter[str] = field(default_factory=Counter)
    """Events that came in, by job."""
    left: Counter[str] = field(default_factory=Counter)
    """Events that left, by job."""
    cpu_ns: Counter[str] = field(default_factory=Counter)
    """Of tasks, by type; as those that follow."""
    taken: Counter[str] = field(default_factory=Counter)
    emitted: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)


class SumAccumulator:
    """Adds up what jobs did from one look to the next; one thread at a time calls `look`."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._since: float | None = None
        self._before: dict[str, Measured] = {}

    def look(self, jobs: Mapping[str, JobSeen], types: Mapping[int, str], now: float) -> None:
        """Add what is new; `jobs` are those that are there, and `now` is of the clock by which they were heard.

        What was done before the first look, nobody knows when, is not added.
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
        # There may be a hundred thousand, of few types.
        grown: dict[str, list[int]] = {}
        for instance, did in last.instances.items():
            known = base.instances.get(instance, _NOTHING)
            # One that was removed since has no type any more.
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
