"""Quarantine: a tenant whose tasks hosts stop twice in an hour because they ask for too much runs apart for a while."""

import logging
import time
from collections.abc import Callable, Mapping

from sqlmodel import Session

from braid_client.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import SERVICE, Draft, write_down
from manager.observations.reports import Observations
from manager.store.tables import TenantRow
from merge import Instance, JobId

STOPS_WITHIN = 3_600.0
"""Seconds within which a second stop of a tenant's tasks puts it in quarantine: one may be an oversight."""
QUARANTINE = 3_600.0
"""Seconds that it lasts after the last stop."""


def until_after_stop(last: float | None, until: float | None, now: float) -> float | None:
    """The end of a tenant's quarantine after another stop; `last` was the one before, `until` the end so far.

    >>> until_after_stop(None, None, 100.0), until_after_stop(100.0, None, 200.0), until_after_stop(100.0, None, 9e3)
    (None, 3800.0, None)
    """
    return now + QUARANTINE if last is not None and now - last < STOPS_WITHIN else until


def _counted(session: Session, draft: Draft, tenant: str, why: str) -> bool:
    """Count a stop of a tenant; whether it begins a quarantine."""
    row, now = session.get(TenantRow, tenant), draft.now.timestamp()
    if row is None:
        return False
    was = row.quarantined_until is not None and now < row.quarantined_until
    row.quarantined_until = until_after_stop(row.stopped_at, row.quarantined_until, now)
    row.stopped_at = now
    session.add(row)
    if row.quarantined_until is None or row.quarantined_until <= now:
        return False
    draft.moved = True
    draft.state.quarantined[tenant] = row.quarantined_until
    if not was:
        note = f"stopped twice within an hour, the last time because {why}"
        write_down(session, draft, OperationKind.QUARANTINE, who=SERVICE, subject=tenant, note=note)
    return not was


_EVERY = 1.0
"""Seconds between looks at the jobs."""
log = logging.getLogger("braid.defragmenting")


class GreedyTenants:
    """Counts the stops of each tenant's tasks; used by one thread."""

    def __init__(
        self, committer: Committer, seeing: Observations, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._committer = committer
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
            live = {stop: retry for stop, retry in (known or {}).items() if stop[0] in state.plans}
        if stopped:
            with self._committer.writing() as (session, draft):
                begun = [tenant for tenant in sorted(stopped) if _counted(session, draft, tenant, stopped[tenant])]
            for tenant in begun:
                log.warning("tenant %s is in quarantine: %s", tenant, stopped[tenant])
        # Only now: what could not be counted is counted at the next look.
        self._known = live | stops
