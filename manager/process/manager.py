"""Serving: everything that makes a manager, put together, begun and ended in order.

A manager serves REST from its first moment and answers that it is not ready until it leads. Once it leads, it loads
what is committed, sees to the keeper of broker and host, and has the reconciler drive the hosts. It ends the other way
round: REST first, so that nothing new is accepted; then the reconciler; then host and broker, in this order, so that
the host's last words are heard; then the lead is given back. A manager that does not lead leaves host and broker
alone.
"""

import logging
import os
import signal
import sys
import time
import uuid
from contextlib import ExitStack
from functools import cached_property, partial
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from bridge.machine.private_files import is_open_to_others, make_private_folder
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, detect_protocol
from engine import installed_catalogue
from engine.log_lines import begin_log, named, problem
from engine.records.job_folder import job_folder
from engine.vault import Vault
from manager.access import AccessKeeper
from manager.answers import OperationKind
from manager.cases.savings import Pricing
from manager.committer.changes import changes_of
from manager.committer.committer import Committer
from manager.committer.draft import DecisionGround
from manager.defragmentation.choice import Chooser
from manager.defragmentation.learnt_costs import LearntCostStore
from manager.defragmentation.watcher import Watcher
from manager.event_flow.output_watcher import OutputWatcher
from manager.event_flow.sender import EventSender
from manager.observations.listener import Listener
from manager.observations.placeable_hosts import placeable
from manager.problem import DatabaseAway
from manager.process.keeper import KeeperDown, KeeperHandle
from manager.process.keeper_process import KeeperOrder
from manager.process.settings import Settings, write_key
from manager.reconciler.activity import ReconcilerActivity
from manager.reconciler.dataflow_needs import CommittedDataflowLookup
from manager.reconciler.journal_tail import JournalTail
from manager.reconciler.live_events import LiveEvents
from manager.reconciler.parked_dead_letters import CommittedReaderLookup, DeadLetterParking
from manager.reconciler.reconcile_loop import Reconciler
from manager.rest.app import make_app
from manager.rest.server import CannotServe, Server
from manager.savings.counter_growth import BrokerCpu
from manager.savings.meter import Meter, broker_cpu
from manager.service import Service
from manager.store.database import DatabaseDown, Store, sqlite_url
from manager.store.leadership import Candidate
from merge import Host

NO_HOST = "none"
"""The setting that leaves the jobs to hosts that are started elsewhere."""
_JOURNAL_EVERY = 0.5
"""Seconds between two looks for what other managers noted in the journal."""
_JOURNAL_DELAY = 0.05
"""Seconds for which a look at the journal waits for what else is committed."""
_RETRY_AFTER = 5.0
"""Seconds after which what did not come up is tried again."""
_OF_DATAFLOWS = frozenset({OperationKind.SUBMIT, OperationKind.REPLACE, OperationKind.REMOVE})
"""What changes nothing of what tenants may do on the broker."""
log = logging.getLogger("braid.manager")


class _Word(NamedTuple):
    """Something that the main thread has to do next."""

    what: Literal["stop", "broken", "won", "lost", "news", "nothing"]
    term: int = 0


def serve(settings: Settings, *, as_json: bool = False) -> None:
    """Run the service until SIGTERM or SIGINT; what happens is logged, for programs as JSON on standard output."""
    begin_log(as_json=as_json)
    told: SimpleQueue[_Word] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not an event: what a signal interrupts may hold its lock.
        signal.signal(number, lambda _number, _frame: told.put(_Word("stop")))
    try:
        Manager(settings, told).run()
    except (CannotServe, DatabaseDown) as error:
        # Not with its traceback: it says where and what to do.
        log.error("%s", error, extra=problem("cannot-serve", error))  # noqa: TRY400 - as above
        sys.exit(1)


