"""Laws of the keeper over random news, failures and changes of the lead."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlmodel import Session

from bridge import topics
from manager.machines.carriages import CommittedFleet, FleetDecision, MachinesSeen
from manager.machines.keeper import CarriageKeeper
from manager.observations.listener import Listener
from manager.observations.reports import MachineStatus
from manager.observations.sight import Sight
from manager.problem import DatabaseAway, StateNotReady
from manager.store.database import Store, sqlite_url
from manager.store.machine_tables import CarriageRow
from manager.store.tables import Leadership
from ring.fleet import Carriage, CarriageTurn, MachineSeen
from tests.manager.machines.carriages import committed_of
from tests.manager.managers import Manager

HOSTS, MACHINES = ("h", "i"), ("a", "b", "c")
Fault = Literal["", "before", "after", "lost"]
Row = tuple[str, str, int, int, str, tuple[str, ...], frozenset[str]]


class Town:
    """Two managers that share a database, and a broker that is a dictionary."""

    def __init__(self, url: str) -> None:
        self.retained: dict[str, bytes] = {}
        self.machines: dict[str, MachineStatus] = {}
        self.connection = 1
        self.reading = Store(url)
        self.ever: set[Row] = set()
        """Everything that was committed at some time."""
        self.managers = [Led(self, url, name) for name in ("one", "two")]

    def rows(self) -> dict[str, Row]:
        with self.reading.read() as session:
            found = {row.host: _row(row) for row in session.scalars(select(CarriageRow))}
        self.ever |= set(found.values())
        return found

    def publish(self, topic: str, payload: bytes) -> None:
        """Hold the law: what is published is, or was, committed as it is."""
        committed, message = self.rows(), json.loads(payload)
        assert _row_of(message) in self.ever
        assert topic == topics.host(message["host"], "carrier")
        host = message["host"]
        assert (message["term"], message["version"]) <= committed[host][2:4]
        self.retained[host] = payload

    def close(self) -> None:
        for each in self.managers:
            each.manager.close()
        self.reading.close()


class Line(Listener):
    """A listener that sees the town's machines and messages at once."""

    def __init__(self, town: Town) -> None:
        super().__init__(lambda *_, **__: pytest.fail("nothing connects"))
        self._town = town

    def sight(self) -> Sight:
        town = self._town
        machines = {name: (status,) for name, status in town.machines.items()}
        return Sight(complete=True, connection=town.connection, machines=machines, carriers=dict(town.retained))

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        assert retain
        self._town.publish(topic, payload)


class Led:
    """A manager of the town with its keeper."""

    def __init__(self, town: Town, url: str, name: str) -> None:
        self.town, self.manager = town, Manager(url, name)
        self.fault: Fault = ""
        self.chosen: Mapping[str, tuple[str, tuple[str, ...]]] = {}
        self.clock = 0.0
        self._beside = self.manager.committer.beside
        cast("Any", self.manager.committer).beside = self._faulty
        self.keeper = CarriageKeeper(
            committed_of(self.manager),
            Line(town),
            self._decide,
            leads=lambda: self.manager.committer.leads,
            clock=lambda: self.clock,
        )

    def _decide(self, fleet: CommittedFleet, seen: MachinesSeen) -> FleetDecision:
        assert seen.now == self.clock
        if self.fault == "lost":
            other = next(each for each in self.town.managers if each is not self)
            other.manager.lead()
        return FleetDecision(
            turns=tuple(
                CarriageTurn(carriage=_next(fleet, host, *to), why="a test says so") for host, to in self.chosen.items()
            ),
            tokens={name: place for place, name in enumerate(MACHINES)},
        )

    @contextmanager
    def _faulty(self, term: int) -> Iterator[Session]:
        with self._beside(term) as session:
            yield session
            if self.fault == "before":
                raise DatabaseAway(1.0)
        if self.fault == "after":
            raise DatabaseAway(1.0)

    def look(self, chosen: Mapping[str, tuple[str, tuple[str, ...]]], fault: Fault) -> None:
        self.chosen, self.fault = chosen, fault
        self.clock += 1.0
        try:
            self.keeper.look()
        except (DatabaseAway, StateNotReady):
            assert fault or not self.leads_in_truth()

    def leads_in_truth(self) -> bool:
        with self.town.reading.read() as session:
            row = session.get_one(Leadership, 1)
            return (row.leader, row.term) == (self.manager.committer.name, self.manager.committer.term)


def _next(fleet: CommittedFleet, host: str, machine: str, peers: tuple[str, ...]) -> Carriage:
    before = fleet.carriages.get(host)
    if before is None:
        return Carriage(host=host, machine=machine, peers=peers)
    term = before.term + (machine != before.machine)
    return Carriage(
        host=host, machine=machine, term=term, version=before.version + 1, peers=peers, kept_by=frozenset(peers[:1])
    )


def _row(row: CarriageRow) -> Row:
    return row.host, row.machine, row.term, row.version, row.heir, tuple(row.peers), frozenset(row.kept_by)


def _row_of(message: dict[str, Any]) -> Row:
    peers = tuple(each["machine"] for each in message["peers"])
    fields = (message[name] for name in ("host", "machine", "term", "version", "heir"))
    return (*fields, peers, frozenset(message["kept_by"]))


choices = st.dictionaries(
    st.sampled_from(HOSTS),
    st.tuples(st.sampled_from(MACHINES), st.lists(st.sampled_from(MACHINES), max_size=2, unique=True).map(tuple)),
    max_size=2,
)
steps = st.one_of(
    st.tuples(st.just("look"), st.integers(0, 1), choices, st.sampled_from(("", "", "", "before", "after", "lost"))),
    st.tuples(st.just("lead"), st.integers(0, 1)),
    st.tuples(st.just("say"), st.sampled_from(MACHINES), st.booleans(), st.integers(0, 2)),
    st.tuples(st.just("break"), st.sets(st.sampled_from(HOSTS))),
)


@settings(max_examples=25)
@given(st.lists(steps, min_size=5, max_size=30))
def test_nothing_is_published_before_it_is_committed(migrated: Path, script: list[Any]) -> None:
    """Whichever leads, fails or loses the lead, each message tells a committed carriage; at the end, the latest one."""
    with tempfile.TemporaryDirectory() as folder:
        town = Town(sqlite_url(Path(shutil.copy(migrated, Path(folder) / "braid.db"))))
        try:
            for step in script:
                _take(town, *step)
                town.rows()
            last = town.managers[0]
            last.manager.lead()
            last.clock += 60.0
            town.machines["a"] = MachineStatus(seen=MachineSeen(name="a", alive=True))
            last.look({}, "")
            assert {host: _row_of(json.loads(message)) for host, message in town.retained.items()} == town.rows()
        finally:
            town.close()


def _take(town: Town, what: str, *of: Any) -> None:
    match what, of:
        case "look", (manager, chosen, fault):
            town.managers[manager].look(chosen, fault)
        case "lead", (manager,):
            town.managers[manager].manager.lead()
        case "say", (machine, alive, secret):
            seen = MachineSeen(name=machine, alive=alive, at=f"{machine}:1")
            town.machines[machine] = MachineStatus(seen=seen, secret=str(secret))
        case "break", (hosts,):
            town.connection += 1
            for host in hosts:
                town.retained.pop(host, None)
