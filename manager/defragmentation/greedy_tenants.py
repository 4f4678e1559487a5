"""Greedy tenants: those whose tasks hosts stop because they ask for too much. The second stop leads to quarantine."""

import logging
import time
from collections.abc import Callable, Mapping

from manager.committer.committer import Committer
from manager.defragmentation.quarantine_changes import QuarantineChanges
from manager.observations.reports import Observations
from merge import Instance, JobId

_EVERY = 1.0
"""Seconds between looks at the jobs."""
log = logging.getLogger("braid.defragmenting")


class GreedyTenants:
    """Counts the stops of each tenant's tasks; used by one thread."""

    def __init__(
        self,
        committer: Committer,
        seeing: Observations,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._committer = committer
        self._quarantines = QuarantineChanges(committer)
        self._seeing = seeing
        self._clock = clock
        self._next = 0.0
        self._known: Mapping[tuple[JobId, int], float] | None = None
        """The stops that are counted, by their retries; None before the first look, which finds those of before."""

    def look(self) -> None:
        """Count the stops since the look before."""
        if not self._committer.leads or (now := self._clock()) < self._next:
            return
        self._next = now + _EVERY
        known, stops, stopped = self._known, dict[tuple[JobId, int], float](), dict[str, str]()
        with self._committer.looking() as state:
            for job in state.plans:
                seen = self._seeing.job(str(job))
                for instance, retry in seen.stops.items() if seen is not None else ():
                    stops[job, instance] = retry
                    if seen is not None and known is not None and known.get((job, instance)) != retry:
                        tenants = state.running.tenants_of(Instance(instance))
                        stopped |= dict.fromkeys(tenants, seen.failed[instance])
            live = {each: retry for each, retry in (known or {}).items() if each[0] in state.plans}
        for tenant in sorted(self._quarantines.count(stopped)) if stopped else ():
            log.warning("tenant %s is in quarantine: %s", tenant, stopped[tenant])
        # Only now: what could not be counted is counted at the next look.
        self._known = live | stops
