"""The drive: all that a manager runs while it leads, begun and ended in order; and what it looks at again and again."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from braid_client.answers.machines import SupplyKind
from engine.code.store import CodeStore
from engine.machines.reports import public_key
from engine.records.job_folder import job_folder
from manager.adaptation.adapter import Adapter
from manager.background import ManagerWatch, RegularLooks
from manager.changes import Changes
from manager.kernel.committer import Committer
from manager.kernel.dataflow_life import CommittedDataflowLookup
from manager.kernel.live_events import LiveEvents, ReconcilerActivity
from manager.machines.admission import Admission
from manager.machines.carriages import CommittedCarriages, decide_with
from manager.machines.keeper import CarriageKeeper
from manager.machines.scaler import MachineNeeds, Scaler
from manager.machines.supplies import HostProcesses, Supplies, SupplyCommands
from manager.moves.quarantine import GreedyTenants
from manager.moves.watcher import Watcher
from manager.observations.listener import Listener
from manager.observations.reports import HostSeen
from manager.observations.sight import Sight
from manager.outputs.parked_letters import DeadLetterParking, served_by
from manager.outputs.readers import OutputWatcher
from manager.outputs.retained import RetainedTopicClearing
from manager.pipelines.upkeep import FallbackTaker, PipelineFollower
from manager.problem import StateNotReady
from manager.process.broker_and_host import BrokerAndHost, CommonSender
from manager.reconciler import Reconciler
from manager.savings.meter import Meter
from manager.series.writer import SeriesWriter
from manager.settings import Settings
from manager.sources.events import EventSender
from manager.store.database import Store
from manager.tenants.state_quotas import StateQuotas
from manager.use_case import Tools

if TYPE_CHECKING:
    from manager.lineage.follower import LineageFollower

log = logging.getLogger("braid.manager")


def watches_of(
    tools: Tools, meter: Meter, settings: Settings, latencies: Callable[[], Mapping[str, float]]
) -> tuple[ManagerWatch, ...]:
    """The watches in their order; `latencies` are the seconds that dataflows allow, as the watcher takes them."""
    changes = tools.changes
    watcher = Watcher(
        tools.committer,
        changes.moves,
        changes.jobs,
        tools.chooser,
        by_itself=settings.defragment,
        every=settings.defragment_every,
        autoscale=settings.autoscale,
        latencies=latencies,
    )
    greedy = GreedyTenants(tools.committer, tools.seeing)
    quotas = StateQuotas(tools.committer, tools.store, tools.seeing)
    fallbacks = [ManagerWatch(FallbackTaker(tools).look, "modules that fail stay where they are")]
    return (
        ManagerWatch(greedy.look, "nobody comes into quarantine"),
        ManagerWatch(quotas.look, "states of tenants grow beyond their quotas"),
        ManagerWatch(watcher.look, "jobs stay scattered"),
        ManagerWatch(PipelineFollower(tools).look, "pipelines stay as they are"),
        *(fallbacks if settings.replan_failed else ()),
        ManagerWatch(meter.look, "nothing is metered"),
    )


def looks_of(  # noqa: PLR0913, PLR0917 - what each of them looks at
    tools: Tools,
    adapter: Adapter,
    supplies: Supplies,
    needs: MachineNeeds,
    sight: Callable[[], Sight],
    settings: Settings,
    lineage: "LineageFollower | None",
) -> tuple[RegularLooks, ...]:
    """The looks with threads of their own, because starting machines and counting for all dataflows may take long."""
    scaler = Scaler(
        tools,
        sight,
        supplies,
        needs,
        autoscale=settings.autoscale,
        algorithm=settings.provision,
        settled_after=settings.settled_after,
    )
    series = SeriesWriter(tools)
    writing = ManagerWatch(series.look, "series of dataflows have gaps")
    adapting = ManagerWatch(adapter.look, "dynamic dataflows stay as they are")
    scaling = ManagerWatch(scaler.look, "no machine is added or removed")
    following = () if lineage is None else (ManagerWatch(lineage.look, "lineage is not sent"),)
    return (
        *(RegularLooks(watch, every=1.0) for watch in following),
        RegularLooks(adapting, every=1.0, at_end=adapter.stop),
        RegularLooks(scaling, every=2.0),
        RegularLooks(writing, every=1.0, at_end=series.end),
    )


def lineage_of(tools: Tools, events: LiveEvents, settings: Settings, root: Path) -> "LineageFollower | None":
    """The follower of lineage, if it is asked for, by a setting or by the standard variables of OpenLineage."""
    place = settings.lineage or os.environ.get("OPENLINEAGE_URL")
    if not place or os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return None
    try:
        from manager.lineage.follower import LineageFollower, receiver_at  # noqa: PLC0415 - its package is optional
    except ImportError:
        log.error("lineage is asked for, and its package is missing; install it: pip install 'braid[lineage]'")  # noqa: TRY400 - it says what to do
        return None
    namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "braid"
    return LineageFollower(tools, events, receiver_at(place), root / "lineage", namespace=namespace)


def supplies_of(beside: BrokerAndHost, root: Path) -> Supplies:
    """What starts and stops machines that are added, by the supply of their classes."""
    return {
        SupplyKind.PROCESS: HostProcesses(root, lambda: beside.address),
        SupplyKind.COMMAND: SupplyCommands(root),
    }


class _Part(Protocol):
    """Something that runs from `start` to `stop`; it may be stopped where its start failed."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Drive:
    """Drives the hosts from `begin` to `end`, as often as this manager comes to lead."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, what is seen, and over which broker are eight things
        self,
        root: Path,
        beside: BrokerAndHost,
        store: Store,
        committer: Committer,
        changes: Changes,
        listener: Listener,
        events: LiveEvents,
        settings: Settings,
    ) -> None:
        self.outputs = OutputWatcher(beside.connect)
        self.sender = EventSender(beside.connect)
        self.carriages = CommittedCarriages(committer, store)
        self.admission = Admission(asks=settings.asks_operators, own_key=lambda: public_key(root))
        self._settings = settings
        self._root = root
        self._common: CommonSender | None = None
        self._beside = beside
        self._store = store
        self._committer = committer
        self._changes = changes
        self._listener = listener
        self._events = events
        self._reconciler: Reconciler | None = None
        self._begun: ExitStack | None = None

    @property
    def is_begun(self) -> bool:
        """Whether hosts are driven."""
        return self._begun is not None

    @property
    def settled(self) -> bool:
        """Whether hosts have once taken up all that was wanted, but for what cannot come."""
        return self._reconciler is not None and self._reconciler.settled

    def activity(self) -> ReconcilerActivity | None:
        """The activity of the reconciler, while hosts are driven."""
        reconciler = self._reconciler
        return None if reconciler is None else reconciler.driven

    def admitted(self, hosts: Iterable[HostSeen]) -> tuple[HostSeen, ...]:
        """The hosts that jobs may be placed on."""
        return self.admission.placeable(hosts, self.carriages.carried)

    def keep_source(self, digest: str, text: str) -> None:
        """Keep published code where hosts find it, before a plan names it; idempotent."""
        CodeStore(self._root).put(digest, text)
        if (common := self._common) is not None:
            common.look()

    def begin(self) -> None:
        """Start broker and host, and drive the hosts; where something fails nothing of it goes on."""
        with ExitStack() as begun:
            begun.callback(self._beside.leave)
            self._beside.start()
            # Before anything is placed: it says which hosts are of machines that are admitted.
            with suppress(StateNotReady):
                self.carriages.fleet()
            clearing = RetainedTopicClearing(
                self._changes.retired_topics, self._beside.connect, self._listener.clear_retained
            )
            self._reconciler = Reconciler(
                self._changes.jobs,
                self._listener,
                self._events,
                dataflows=CommittedDataflowLookup(self._committer),
                belongs=self._belongs,
                leads=lambda: self._committer.leads,
                drains=self._changes.drains,
                moves=self._changes.moves,
                reconfigurations=self._changes.reconfigurations,
                clearing=clearing,
            )
            # Only with copies do machines have disks of their own.
            self._common = CommonSender(self._root, self._beside.connect) if self._settings.replicas else None
            keeper = CarriageKeeper(
                self.carriages,
                self._listener,
                decide_with(self._settings.replicas, self._settings.settled_after),
                leads=lambda: self._committer.leads,
                admission=self.admission,
            )
            parking = DeadLetterParking(
                self._store, partial(self._beside.connect, lasting=True), partial(served_by, self._committer)
            )
            common = () if self._common is None else (self._common,)
            parts: tuple[_Part, ...] = (self._listener, clearing, self._reconciler, *common, keeper, parking)
            for part in (*parts, self.sender, self.outputs):
                begun.callback(part.stop)
                part.start()
            self._begun = begun.pop_all()

    def end(self) -> None:
        """Drive the hosts no more."""
        if self._begun is not None:
            self._begun.close()
            self._begun = None
        self._reconciler = None

    def _belongs(self, job: str) -> bool:
        """Whether a job is one of this service's: named as the committer names jobs, and at home in this root."""
        return job.isdecimal() and job == str(int(job)) and job_folder(self._root, job).path.is_dir()
