"""The manager: all its parts put together, begun and ended in order.

A manager serves REST from its first moment and answers that it is not ready until it leads. Once it leads, it loads
what is committed, sees to the keeper of broker and host, and has the reconciler drive the hosts. It ends the other way
round: REST first, so that nothing new is accepted; then the reconciler; then host and broker, in this order, so that
the host's last messages arrive; then the lead is given back. A manager that does not lead leaves host and broker
alone.
"""

import logging
import os
import signal
import sys
import time
import uuid
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from typing import Literal, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from bridge.files import is_open_to_others, make_private_folder
from bridge.traces import ENDPOINT_VARIABLE, TRACED_BATCHES_VARIABLE, begin_traces, end_traces
from engine import installed_catalogue
from engine.code.store import WheelStore
from engine.log_lines import begin_log, keep_log, named, problem
from engine.outside import Vault
from engine.plan import Limits
from manager.adaptation.adapter import Adapter, DomainEventLine
from manager.background import ManagerWatch, RegularLooks
from manager.changes import changes_of
from manager.costs.choice import Chooser
from manager.costs.measured import LearntCostStore
from manager.kernel.committer import Committer
from manager.kernel.draft import DecisionGround
from manager.kernel.live_events import NOT_OF_TENANTS, JournalTail, LiveEvents
from manager.machines.scaler import MachineNeeds
from manager.observations.figures import placeable
from manager.observations.listener import Listener
from manager.problem import DatabaseAway
from manager.process.broker_and_host import BrokerAndHost
from manager.process.drive import Drive, lineage_of, looks_of, supplies_of, watches_of
from manager.process.keeper import KeeperDown
from manager.provider import provider_of
from manager.rest.app import CannotServe, Server, make_app
from manager.savings.meter import Meter
from manager.service import service_of
from manager.settings import Settings, write_key
from manager.store.database import DatabaseDown, Store, sqlite_url
from manager.store.leadership import Candidate
from manager.tenants.broker_access import AccessKeeper
from manager.tenants.secrets import VoucherKeeper
from manager.use_case import Pricing, Tools

_JOURNAL_EVERY = 0.5
"""Seconds between two looks for what other managers noted in the journal."""
_JOURNAL_DELAY = 0.05
"""Seconds for which a look at the journal waits for what else is committed."""
_USES_EVERY = 60.0
"""Seconds between two times that the last uses of API keys are written down."""
_OLD_EVERY = 3_600.0
"""Seconds between two times that what is old is deleted."""
_RETRY_AFTER = 5.0
"""Seconds after which what did not come up is tried again."""
log = logging.getLogger("braid.manager")


class _Word(NamedTuple):
    """Something for the main thread to do next."""

    what: Literal["stop", "broken", "won", "lost", "news", "nothing"]
    term: int = 0


def serve(settings: Settings, *, as_json: bool = False) -> None:
    """Run the service until SIGTERM or SIGINT; what happens is logged, for programs as JSON on standard output."""
    begin_log(as_json=as_json)
    # Host and keeper read them, too. What is set for all programs of this machine goes before.
    if settings.traces:
        os.environ.setdefault(ENDPOINT_VARIABLE, settings.traces)
    os.environ.setdefault(TRACED_BATCHES_VARIABLE, str(settings.traced_batches))
    begin_traces("manager", os.uname().nodename)
    words: SimpleQueue[_Word] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not an event: what a signal interrupts may hold its lock.
        signal.signal(number, lambda _number, _frame: words.put(_Word("stop")))
    try:
        Manager(settings, words).run()
    except (CannotServe, DatabaseDown) as error:
        # Not with its traceback: it says where and what to do.
        log.error("%s", error, extra=problem("cannot-serve", error))  # noqa: TRY400 - as above
        sys.exit(1)
    finally:
        end_traces()


