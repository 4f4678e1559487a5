"""The drive: all that a manager runs while it leads, begun and ended in order."""

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from engine.code.store import CodeStore
from engine.machines.machine_key import public_key
from engine.records.job_folder import job_folder
from manager.carriages.admission import Admission
from manager.carriages.committed import CommittedCarriages
from manager.carriages.decision import decide_with
from manager.carriages.keeper import CarriageKeeper
from manager.committer.changes import Changes
from manager.committer.committer import Committer
from manager.event_flow.output_watcher import OutputWatcher
from manager.event_flow.sender import EventSender
from manager.observations.listener import Listener
from manager.observations.reports import HostSeen
from manager.problem import StateNotReady
from manager.process.broker_and_host import BrokerAndHost
from manager.process.common_sender import CommonSender
from manager.process.settings import Settings
from manager.reconciler.activity import ReconcilerActivity
from manager.reconciler.dataflow_needs import CommittedDataflowLookup
from manager.reconciler.live_events import LiveEvents
from manager.reconciler.parked_dead_letters import CommittedReaderLookup, DeadLetterParking
from manager.reconciler.reconcile_loop import Reconciler
from manager.store.database import Store


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
            self._listener.start()
            begun.callback(self._listener.stop)
            self._reconciler = Reconciler(
                self._changes.jobs,
                self._listener,
                self._events,
                dataflows=CommittedDataflowLookup(self._committer),
                belongs=self._belongs,
                leads=lambda: self._committer.leads,
                on_gone=self._changes.jobs.ended,
                on_fed=self._changes.jobs.fed,
                drains=self._changes.drains,
                moves=self._changes.moves,
                reconfigurations=self._changes.reconfigurations,
            )
            self._reconciler.start()
            begun.callback(self._reconciler.stop)
            if self._settings.replicas:
                # Machines have disks of their own.
                self._common = CommonSender(self._root, self._beside.connect)
                self._common.start()
                begun.callback(self._common.stop)
            keeper = CarriageKeeper(
                self.carriages,
                self._listener,
                decide_with(self._settings.replicas, self._settings.settled_after),
                leads=lambda: self._committer.leads,
                admission=self.admission,
            )
            keeper.start()
            begun.callback(keeper.stop)
            parking = DeadLetterParking(
                self._store, partial(self._beside.connect, lasting=True), CommittedReaderLookup(self._committer)
            )
            begun.callback(parking.stop)
            parking.start()
            self.sender.start()
            begun.callback(self.sender.stop)
            self.outputs.start()
            begun.callback(self.outputs.stop)
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
