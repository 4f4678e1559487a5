"""Carriages: which machine carries which host, as it is committed, with classes and rentals; how safe each host is."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pydantic import TypeAdapter
from sqlalchemy import delete, select
from sqlmodel import Session, col

from braid_client.answers.jobs import HostSafety
from braid_client.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import SERVICE
from manager.machines.rentals import SuppliedClass, measure, read_classes, read_rentals
from manager.problem import StateNotReady
from manager.store.database import Store
from manager.store.machine_tables import CarriageRow, MachineClassRow, MachineRow, RentalRow
from manager.store.tables import OperationRow
from provisioning.figures import MachineClass, Rental
from ring.balance import joined, next_ring
from ring.decision import decide
from ring.fleet import SETTLED_AFTER, STORE, Carriage, CarriageTurn, Fleet, MachineSeen
from ring.tokens import Ring

_CARRIAGE = TypeAdapter(Carriage)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesSeen:
    """The machines as they are seen at one moment; made by `MachineWatch`."""

    now: float
    machines: Mapping[str, MachineSeen] = field(default_factory=dict)
    lost_since: Mapping[str, float] = field(default_factory=dict)
    """The moment since which each machine that is not alive counts as lost; it may be to come."""
    alive_since: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    """The cores that each host takes."""
    uneven_since: float | None = None
    """Since when loads are uneven, by the last decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFleet:
    """All that is committed about machines and the hosts that they carry."""

    carriages: Mapping[str, Carriage] = field(default_factory=dict)
    """The carriage of each host that a machine carries."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """The places of machines on the ring; admitted ones have one."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys of these, as far as they are known."""
    draining: frozenset[str] = frozenset()
    """The machines that are to give up all hosts."""
    rentals: Mapping[str, Rental] = field(default_factory=dict)
    """The machines that the service started by itself; they may never report, as workers of Spark do not."""
    classes: Mapping[str, SuppliedClass] = field(default_factory=dict)
    """The classes of which it may start machines."""
    ended: Mapping[str, Carriage] = field(default_factory=dict)
    """The hosts that were forgotten with their machines, by their last terms; no machine carries them."""

    @property
    def known(self) -> frozenset[str]:
        """All machines that anything is committed of."""
        return self.named | self.tokens.keys() | self.draining | self.rentals.keys()

    @property
    def named(self) -> frozenset[str]:
        """All machines that carriages name."""
        return frozenset().union(
            *({carriage.machine, carriage.heir, *carriage.peers} for carriage in self.carriages.values())
        ) - {""}

    def with_seen(self, seen: MachinesSeen, *, replicas: int, settled_after: float = SETTLED_AFTER) -> Fleet:
        """All that a decision considers beside the carriages."""
        return Fleet(
            machines=seen.machines,
            ring=Ring(self.tokens),
            replicas=replicas,
            draining=self.draining,
            now=seen.now,
            lost_since=seen.lost_since,
            alive_since=seen.alive_since,
            settled_after=settled_after,
            loads=seen.loads,
        )