class Manager:
    """One manager; it runs until a stop signal."""

    def __init__(self, settings: Settings, words: "SimpleQueue[_Word]") -> None:
        self._settings = settings
        self._words = words
        self._root = root = settings.root.absolute()
        # The database has documents, the spools have events.
        make_private_folder(root)
        make_private_folder(root / "service")
        keep_log(root / "service" / "log")
        if is_open_to_others(root):
            log.warning("%s is open to others on this machine; unless that is meant, close it: chmod 700", root)
        url = settings.database.get_secret_value() if settings.database else sqlite_url(root / "braid.db")
        name = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._store = store = Store(url)
        self._beside = beside = BrokerAndHost(settings, root)
        self._listener = listener = Listener(beside.connect)
        self._chooser = chooser = Chooser(listener, LearntCostStore(store, name))
        ground = DecisionGround(
            hosts=lambda: placeable(self._drive.admitted(listener.hosts()), beside.here),
            strategy=settings.placement,
            pace=settings.pace,
            limits=Limits(state_bytes=settings.task_state_mb * 1_000_000),
            measured=lambda: chooser.measured,
            order=lambda lacking, images: self._needs.order(lacking, images),  # noqa: PLW0108 - they are made below
        )
        catalogue = installed_catalogue()
        self._committer = committer = Committer(store, catalogue, ground, name=name)
        self._changes = changes = changes_of(committer, store, catalogue)
        self._events = LiveEvents()
        self._journal = JournalTail(store, self._events)
        self._drive = Drive(root, beside, store, committer, changes, listener, self._events, settings)
        self._needs = MachineNeeds(self._drive.carriages, settings.autoscale)
        self._vouchers = VoucherKeeper(store, root)
        tools = Tools(
            store=store,
            catalogue=catalogue,
            committer=committer,
            changes=changes,
            carriages=self._drive.carriages,
            admission=self._drive.admission,
            replicas=settings.replicas,
            seeing=listener,
            chooser=chooser,
            access_changed=self._keep_access,
            activity=self._drive.activity,
            lineage=lambda: None if self._lineage is None else self._lineage.counts,
            broker=lambda: beside.entrance,
            vault=Vault(root),
            keep_source=self._drive.keep_source,
            wheels=WheelStore(root),
            vouchers_changed=self._vouchers.keep,
            looks=listener.looks,
            outputs=self._drive.outputs,
            sender=self._drive.sender,
            jobs_root=root,
            provider=provider_of(settings),
            pricing=Pricing(per_core_hour=settings.price_per_core_hour, currency=settings.currency),
        )
        adapter = Adapter(tools, DomainEventLine(beside.connect))
        self._supplies = supplies_of(beside, root)
        self._lineage = lineage_of(tools, self._events, settings, root)
        self._looks = looks_of(tools, adapter, self._supplies, self._needs, listener.sight, settings, self._lineage)
        self._service = service_of(tools)
        uses = ManagerWatch(self._service.administration.keep_uses, "nobody knows which keys were used")
        old = ManagerWatch(self._service.audit.forget, "old entries of the journal stay")
        self._upkeep = (RegularLooks(uses, every=_USES_EVERY, at_end=uses.run), RegularLooks(old, every=_OLD_EVERY))
        self._access = AccessKeeper(root / "access", beside.reload)
        self._meter = Meter(store, committer, listener, chooser, broker=beside.taken)
        self._watches = watches_of(tools, self._meter, settings, adapter.latencies)
        self._candidate = Candidate(store, name, won=lambda term: words.put(_Word("won", term)), lost=self._step_down)
        self._retry_at: float | None = None
        """When this manager tries again to drive the hosts; None while it drives them, or does not lead."""
        self._term = 0
        self._said_ready = False
        self._waits: str | None = "this manager does not lead yet: it is starting, or another one leads"
        self._noted = False  # whether it is known already that there is something in the journal to look at
        committer.on_change(self._note)

    def run(self) -> None:
        """Serve until a stop signal; everything that was begun has ended then."""
        with ExitStack() as begun:
            begun.callback(self._store.close)
            self._candidate.start()
            begun.callback(self._candidate.stop)
            for upkeep in self._upkeep:
                upkeep.start()
                begun.callback(upkeep.stop)
            # A manager that fails leaves host and broker to the next one, as one that is killed.
            begun.push(lambda error, _error, _at: self._end(keeps=error is not None))
            begun.enter_context(
                Server(
                    self._settings.here,
                    make_app(self._service, self._events, self._awaits),
                    lambda: self._words.put(_Word("broken")),
                    listen=self._settings.listen,
                    port=self._settings.port,
                    tls=self._settings.tls,
                )
            )
            # Else those who listen to it would hold up the end of REST.
            begun.callback(self._events.close)
            self._obey()
            log.info("ends", extra=named("ends"))
        log.info("has ended", extra=named("ended"))

    def _obey(self) -> None:
        while True:
            try:
                word = self._words.get(timeout=_JOURNAL_EVERY)
            except Empty:
                word = _Word("nothing")
            match word:
                case _Word(what="stop"):
                    return
                case _Word(what="news"):
                    # Many a commit comes with others, and one look finds them all.
                    time.sleep(_JOURNAL_DELAY)
                case _Word(what="won", term=term):
                    log.info("leads, in term %d", term, extra=named("leads", term=term))
                    self._term, self._retry_at = term, 0.0
                case _Word(what="broken"):
                    raise CannotServe("REST ended by itself; see above, and start the service again")
                case _Word(what="lost"):
                    log.warning("does not lead any more", extra=named("lost"))
                    self._committer.step_down()
                    self._end(keeps=True)
            self._look()

    def _note(self) -> None:
        """Something was committed; from any thread."""
        if not self._noted:
            self._noted = True
            self._words.put(_Word("news"))

    def _look(self) -> None:
        """Do what is due between two words."""
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            try:
                self._begin()
                self._retry_at = None
            except (KeeperDown, DatabaseAway, SQLAlchemyError, OSError) as error:
                log.error("%s", error)  # noqa: TRY400 - it says where and what to do
                self._waits, self._retry_at = str(error), time.monotonic() + _RETRY_AFTER
        # Before the journal is read: what is committed from now on may not be in it.
        self._noted = False
        try:
            if self._journal.follow() - NOT_OF_TENANTS and self._drive.is_begun:
                # Another manager may have changed who may do what, and have died before it wrote that.
                self._keep_access()
                self._vouchers.keep()
        except DatabaseAway as error:
            # The store has said so already.
            log.debug("the journal waits: %s", error)
        except SQLAlchemyError as error:
            log.warning("the journal cannot be read: %s", error)
        ready = self._drive.is_begun and self._awaits() is None
        for watch in self._watches if ready else ():
            watch.run()
        if ready and not self._said_ready:
            log.info("is ready at %s", self._settings.here, extra=named("ready", url=self._settings.here))
        self._said_ready = ready

    def _begin(self) -> None:
        """Drive the hosts, now that this manager leads."""
        self._waits = "what was committed is being loaded"
        if not self._committer.leads:
            self._committer.lead(self._term)
            self._chooser.recall()
        self._waits = "broker and host are starting"
        self._keep_access()
        self._vouchers.keep()
        self._drive.begin()
        for looks in self._looks:
            looks.start()
        if (key := self._service.administration.first_key()) is not None:
            kept = write_key(self._root, key)
            log.info("the first operator's API key is in %s", kept, extra=named("key", file=str(kept)))
        self._waits = None

    def _end(self, *, keeps: bool) -> None:
        """Drive the hosts no more; `keeps` leaves broker and host to the next leader."""
        self._waits, self._retry_at = "this manager does not lead", None
        try:
            self._meter.end()
        except (DatabaseAway, SQLAlchemyError) as error:
            log.warning("the last minute that was metered is lost: %s", error)
        for looks in self._looks:
            looks.stop()
        self._drive.end()
        if not keeps:
            for supply in self._supplies.values():
                supply.end()
        self._beside.end(keeps=keeps)

    def _step_down(self) -> None:
        self._committer.step_down()
        self._words.put(_Word("lost"))

    def _awaits(self) -> str | None:
        """The thing that this manager waits for before it is ready; nothing once it is."""
        if self._waits is not None:
            return self._waits
        if not (sight := self._listener.sight()).complete:
            return "the broker has not answered yet"
        if (here := self._beside.here) is not None:
            host = sight.hosts.get(here.name)
            if host is None or not host.alive:
                return f"host {here.name} is starting"
        return None if self._drive.settled else "the hosts have not taken up yet what was committed"

    def _keep_access(self) -> None:
        administration = self._service.administration
        self._access.keep(administration.grants(), administration.broker_hashes())
