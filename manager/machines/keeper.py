"""The keeper of carriages: one thread of the leading manager that has decided and published who carries which host.

It looks at every news of machines, and twice a second. Each message is made from what is committed. A decision
that could not be committed is dropped, and made anew at the next look.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from braid_client.answers.overview import OperationKind
from bridge import topics
from bridge.traces import is_tracing, record_span
from manager.background import Background
from manager.machines.admission import Admission, Claims, MachineWatch, why_it_waits
from manager.machines.carriages import CommittedCarriages, CommittedFleet, DecideCarriages, MachinesSeen
from manager.observations.figures import host_loads
from manager.observations.listener import Listener
from manager.observations.reports import MachineStatus
from manager.observations.sight import Sight
from manager.problem import DatabaseAway, StateNotReady
from ring.fleet import Carriage, CarriageTurn, MachineSeen


def written_carrier(carriage: Carriage, machines: Mapping[str, MachineStatus]) -> bytes:
    """The message on a committed carriage, with the addresses and secrets of the peers as they were last reported."""
    content = {name: getattr(carriage, name) for name in ("host", "machine", "term", "version", "root", "heir")}
    unknown = MachineStatus(seen=MachineSeen(name="", alive=False))
    peers = ((name, machines.get(name, unknown)) for name in carriage.peers)
    content["peers"] = [{"machine": name, "at": peer.seen.at, "secret": peer.secret} for name, peer in peers]
    return json.dumps(content | {"kept_by": sorted(carriage.kept_by)}).encode()


def read_standing(message: bytes) -> tuple[int, int]:
    """The term and version of the carriage in a message; (0, 0) if it cannot be read."""
    try:
        content = json.loads(message)
        return int(content["term"]), int(content["version"])
    except (ValueError, TypeError, KeyError):
        return 0, 0


_LOOK_EVERY = 0.25
"""Seconds between two looks without news."""
_FAILURE_PAUSE = 1.0
"""Seconds between a failed look and the next."""
_AGAIN_AFTER = 2.0
"""Seconds after which a message is sent again that the broker does not retain."""
_MOST_WAITING = 64
"""Machines that wait to be admitted which this manager notes in the journal."""
log = logging.getLogger("braid.carriages")


class _ChangingCarrier(NamedTuple):
    began: int
    """In nanoseconds since 1970."""
    kind: OperationKind
    before: Carriage
    turn: CarriageTurn


class CarriageKeeper:
    """Keeps carriages from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - what is committed and heard, who decides, leads and admits, and when are six things
        self,
        committed: CommittedCarriages,
        listener: Listener,
        decide: DecideCarriages,
        *,
        leads: Callable[[], bool],
        admission: Admission | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is decided or published unless `leads` returns true; without `admission` each machine is admitted."""
        self._admission = admission or Admission()
        self._committed = committed
        self._listener = listener
        self._decide = decide
        self._leads = leads
        self._clock = clock
        self._watch = MachineWatch()
        self._uneven_since: float | None = None
        self._waiting: set[tuple[str, str]] = set()
        """The machines that were noted, by name and key."""
        self._changing: dict[str, _ChangingCarrier] = {}
        """The hosts whose carriers change, as far as that is traced."""
        self._sent: dict[str, tuple[int, bytes, float]] = {}
        """What was last sent on each topic: over which connection, and when."""
        self._woken = threading.Event()
        self._thread = Background(self._run, "keeps carriages", wake=self._woken.set)

    def start(self) -> None:
        """Start the thread."""
        self._listener.on_news(self._woken.set)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; idempotent."""
        self._thread.stop()

    def look(self) -> bool:
        """Decide, commit and publish what is due; true if more may be due at once."""
        sight = self._listener.sight()
        if not sight.complete or not self._leads():
            return False
        fleet = self._committed.fleet()
        self._trace(sight)
        if not sight.machines and not fleet.carriages and not fleet.ended:
            return False
        machines = self._admission.admitted(sight.machines, fleet)
        now = self._clock()
        seen = replace(
            self._watch.take(machines, sight.connection, fleet.named, now),
            loads=host_loads((job.seen for job in sight.jobs.values() if job.seen is not None), now),
            uneven_since=self._uneven_since,
        )
        decision = self._decide(fleet, seen)
        keys = self._admission.keys(machines, fleet, decision.tokens)
        turned = bool(decision.turns) or decision.tokens != fleet.tokens or keys != fleet.keys
        if turned:
            before = fleet.carriages
            self._committed.commit(fleet, decision.turns, decision.tokens, keys, balance=decision.balance)
            fleet = self._committed.fleet()
            if decision.balance:
                log.info("%s", decision.balance)
            for turn in decision.turns:
                self._note_carrier(before.get(turn.carriage.host), turn, now, seen)
                log.info("host %s, carried by %s: %s", turn.carriage.host, turn.carriage.machine, turn.why)
        # Only now: what could not be committed is decided anew.
        self._uneven_since = decision.uneven_since
        self._publish(fleet, machines, sight)
        self._clear(fleet, sight)
        self._note_waiting(fleet, sight.machines)
        return turned

    def _note_carrier(self, before: Carriage | None, turn: CarriageTurn, now: float, seen: MachinesSeen) -> None:
        """Note since when a host changes its carrier, if it does, and that is traced."""
        if not is_tracing() or before is None or before.machine == turn.carriage.machine:
            return
        kind = OperationKind.HAND_OVER if before.heir == turn.carriage.machine else OperationKind.TAKE_OVER
        waited = now - seen.lost_since.get(before.machine, now) if kind is OperationKind.TAKE_OVER else 0.0
        self._changing[turn.carriage.host] = _ChangingCarrier(time.time_ns() - int(waited * 1e9), kind, before, turn)

    def _trace(self, sight: Sight) -> None:
        """Trace the changes of carriers that are over, as the hosts run on their new machines."""
        for host, (began, kind, before, turn) in [*self._changing.items()]:
            known, after = sight.hosts.get(host), turn.carriage.machine
            if known is not None and known.alive and known.machine == after:
                about = {"braid.host": host, "braid.machine": after, "braid.machine.before": before.machine}
                record_span(kind, began, time.time_ns(), {**about, "braid.reason": turn.why})
                del self._changing[host]

    def _publish(self, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], sight: Sight) -> None:
        """Publish what is committed where the broker retains something older, or nothing."""
        for host, carriage in sorted(fleet.carriages.items()):
            message, retained = written_carrier(carriage, machines), sight.carriers.get(host)
            if message == retained:
                continue
            if retained is not None and read_standing(retained) > (carriage.term, carriage.version):
                # Another manager leads, and this one does not know it yet.
                log.debug("host %s: the broker retains a newer carriage than version %d", host, carriage.version)
                continue
            self._send(topics.host(host, "carrier"), message, sight)

    def _clear(self, fleet: CommittedFleet, sight: Sight) -> None:
        """Clear what the broker retains of machines that were forgotten, and of the hosts that ended with them."""
        for host in sorted(fleet.ended):
            if host in sight.carriers:
                self._send(topics.host(host, "carrier"), b"", sight)
            if host in sight.hosts and not sight.hosts[host].alive:
                self._send(topics.host(host, "status"), b"", sight)
        for name in sorted(sight.machines.keys() - fleet.known):
            if not any(status.seen.alive for status in sight.machines[name]):
                self._send(topics.machine(name, "status"), b"", sight)

    def _note_waiting(self, fleet: CommittedFleet, claims: Claims) -> None:
        """Note each machine that waits to be admitted once."""
        for name, status in sorted(self._admission.waiting(claims, fleet).items()):
            if (name, status.key) not in self._waiting and len(self._waiting) < _MOST_WAITING:
                why = why_it_waits(name, fleet)
                self._committed.note(OperationKind.MACHINE_WAITS, name, why)
                self._waiting.add((name, status.key))
                log.warning("machine %s waits: %s", name, why)

    def _send(self, topic: str, message: bytes, sight: Sight) -> None:
        """Have the broker retain a message, unless it was sent a moment ago."""
        now = self._clock()
        connection, sent, at = self._sent.get(topic, (0, b"", 0.0))
        if (connection, sent) != (sight.connection, message) or now - at >= _AGAIN_AFTER:
            self._sent[topic] = sight.connection, message, now
            self._listener.publish(topic, message, retain=True)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            self._woken.wait(_LOOK_EVERY)
            self._woken.clear()
            try:
                if self.look():
                    self._woken.set()
            except (DatabaseAway, StateNotReady) as error:
                log.debug("carriages stay as they are until the next look: %s", error)
                self._thread.stopping.wait(_FAILURE_PAUSE)
            except Exception:  # no error may end the only thread that keeps carriages
                log.exception("carriages stay as they are until the next look")
                self._thread.stopping.wait(_FAILURE_PAUSE)
