"""The quotas of states: where a tenant keeps as much as it may, the states of its tasks hardly grow further."""

import logging
import time
from collections.abc import Callable

from sqlalchemy import bindparam, select

from braid_client.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import SERVICE, write_operation, write_plans
from manager.kernel.state import CommittedState
from manager.kernel.transitions import TransitionKind, TransitionScope
from manager.observations.figures import TenantStates, tenant_states
from manager.observations.reports import Observations
from manager.store.database import Store
from manager.store.tables import TenantRow, table_of
from merge import Instance, JobId

_EVERY = 1.0
"""Seconds between looks at the sizes."""
_GOES_ON = 0.9
"""The part of its quota below which the states of a tenant may grow again, so that plans do not change all the time."""
_MORE = 1.1
"""How much more a state may have than it had, as counters get more digits and windows are not always as full."""
_AT_LEAST = 10_000
"""The bytes that each state may have."""
_MB = 1_000_000
_TENANTS = table_of(TenantRow).c
_QUOTAS = select(_TENANTS.name, _TENANTS.state_mb).where(_TENANTS.name.in_(bindparam("tenants", expanding=True)))
log = logging.getLogger("braid.defragmenting")


class StateQuotas:
    """Compares what tenants keep in states with their quotas; used by one thread."""

    def __init__(
        self, committer: Committer, store: Store, seeing: Observations, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._committer = committer
        self._store = store
        self._seeing = seeing
        self._clock = clock
        self._next = 0.0

    def look(self) -> None:
        """Bound the states of tenants that have too much, and no longer those of tenants that have less by now."""
        if not self._committer.leads or (now := self._clock()) < self._next:
            return
        self._next = now + _EVERY
        with self._committer.looking() as state:
            known = tenant_states(state.running, state.plans, self._seeing)
            bounded = _bounded(state)
            unsure = {
                tenant
                for job in known.silent
                for instance in state.plans[job].instances
                for tenant in state.running.tenants_of(Instance(instance))
            }
            has_bounds = any(plan.state_bounds for plan in state.plans.values())
        over = {
            tenant
            for tenant, most in self._quotas(known.by_tenant.keys() | bounded).items()
            if (size := known.by_tenant.get(tenant, 0)) > most * _MB
            or (tenant in bounded and (tenant in unsure or size > most * _MB * _GOES_ON))
        }
        if over or has_bounds:
            self._bound(over, known, new=sorted(over - bounded))

    def _quotas(self, tenants: set[str]) -> dict[str, int]:
        """The quotas of some tenants, in MB."""
        if not tenants:
            return {}
        with self._store.read() as session:
            return {row.name: row.state_mb for row in session.execute(_QUOTAS, {"tenants": sorted(tenants)})}

    def _bound(self, tenants: set[str], known: TenantStates, *, new: list[str]) -> None:
        """Bound the states of tasks that only these tenants need; some of them had room before."""
        begun = time.monotonic()
        reasons = {tenant: f"its states have {known.by_tenant[tenant]:,} bytes" for tenant in new}
        with self._committer.looking() as state:
            if not (bounds := _to_change(state, tenants, known)):
                return
            scope = TransitionScope(jobs=frozenset(bounds))
            with self._committer.changing(lambda _state, _now: (scope, None), waits=False) as (session, draft, *_):
                draft.moved, draft.state_bounds = True, bounds
                draft.touched |= bounds.keys()
                write_plans(session, draft)
                kind = OperationKind.BOUND_STATES
                for tenant, why in reasons.items():
                    write_operation(session, draft, kind, who=SERVICE, subject=tenant, begun=begun, note=why)
        for tenant, why in reasons.items():
            log.warning("the states of tenant %s are bounded: %s", tenant, why)


def _bounded(state: CommittedState) -> set[str]:
    """The tenants whose own states are bounded by the plans that there are."""
    bounded = (Instance(instance) for plan in state.plans.values() for instance in plan.state_bounds)
    # One that has come to share a task was not bounded with it.
    return {tenant for instance in bounded if len(names := state.running.tenants_of(instance)) == 1 for tenant in names}


def _to_change(state: CommittedState, tenants: set[str], known: TenantStates) -> dict[JobId, dict[int, int]]:
    """The bounds that jobs should have and do not have, where tasks that only these tenants need are bounded."""
    only = state.running.only_for(tenants)
    changing = {
        job
        for transition in state.transitions
        if transition.kind is not TransitionKind.DRAIN
        for job in transition.scope.jobs
    }
    changed: dict[JobId, dict[int, int]] = {}
    for job, placed in state.jobs.jobs.items():
        before = state.plans[job].state_bounds
        bounds: dict[int, int] = {
            instance: before.get(instance) or max(_AT_LEAST, int(known.by_task.get(instance, 0) * _MORE))
            for instance in sorted(placed.active)
            if instance in only and state.running.tasks[instance].inputs
        }
        if bounds != before and job not in changing and job not in known.silent:
            changed[job] = bounds
    return changed
