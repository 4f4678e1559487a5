"""The changes that quarantine brings: stops of a tenant's tasks are counted, and the second in an hour begins it."""

import time
from collections.abc import Mapping

from sqlmodel import Session

from manager.answers import OperationKind
from manager.committer.committer import Committer
from manager.committer.draft import Draft
from manager.committer.rows import SERVICE, write_down
from manager.store.tables import TenantRow
from manager.transitions.quarantine import until_after_stop
from manager.transitions.scope import TransitionScope


class QuarantineChanges:
    """All that is done with quarantine."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def count(self, stopped: Mapping[str, str]) -> frozenset[str]:
        """Count a stop of each tenant, for its reason; return the tenants that come into quarantine by it."""
        begun = time.monotonic()

        def write(session: Session, draft: Draft, _decided: None) -> frozenset[str]:
            return frozenset(tenant for tenant in sorted(stopped) if _counted(session, draft, tenant, stopped, begun))

        return self._committer.commit(
            lambda _state, _now: None, write, scope=lambda _state, _decided: TransitionScope(), waits=False
        )


def _counted(session: Session, draft: Draft, tenant: str, stopped: Mapping[str, str], begun: float) -> bool:
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
        note = f"stopped twice within an hour, the last time because {stopped[tenant]}"
        write_down(session, draft, OperationKind.QUARANTINE, who=SERVICE, subject=tenant, begun=begun, note=note)
    return not was
