"""Admission: who counts as a machine, and that nobody becomes one, or passes for one, without an operator."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import topics
from engine.machines.reports import MachineKey
from manager.answers.jobs import MachineAnswer
from manager.answers.overview import OperationKind
from manager.machines.admission import Admission
from manager.machines.carriages import CommittedFleet, decide_with
from manager.observations.reports import HostSeen, MachineStatus
from manager.use_case import Paging
from ring.fleet import MachineSeen
from tests.manager.carriages.machines import Kept, hosts_of
from tests.manager.managers import OPERATOR, Manager

NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["", "1", "2", "3"])


@st.composite
def claims(draw: st.DrawFn) -> dict[str, tuple[MachineStatus, ...]]:
    found: dict[str, tuple[MachineStatus, ...]] = {}
    for name in draw(st.sets(NAMES)):
        keys = draw(st.lists(KEYS, unique=True, min_size=1))
        heard = [MachineStatus(seen=MachineSeen(name=name, alive=draw(st.booleans())), key=key) for key in keys]
        found[name] = tuple(sorted(heard, key=lambda status: not status.seen.alive))
    return found


FLEETS = st.builds(
    CommittedFleet,
    tokens=st.dictionaries(NAMES, st.just(1)),
    keys=st.dictionaries(NAMES, st.sampled_from(["1", "2"])),
)


@given(claims(), FLEETS, st.sampled_from(["", "3"]))
def test_only_the_known_are_admitted(
    heard: dict[str, tuple[MachineStatus, ...]], fleet: CommittedFleet, own: str
) -> None:
    """Each admitted one has a place and the committed key, or the manager's own; all other live ones wait."""
    admission = Admission(asks=True, own_key=lambda: own)
    admitted, waiting = admission.admitted(heard, fleet), admission.waiting(heard, fleet)
    for name, status in admitted.items():
        known = name in fleet.tokens and fleet.keys.get(name, status.key) == status.key
        assert status in heard[name]
        assert known or status.key == own != ""
    for name, status in waiting.items():
        assert status.seen.alive
        assert admitted.get(name) != status
    assert {name for name, found in heard.items() if found[0].seen.alive} <= admitted.keys() | waiting.keys()
    keys = admission.keys(admitted, fleet, fleet.tokens)
    assert {name: keys[name] for name in fleet.keys.keys() & fleet.tokens.keys()}.items() <= fleet.keys.items()
    assert all(keys[name] == admitted[name].key for name in keys.keys() - fleet.keys.keys())


@given(claims(), FLEETS)
def test_without_operators_everybody_is_admitted(
    heard: dict[str, tuple[MachineStatus, ...]], fleet: CommittedFleet
) -> None:
    """The likeliest of each name, and nobody waits."""
    admission = Admission()
    assert admission.admitted(heard, fleet) == {name: found[0] for name, found in heard.items()}
    assert admission.waiting(heard, fleet) == {}


def test_jobs_are_placed_on_carried_hosts_alone() -> None:
    """A machine that waits reports a host, which gets none."""
    hosts = [HostSeen(host=name, alive=True, seen=datetime.now(UTC)) for name in ("a", "b")]
    assert [each.host for each in Admission(asks=True).placeable(hosts, {"b"})] == ["b"]
    assert [each.host for each in Admission().placeable(hosts, {"b"})] == ["a", "b"]


class Fleet:
    """A keeper that decides as it does, where operators admit."""

    def __init__(self, manager: Manager, folder: Path) -> None:
        self.folder = folder
        self.manager = manager
        admission = Admission(asks=True, own_key=lambda: self.key("own").public)
        self.kept = Kept(manager, admission=admission)
        self.kept.keeper._decide = decide_with(1)
        self.seen = self.kept.hearing.listener.machines
        manager.equip(admission=admission, carriages=self.kept.committed, seeing=self.kept.hearing.listener, replicas=1)

    def key(self, disk: str) -> MachineKey:
        return MachineKey(self.folder / disk)

    def say(self, name: str, disk: str, **fields: object) -> None:
        """Have a machine report itself, with the key and root of a disk."""
        self.kept.say_machine(name, self.key(disk), root=disk, **fields)
        while self.kept.keeper.look():
            self.kept.hearing.settle()
        self.kept.hearing.settle()

    def admit(self, name: str, key: str | None = None) -> None:
        self.manager.service.machines.admit(OPERATOR, name, key)
        while self.kept.keeper.look():
            self.kept.hearing.settle()

    def waits(self) -> dict[str, str]:
        """Who waits, and why."""
        return {each.name: each.waits for each in self.page() if each.waits}

    def carriers(self) -> dict[str, str]:
        return {host: each.machine for host, each in self.kept.committed.fleet().carriages.items()}

    def page(self) -> list[MachineAnswer]:
        return list(self.manager.service.machines.page(OPERATOR, Paging()).items)