class Manager:
    """One manager; `run` until it is told to stop."""

    def __init__(self, settings: Settings, told: "SimpleQueue[_Word]") -> None:
        self._settings = settings
        self._told = told
        self._root = settings.root.absolute()
        # The database has documents, the spools have events.
        make_private_folder(self._root)
        if is_open_to_others(self._root):
            log.warning("%s is open to others on this machine; unless that is meant, close it: chmod 700", self._root)
        url = settings.database.get_secret_value() if settings.database else sqlite_url(self._root / "braid.db")
        self._store = Store(url)
        self._events = LiveEvents()
        self._journal = JournalTail(self._store, self._events)
        self._listener = Listener(self._connect)
        self._keeping: KeeperHandle | None = None
        self._reconciler: Reconciler | None = None
        self._leading: ExitStack | None = None
        self._again: float | None = None
        """When it is tried to drive the hosts; None while it does, or may not."""
        self._term = 0
        self._said_ready = False
        self._waits: str | None = "this manager does not lead yet: it is starting, or another one leads"
        name = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._chooser = chooser = Chooser(self._listener, LearntCostStore(self._store, name))
        ground = DecisionGround(
            hosts=self._hosts, strategy=settings.placement, pace=settings.pace, measured=lambda: chooser.measured
        )
        catalogue = installed_catalogue()
        self._committer = Committer(self._store, catalogue, ground, name=name)
        self._changes = changes = changes_of(self._committer, self._store, catalogue)
        self._noted = False
        """Whether it is known already that there is something in the journal to look at."""
        self._committer.on_change(self._note)
        self._access = AccessKeeper(self._root / "access", self._reload)
        self._service = Service(self._store, self._committer, changes, self._listener, access_changed=self._keep_access)
        self._service.vault = Vault(self._root)
        self._service.watching = self._watching = OutputWatcher(self._connect)
        self._service.sending = self._sending = EventSender(self._connect)
        self._service.jobs_root = self._root
        self._service.chooser = chooser
        self._service.driven = self._driven
        self._watcher = Watcher(
            self._committer,
            changes.moves,
            chooser,
            by_itself=settings.defragment,
            every=settings.defragment_every,
        )
        self._service.pricing = Pricing(per_core_hour=settings.price_per_core_hour, currency=settings.currency)
        self._meter = Meter(self._store, self._committer, self._listener, chooser, broker=self._broker_taken)
        self._candidate = Candidate(
            self._store, name, won=lambda term: told.put(_Word("won", term)), lost=self._step_down
        )

    def run(self) -> None:
        """Serve until told to stop; everything that was begun has ended then."""
        with ExitStack() as begun:
            begun.callback(self._store.close)
            self._candidate.start()
            begun.callback(self._candidate.stop)
            # A manager that fails leaves host and broker to the next one, as one that is killed.
            begun.push(lambda error, _error, _at: self._end(keeps=error is not None))
            begun.enter_context(
                Server(
                    self._settings,
                    make_app(self._service, self._events, self._awaits),
                    lambda: self._told.put(_Word("broken")),
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
                word = self._told.get(timeout=_JOURNAL_EVERY)
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
                    self._term, self._again = term, 0.0
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
            self._told.put(_Word("news"))

    def _look(self) -> None:
        """What is due between two words."""
        if self._again is not None and time.monotonic() >= self._again:
            try:
                self._begin()
                self._again = None
            except (KeeperDown, DatabaseAway, SQLAlchemyError, OSError) as error:
                log.error("%s", error)  # noqa: TRY400 - it says where and what to do
                self._waits, self._again = str(error), time.monotonic() + _RETRY_AFTER
        # Before the journal is read: what is committed from now on may not be in it.
        self._noted = False
        try:
            if self._journal.follow() - _OF_DATAFLOWS and self._leading is not None:
                # Another manager may have changed who may do what.
                self._keep_access()
        except DatabaseAway as error:
            # The store has said so already.
            log.debug("the journal waits: %s", error)
        except SQLAlchemyError as error:
            log.warning("the journal cannot be read: %s", error)
        ready = self._leading is not None and self._awaits() is None
        if ready:
            self._watch()
        if ready and not self._said_ready:
            log.info("is ready at %s", self._settings.here, extra=named("ready", url=self._settings.here))
        self._said_ready = ready

    def _watch(self) -> None:
        try:
            self._watcher.look()
        except DatabaseAway as error:
            log.debug("jobs are looked at again later: %s", error)
        except Exception:  # whatever it is must not end the service, which does without
            log.exception("jobs stay scattered until the next look")
        try:
            self._meter.look()
        except DatabaseAway as error:
            log.debug("what was metered is written later: %s", error)
        except Exception:  # as above
            log.exception("nothing is metered until the next look")

    def _begin(self) -> None:
        """Drive the hosts, now that this manager leads."""
        self._waits = "what was committed is being loaded"
        if not self._committer.leads:
            self._committer.lead(self._term)
            self._chooser.recall()
        self._waits = "broker and host are starting"
        self._keep_access()
        with ExitStack() as begun:
            if self._order.broker is None or self._order.host is not None:
                self._keeping = KeeperHandle(self._order)
                begun.callback(self._keeping.leave)
                self._keeping.start()
                if (entrance := self._keeping.entrance) is not None:
                    self._service.broker = Address(host=_reached(self._settings.listen), port=entrance)
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
            )
            self._reconciler.start()
            begun.callback(self._reconciler.stop)
            parking = DeadLetterParking(
                self._store, partial(self._connect, lasting=True), CommittedReaderLookup(self._committer)
            )
            begun.callback(parking.stop)
            parking.start()
            self._sending.start()
            begun.callback(self._sending.stop)
            self._watching.start()
            begun.callback(self._watching.stop)
            self._leading = begun.pop_all()
        if (key := self._service.first_key()) is not None:
            kept = write_key(self._root, key)
            log.info("the first operator's API key lies in %s", kept, extra=named("key", file=str(kept)))
        self._waits = None

    def _end(self, *, keeps: bool) -> None:
        """Drive the hosts no more; whether broker and host live on for whoever leads next."""
        self._waits, self._again = "this manager does not lead", None
        try:
            self._meter.end()
        except (DatabaseAway, SQLAlchemyError) as error:
            log.warning("the last minute that was metered is lost: %s", error)
        if self._leading is not None:
            self._leading.close()
            self._leading = None
        self._reconciler = None
        if self._keeping is not None and not keeps:
            self._keeping.stop()
        self._keeping = None

    def _step_down(self) -> None:
        self._committer.step_down()
        self._told.put(_Word("lost"))

    def _driven(self) -> ReconcilerActivity | None:
        reconciler = self._reconciler
        return reconciler.driven if reconciler is not None else None

    def _awaits(self) -> str | None:
        """What this manager waits for before it is ready; nothing once it is."""
        if self._waits is not None:
            return self._waits
        if not (sight := self._listener.sight()).complete:
            return "the broker has not answered yet"
        host = sight.hosts.get(self._settings.host)
        if self._order.host is not None and (host is None or not host.alive):
            return f"host {self._settings.host} is starting"
        if self._reconciler is None or not self._reconciler.settled:
            return "the hosts have not taken up yet what was committed"
        return None

    # Asked for at each submission, and to find out the release takes as long as a good part of one.
    @cached_property
    def _order(self) -> KeeperOrder:
        settings = self._settings
        return KeeperOrder(
            root=str(self._root),
            release=version("braid"),
            host=None if settings.host == NO_HOST else settings.host,
            master=settings.master,
            tags=settings.tag,
            broker=settings.broker.get_secret_value() if settings.broker else None,
            entrance=settings.broker is None,
            listen=settings.listen,
        )

    def _connect(self, client_id: str, *, lasting: bool = False, **told: Any) -> MqttClient:
        address = self._keeping.address if self._keeping is not None else Address.parse(self._order.broker or "")
        client = MqttClient(address, client_id, protocol=detect_protocol(address), lasting=lasting, **told)
        client.begin()
        return client

    def _broker_taken(self) -> BrokerCpu | None:
        keeper = self._keeping.pid if self._keeping is not None and self._order.broker is None else None
        return broker_cpu(keeper, f"{(self._root / 'broker').resolve()}/")

    def _hosts(self) -> tuple[Host, ...]:
        """The hosts that jobs are placed on: the one that is run here, and those that are there."""
        order, here = self._order, None
        if order.host is not None:
            here = Host(name=order.host, cores=float(os.cpu_count() or 1), tags=frozenset(order.tags))
        return placeable(self._listener.hosts(), here)

    def _belongs(self, job: str) -> bool:
        """Whether a job is one of this service's: named as the committer names jobs, and at home in this root."""
        return job.isdecimal() and job == str(int(job)) and job_folder(self._root, job).path.is_dir()

    def _keep_access(self) -> None:
        self._access.keep(self._service.grants(), self._service.broker_hashes())

    def _reload(self) -> None:
        if self._keeping is not None:
            self._keeping.reload()


def _reached(host: str) -> str:
    """The host at which this machine reaches what listens on all of its addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - nothing listens