class CommittedCarriages:
    """Reads and commits carriages, while its manager leads. Any thread may call it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store
        self._lock = threading.RLock()
        self._term = 0
        """The term in which `_fleet` was read. Nobody else has committed anything in it."""
        self._fleet: CommittedFleet | None = None
        self.carried = frozenset[str]()
        """The hosts that machines carry, as of the last reading or commit; read without a lock, from any thread."""

    def fleet(self) -> CommittedFleet:
        """What is committed now."""
        with self._lock:
            term = self._committer.term
            if not term:
                raise StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads")
            if self._fleet is None or self._term != term:
                with self._store.read() as session:
                    self._fleet, self._term = _read(session), term
                self.carried = frozenset(self._fleet.carriages)
            return self._fleet

    def commit(
        self,
        base: CommittedFleet,
        turns: Iterable[CarriageTurn],
        tokens: Mapping[str, int],
        keys: Mapping[str, str] | None = None,
        *,
        balance: str = "",
    ) -> None:
        """Commit the turns of carriages, and the places of all machines, as decided on a fleet that is still the one.

        `keys` are those of all machines, if they changed.

        Take-overs and hand-overs go into the journal, and so does `balance`, the reason why tokens were moved.
        """
        turns, begun = tuple(turns), time.monotonic()
        carriages = {turn.carriage.host: turn.carriage for turn in turns}
        with self._lock:
            if self.fleet() is not base:
                raise StateNotReady("the committed carriages are not those that this was decided on")
            noted = [note for turn in turns if (note := _note(base.carriages.get(turn.carriage.host), turn))]
            noted += [(OperationKind.BALANCE, "machines", balance)] if balance else []
            after = replace(
                base,
                carriages={**base.carriages, **carriages},
                tokens=dict(tokens),
                keys=dict(base.keys if keys is None else keys),
                ended={host: carriage for host, carriage in base.ended.items() if host not in carriages},
            )
            with self._changing(after) as session:
                for carriage in carriages.values():
                    session.merge(_row(carriage))
                for name in {*base.tokens, *tokens}:
                    _machine(session, name).token = tokens.get(name)
                    _machine(session, name).key = after.keys.get(name, "")
                for kind, subject, why in noted:
                    _write(session, kind, subject, who=SERVICE, begun=begun, note=why)
        if noted:
            self._committer.notify()

    def admit(self, machine: str, key: str, *, who: str, loads: Mapping[str, float] = MappingProxyType({})) -> None:
        """Give a machine a place on the ring, and know it by its key from now on; idempotent.

        `loads` are those of the hosts. A new machine is placed where it can soon take over a part of the most.
        One without a key, of an earlier release, is known by the first that it shows.
        """
        begun = time.monotonic()
        with self._lock:
            base = self.fleet()
            if machine in base.tokens and base.keys.get(machine, "") == key:
                return
            is_new = machine not in base.tokens
            tokens = joined(machine, Ring(base.tokens), base.carriages, loads).tokens if is_new else base.tokens
            known = {name: key for name, key in base.keys.items() if name != machine}
            after = replace(base, tokens=tokens, keys=known | ({machine: key} if key else {}))
            with self._changing(after) as session:
                for name, token in tokens.items():
                    _machine(session, name).token = token
                _machine(session, machine).key = key
                _write(session, OperationKind.ADMIT_MACHINE, machine, who=who, begun=begun, note=f"its key is {key}")
        self._committer.notify()

    def note(self, kind: OperationKind, machine: str, why: str) -> None:
        """Write something about a machine into the journal."""
        with self._lock:
            self.fleet()
            with self._committer.beside(self._term) as session:
                _write(session, kind, machine, who=SERVICE, begun=time.monotonic(), note=why)
        self._committer.notify()

    def put_class(self, row: MachineClassRow, *, who: str) -> None:
        """Store a class of machines, or change it."""
        with self._noting(OperationKind.PUT_MACHINE_CLASS, row.name, who=who) as session:
            session.merge(row)

    def remove_class(self, name: str, *, who: str) -> None:
        """Store a class of machines no more."""
        with self._noting(OperationKind.REMOVE_MACHINE_CLASS, name, who=who) as session:
            session.execute(delete(MachineClassRow).where(col(MachineClassRow.name) == name))

    def add(self, machine: str, kind: MachineClass, why: str) -> None:
        """Have a machine of a class that the service starts by itself: it is rented from now on."""
        with self._noting(OperationKind.ADD_MACHINE, machine, who=SERVICE, note=why) as session:
            _machine(session, machine).draining = False
            ordered = RentalRow(
                machine=machine,
                machine_class=kind.name,
                cores=kind.cores,
                price=kind.price,
                why=why,
                ordered=time.time(),
            )
            session.add(ordered)

    def come(self, rental: Rental, speed: float | None) -> None:
        """Note that a rented machine has come, and how fast its cores are, as far as it says so."""
        with self._lock, self._changing() as session:
            row = session.get_one(RentalRow, rental.number)
            row.ready, row.speed = row.ready or time.time(), speed
            session.flush()
            measure(session, row.machine_class)

    def take_back(self, machine: str, why: str) -> None:
        """Have a machine that was added give up all hosts, to be stopped then."""
        self._turn(OperationKind.REMOVE_MACHINE, machine, draining=True, note=why)

    def drain(self, machine: str, *, draining: bool, who: str) -> None:
        """Have a machine give up all hosts, or let it have some again; idempotent."""
        kind = OperationKind.DRAIN_MACHINE if draining else OperationKind.UNDRAIN_MACHINE
        self._turn(kind, machine, draining=draining, who=who)

    def _turn(self, kind: OperationKind, machine: str, *, draining: bool, who: str = SERVICE, note: str = "") -> None:
        begun = time.monotonic()
        with self._lock:
            base = self.fleet()
            if (machine in base.draining) is draining:
                return
            left = base.draining - {machine}
            with self._changing(replace(base, draining=left | {machine} if draining else left)) as session:
                _machine(session, machine).draining = draining
                _write(session, kind, machine, who=who, begun=begun, note=note)
        self._committer.notify()

    @contextmanager
    def _noting(self, kind: OperationKind, subject: str, *, who: str, note: str = "") -> Iterator[Session]:
        """Change something that is read anew then, and note it in the journal."""
        begun = time.monotonic()
        with self._lock:
            self.fleet()
            with self._changing() as session:
                yield session
                _write(session, kind, subject, who=who, begun=begun, note=note)
        self._committer.notify()

    def forget(self, machine: str, *, ending: Collection[str], who: str) -> None:
        """Forget a machine, and the hosts that end with it; idempotent. Its neighbour takes its place on the ring.

        Who calls it notifies the committer's listeners, without its lock.
        """
        begun = time.monotonic()
        with self._lock:
            base = self.fleet()
            ended = {host: _ended(base.carriages[host]) for host in sorted(ending)}
            if machine not in base.tokens.keys() | base.draining | base.rentals.keys() and not ended:
                return
            tokens = Ring(base.tokens).left(machine).tokens
            after = replace(
                base,
                carriages={host: carriage for host, carriage in base.carriages.items() if host not in ended},
                tokens=tokens,
                keys={name: key for name, key in base.keys.items() if name != machine},
                draining=base.draining - {machine},
                rentals={name: rental for name, rental in base.rentals.items() if name != machine},
                ended={**base.ended, **ended},
            )
            with self._changing(after) as session:
                for carriage in ended.values():
                    session.merge(_row(carriage))
                for name, token in tokens.items():
                    _machine(session, name).token = token
                session.execute(delete(MachineRow).where(col(MachineRow.name) == machine))
                if (rental := base.rentals.get(machine)) is not None:
                    session.get_one(RentalRow, rental.number).ended = time.time()
                note = f"host {', '.join(ended)} ended with it" if ended else ""
                _write(session, OperationKind.FORGET_MACHINE, machine, who=who, begun=begun, note=note)

    @contextmanager
    def _changing(self, after: CommittedFleet | None = None) -> Iterator[Session]:
        # Read anew after a failure, since it is unknown then what was committed.
        self._fleet = None
        with self._committer.beside(self._term) as session:
            yield session
        if after is not None:
            self._fleet, self.carried = after, frozenset(after.carriages)


def _write(  # noqa: PLR0913 - what was done, by whom, and why
    session: Session, kind: OperationKind, subject: str, *, who: str, begun: float, note: str = ""
) -> None:
    seconds = time.monotonic() - begun
    session.add(OperationRow(at=time.time(), kind=kind, who=who, subject=subject, seconds=seconds, note=note))


def _note(before: Carriage | None, turn: CarriageTurn) -> tuple[OperationKind, str, str] | None:
    """The entry in the journal for a turn that changes the carrier: its kind, its subject, and the reason."""
    after = turn.carriage
    if before is None or before.machine == after.machine:
        return None
    kind = OperationKind.HAND_OVER if before.heir == after.machine else OperationKind.TAKE_OVER
    return kind, after.host, f"from {before.machine} to {after.machine}: {turn.why}"


def _read(session: Session) -> CommittedFleet:
    machines, classes = session.scalars(select(MachineRow)).all(), read_classes(session)
    rows = session.scalars(select(CarriageRow))
    carriages = {row.host: _CARRIAGE.validate_python(row.model_dump()) for row in rows}
    return CommittedFleet(
        carriages={host: carriage for host, carriage in carriages.items() if carriage.machine},
        ended={host: carriage for host, carriage in carriages.items() if not carriage.machine},
        tokens={row.name: row.token for row in machines if row.token is not None},
        keys={row.name: row.key for row in machines if row.key},
        draining=frozenset(row.name for row in machines if row.draining),
        rentals=read_rentals(session, classes),
        classes=classes,
    )


def _ended(carriage: Carriage) -> Carriage:
    """What is kept of a forgotten host: what its next carrier has to count on from."""
    return Carriage(host=carriage.host, machine="", term=carriage.term, version=carriage.version)


def _machine(session: Session, name: str) -> MachineRow:
    row = session.get(MachineRow, name)
    if row is None:
        row = MachineRow(name=name)
        session.add(row)
    return row


def _row(carriage: Carriage) -> CarriageRow:
    return CarriageRow.model_validate(_CARRIAGE.dump_python(carriage) | {"kept_by": sorted(carriage.kept_by)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDecision:
    """What is to be committed next."""

    turns: tuple[CarriageTurn, ...]
    tokens: Mapping[str, int]
    """The places of all machines on the ring."""
    balance: str = ""
    """Why tokens were moved, if they were."""
    uneven_since: float | None = None
    """The time since when loads are uneven, for the next decision."""


DecideCarriages = Callable[[CommittedFleet, MachinesSeen], FleetDecision]
"""Decides who carries which host, by what is committed and seen. A pure function."""


def decide_with(replicas: int, settled_after: float = SETTLED_AFTER) -> DecideCarriages:
    """The decision of `ring`, with as many copies of each host."""

    def decide_turns(fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        before = fleet.with_seen(seen, replicas=replicas, settled_after=settled_after)
        turned = next_ring(fleet.carriages, before, seen.uneven_since)
        turns = decide(fleet.carriages, replace(before, ring=turned.ring))
        return FleetDecision(
            turns=tuple(_begun_again(turn, fleet.ended) for turn in turns),
            tokens=turned.ring.tokens,
            balance=turned.why,
            uneven_since=turned.uneven_since,
        )

    return decide_turns


def _begun_again(turn: CarriageTurn, ended: Mapping[str, Carriage]) -> CarriageTurn:
    """The turn, after the term in which its host was forgotten, if it was: machines ignore orders of older terms."""
    before = ended.get(turn.carriage.host)
    if before is None:
        return turn
    return replace(turn, carriage=replace(turn.carriage, term=before.term + 1, version=before.version + 1))


class HostStanding(HostSafety):
    """How safe a host is, with its carriage."""

    carriage: Carriage


def standings(
    committed: CommittedFleet, machines: Mapping[str, MachineSeen], *, replicas: int
) -> tuple[HostStanding, ...]:
    """The standing of each host, ordered by name."""
    fleet = committed.with_seen(MachinesSeen(now=0.0, machines=machines), replicas=replicas)
    return tuple(_standing(carriage, fleet) for _, carriage in sorted(committed.carriages.items()))


def _standing(carriage: Carriage, fleet: Fleet) -> HostStanding:
    others = [name for name in sorted(fleet.machines) if name != carriage.machine]
    carrier = fleet.machines.get(carriage.machine)
    report = carrier.hosts.get(carriage.host) if carrier is not None and carrier.alive else None
    standby = tuple(name for name in others if fleet.has_files(name, carriage))
    copies = sum(name in standby for name in carriage.kept_by)
    return HostStanding(
        carriage=carriage,
        standby=standby,
        behind_bytes=None if report is None else report.behind_bytes,
        troubles={} if report is None else dict(report.troubles),
        under_replicated=copies < fleet.replicas,
        stays=_stays(carriage, fleet, others, standby),
    )


def _stays(carriage: Carriage, fleet: Fleet, others: list[str], standby: tuple[str, ...]) -> str:
    host, machine = carriage.host, carriage.machine
    if not fleet.alive(machine, carriage.root):
        if standby:
            return ""
        remedies = [f"start {machine} again with its root"]
        if copies := carriage.kept_by - {STORE}:
            remedies.append(f"a machine that has a copy: {', '.join(sorted(copies))}")
        seen = fleet.machines.get(host)
        if seen is not None and seen.alive and seen.restores:
            # It was not taken up.
            what = f"restore it although its store may lack what others have seen with: braid host {host} --restore"
            remedies.append(f"{what} --accept-loss")
        elif STORE in carriage.kept_by:
            remedies.append(f"restore it on an empty folder with: braid host {host} --restore")
        return (
            f"machine {machine} is away, and no machine that is there has everything of host {host}; "
            f"{', or '.join(remedies)}"
        )
    if machine not in fleet.draining:
        return ""
    takers = [name for name in others if name in standby or fleet.takes_copies(name, carriage)]
    if any(name not in fleet.draining for name in takers):
        return ""
    drained = f"; {', '.join(takers)} could, but drains too" if takers else ""
    return (
        f"no other machine takes copies of host {host} or shares its root{drained}; start another machine with: "
        f"braid host NAME, or keep this one with: braid machines undrain {machine}"
    )