@pytest.fixture
def fleet(sqlite: str, tmp_path: Path) -> Iterator[Fleet]:
    manager = Manager(sqlite).lead()
    made = Fleet(manager, tmp_path)
    yield made
    made.kept.close()
    manager.close()


def test_a_new_machine_gets_nothing_before_it_is_admitted(fleet: Fleet) -> None:
    """No host, no copies and no orders; it is listed and noted once, with what to do."""
    fleet.say("a", "one")
    fleet.admit("a")
    fleet.say("b", "two")
    fleet.say("b", "two", zone="z")
    assert fleet.waits() == {"b": "it is new; admit it with: braid machines admit b"}
    assert (fleet.carriers(), hosts_of(fleet.kept.retained())) == ({"a": "a"}, ["a"])
    assert b"secret of b" not in fleet.kept.retained()[0][1]
    fleet.admit("b")
    assert (fleet.waits(), fleet.carriers()) == ({}, {"a": "a", "b": "b"})
    assert fleet.kept.committed.fleet().carriages["a"].peers == ("b",)
    noted = fleet.manager.service.operations.page(OPERATOR, Paging()).items
    assert [(each.kind, each.subject) for each in noted] == [
        (kind, name) for name in "ba" for kind in (OperationKind.ADMIT_MACHINE, OperationKind.MACHINE_WAITS)
    ]


def test_nobody_passes_for_an_admitted_machine(fleet: Fleet) -> None:
    """Another key under its name changes nothing: the machine goes on, with its own address and secret."""
    for name, disk in (("a", "one"), ("b", "two")):
        fleet.say(name, disk)
        fleet.admit(name)
    before = fleet.kept.retained()
    fleet.say("b", "other", at="evil:1", secret="evil")  # noqa: S106 - of a test
    fleet.say("b", "other", alive=False)
    fleet.say("b", "other", at="evil:1", secret="evil")  # noqa: S106 - of a test
    fleet.kept.say_machine("b", at="evil:1")
    fleet.say("a", "one")
    assert fleet.kept.retained() == before
    assert "its key is not that of the machine b that was admitted" in fleet.waits()["b"]
    forged = fleet.key("other").signed({"machine": "b", "alive": False})
    fleet.kept.hearing.say(topics.machine("b", "status"), forged.replace(b'"alive": false', b'"alive": true'))
    fleet.kept.hearing.settle()
    assert fleet.kept.hearing.listener.malformed == 1


def test_a_machine_with_an_empty_disk_is_admitted_anew(fleet: Fleet) -> None:
    """Until then it is lost, and its host goes on elsewhere; it gets copies after that."""
    for name, disk in (("a", "one"), ("b", "two")):
        fleet.say(name, disk)
        fleet.admit(name)
    version = fleet.kept.committed.fleet().carriages["a"].version
    fleet.say("a", "one", hosts={"a": {"version": version, "in_sync": ["b"]}})
    fleet.say("a", "one", alive=False)
    fleet.say("a", "empty")
    fleet.kept.hearing.clock += 2.0
    fleet.say("b", "two")
    assert (fleet.carriers()["a"], list(fleet.waits())) == ("b", ["a"])
    assert fleet.kept.committed.fleet().carriages["a"].peers == ()
    fleet.admit("a", fleet.key("empty").public)
    assert (fleet.waits(), fleet.kept.committed.fleet().carriages["a"].peers) == ({}, ("a",))


def test_machines_that_were_there_before_are_known_by_their_first_key(fleet: Fleet) -> None:
    """Nobody has to admit what was committed by a release without keys; from then on its key is asked for."""
    fleet.kept.committed.commit(fleet.kept.committed.fleet(), (), {"a": 1})
    fleet.kept.say_machine("a")
    fleet.say("a", "one")
    fleet.say("a", "other")
    assert fleet.kept.committed.fleet().keys == {"a": fleet.key("one").public}
    assert list(fleet.waits()) == ["a"]


def test_the_manager_s_own_machine_is_admitted(fleet: Fleet) -> None:
    """Who has the key in its root has everything; and a forgotten machine is new again."""
    fleet.say("local", "own")
    assert (fleet.waits(), fleet.carriers()) == ({}, {"local": "local"})
    fleet.say("a", "one")
    fleet.admit("a")
    fleet.say("a", "one", alive=False)
    fleet.kept.committed.forget("a", ending=("a",), who="operator")
    fleet.say("a", "one")
    assert list(fleet.waits()) == ["a"]
