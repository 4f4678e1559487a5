"""The collector: takes a snapshot of the manager, and makes metrics of it. A use case of operators."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from prometheus_client import Metric as Family
from sqlalchemy import func, select

from bridge.transport.dispatch import passed_over
from manager.answers import WholeAnswer
from manager.carriages.standings import HostStanding, standings
from manager.cases.base import Base, Caller, operators_only
from manager.metrics.samples import families, samples
from manager.metrics.snapshot import CommittedSnapshot, MetricsSnapshot, types_of
from manager.metrics.sums import SumAccumulator
from manager.problem import StateNotReady
from manager.savings import ledger
from manager.savings.intervals import AmountScale, whole_answer
from manager.savings.ledger import MINUTE
from manager.store.tables import TenantRow

_METERED = 5 * MINUTE
"""Seconds that the means of cores cover; a minute is written once it is over."""


class Metrics(Base):
    """The use case that collects metrics."""

    _typed: tuple[int, dict[int, str]] = (-1, {})
    """The types of running tasks, with the version of the committed state that they are from."""

    def collect(self, caller: Caller) -> Iterable[Family]:
        """Everything that a manager knows but what REST counts; operators only."""
        operators_only(caller)
        committed = self._committed()
        plans = map(str, committed.plans) if committed is not None else ()
        jobs = {job: seen for job in plans if (seen := self._seeing.job(job)) is not None}
        types = self._types(committed) if committed is not None else {}
        # Only the leading manager has the metrics common to all, so that sums over managers count nothing twice.
        metered, tenants = self._stored() if committed is not None else (None, 0)
        machines, waiting, carried = self._carried() if committed is not None else ({}, 0, ())
        with self._looks:
            if committed is not None:
                self._adding.look(jobs, types, time.monotonic())
            known = MetricsSnapshot(
                leads=self._committer.leads,
                committed=committed,
                types=types,
                driven=self._tools.activity(),
                hosts=self._seeing.hosts() if committed is not None else (),
                machines=machines,
                waiting=waiting,
                carried=carried,
                jobs=jobs,
                sums=self._adding.sums,
                metered=metered,
                tenants=tenants,
                passed_over=passed_over(),
                now=time.monotonic(),
            )
            return families(samples(known))

    @cached_property
    def _adding(self) -> SumAccumulator:
        return SumAccumulator()

    @cached_property
    def _looks(self) -> threading.Lock:
        return threading.Lock()

    def _types(self, committed: CommittedSnapshot) -> dict[int, str]:
        # Cached, because a look at a hundred thousand tasks takes longer than everything else.
        version, types = self._typed
        if version != committed.version:
            version, types = self._typed = committed.version, types_of(committed.tasks.values())
        return types

    def _committed(self) -> CommittedSnapshot | None:
        with suppress(StateNotReady), self._committer.looking() as state:
            # Only copied here, because commits have to wait meanwhile.
            return CommittedSnapshot(
                version=state.version,
                tasks=dict(state.running.tasks),
                dataflows=tuple(state.running.dataflows.values()),
                plans=dict(state.plans),
                jobs=state.jobs,
                sources=len(state.sources),
                moving=bool(state.moves),
            )
        return None

    def _carried(self) -> tuple[Mapping[str, bool], int, Sequence[HostStanding]]:
        with suppress(StateNotReady):
            fleet = self._tools.carriages.fleet()
            claims, admission = self._seeing.machines(), self._tools.admission
            admitted, waiting = admission.admitted(claims, fleet), len(admission.waiting(claims, fleet))
            seen = {name: status.seen for name, status in admitted.items()}
            alive = {name: name in seen and seen[name].alive for name in sorted(seen.keys() | fleet.named)}
            return alive, waiting, standings(fleet, seen, replicas=self._tools.replicas)
        return {}, 0, ()

    def _stored(self) -> tuple[WholeAnswer | None, int]:
        now = int(time.time())
        with self._store.read() as session:
            whole = ledger.whole(session, MINUTE, now - _METERED - now % MINUTE, now)
            tenants = session.scalar(select(func.count()).select_from(TenantRow)) or 0
        return whole_answer(whole, (), AmountScale(seconds=whole.seconds)) if whole.seconds else None, tenants
