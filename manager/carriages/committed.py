"""The committed carriages, the places of machines on the ring, and the machines that operators drain."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter
from sqlalchemy import select
from sqlmodel import Session

from manager.answers import OperationKind
from manager.committer.committer import Committer
from manager.committer.rows import OPERATOR
from manager.problem import StateNotReady
from manager.store.database import Store
from manager.store.tables import CarriageRow, MachineRow, OperationRow
from ring.carriage import Carriage
from ring.fleet import CarriageTurn

_CARRIAGE = TypeAdapter(Carriage)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedFleet:
    """All that is committed about machines and the hosts that they carry."""

    carriages: Mapping[str, Carriage] = field(default_factory=dict)
    """By host."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """The places of machines on the ring."""
    draining: frozenset[str] = frozenset()
    """The machines that are to give up all hosts."""

    @property
    def named(self) -> frozenset[str]:
        """All machines that carriages name."""
        return frozenset().union(*({each.machine, each.heir, *each.peers} for each in self.carriages.values())) - {""}


class CommittedCarriages:
    """One manager's; only the leader reads and commits. Any thread may call it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store
        self._lock = threading.RLock()
        self._term = 0
        """The term in which `_fleet` was read. Nobody else has committed anything in it."""
        self._fleet: CommittedFleet | None = None

    def fleet(self) -> CommittedFleet:
        """What is committed now."""
        with self._lock:
            term = self._committer.term
            if not term:
                raise StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads")
            if self._fleet is None or self._term != term:
                with self._store.read() as session:
                    self._fleet, self._term = _read(session), term
            return self._fleet

    def commit(self, base: CommittedFleet, turns: Iterable[CarriageTurn], tokens: Mapping[str, int]) -> None:
        """Commit the turns of carriages, and the places of all machines, as decided on a fleet that is still the one.

        Take-overs and hand-overs go into the journal.
        """
        turns, begun = tuple(turns), time.monotonic()
        carriages = {turn.carriage.host: turn.carriage for turn in turns}
        with self._lock:
            if self.fleet() is not base:
                raise StateNotReady("the committed carriages are not those that this was decided on")
            noted = [note for turn in turns if (note := _note(base.carriages.get(turn.carriage.host), turn))]
            after = replace(base, carriages={**base.carriages, **carriages}, tokens=dict(tokens))
            with self._changing(after) as session:
                for each in carriages.values():
                    session.merge(_row(each))
                for name in {*base.tokens, *tokens}:
                    _machine(session, name).token = tokens.get(name)
                for kind, subject, why in noted:
                    _write(session, kind, subject, who=OPERATOR, begun=begun, note=why)
        if noted:
            self._committer.notify()

    def drain(self, machine: str, *, draining: bool, who: str) -> None:
        """Have a machine give up all hosts, or let it have some again; idempotent."""
        begun = time.monotonic()
        with self._lock:
            base = self.fleet()
            if (machine in base.draining) is draining:
                return
            kind = OperationKind.DRAIN_MACHINE if draining else OperationKind.UNDRAIN_MACHINE
            after = base.draining | {machine} if draining else base.draining - {machine}
            with self._changing(replace(base, draining=after)) as session:
                _machine(session, machine).draining = draining
                _write(session, kind, machine, who=who, begun=begun)
        self._committer.notify()

    @contextmanager
    def _changing(self, after: CommittedFleet) -> Iterator[Session]:
        # Read anew after a failure, since it is unknown then what was committed.
        self._fleet = None
        with self._committer.beside(self._term) as session:
            yield session
        self._fleet = after


def _write(  # noqa: PLR0913 - what was done, by whom, and why
    session: Session, kind: OperationKind, subject: str, *, who: str, begun: float, note: str = ""
) -> None:
    """Write an entry into the journal."""
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
    machines = session.scalars(select(MachineRow)).all()
    return CommittedFleet(
        carriages={row.host: _carriage(row) for row in session.scalars(select(CarriageRow))},
        tokens={row.name: row.token for row in machines if row.token is not None},
        draining=frozenset(row.name for row in machines if row.draining),
    )


def _machine(session: Session, name: str) -> MachineRow:
    row = session.get(MachineRow, name)
    if row is None:
        row = MachineRow(name=name)
        session.add(row)
    return row


def _carriage(row: CarriageRow) -> Carriage:
    return _CARRIAGE.validate_python(row.model_dump())


def _row(carriage: Carriage) -> CarriageRow:
    return CarriageRow.model_validate(_CARRIAGE.dump_python(carriage) | {"kept_by": sorted(carriage.kept_by)})
