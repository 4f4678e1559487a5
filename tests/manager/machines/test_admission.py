"""Admission and watch: who counts as a machine, since when it is lost, and which hosts end with it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_client.answers.jobs import MachineAnswer
from braid_client.answers.overview import OperationKind
from bridge import topics
from engine.machines.reports import MachineKey
from manager.machines.admission import RECONNECTED_WITHIN, Admission, Departure, MachineWatch, departure
from manager.machines.carriages import CommittedFleet, MachinesSeen, decide_with
from manager.observations.reports import HostSeen, MachineStatus
from manager.observations.sight import MACHINE_SILENT_AFTER, Sight
from manager.use_case import Paging
from ring.fleet import STORE, Carriage, MachineSeen
from tests.manager.machines.carriages import Kept, hosts_of
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


def sight(connection: int = 1, **alive: bool) -> Sight:
    machines = {name: (MachineStatus(seen=MachineSeen(name=name, alive=is_alive)),) for name, is_alive in alive.items()}
    return Sight(complete=True, connection=connection, machines=machines)


def taken(watch: MachineWatch, seen: Sight, now: float, *named: str) -> MachinesSeen:
    return watch.take({name: found[0] for name, found in seen.machines.items()}, seen.connection, named, now)


def test_a_machine_is_lost_since_its_first_sight_without_life() -> None:
    """Later sights do not move that moment, and life ends it."""
    watch = MachineWatch()
    assert taken(watch, sight(a=True), 0.0).lost_since == {}
    assert taken(watch, sight(a=False), 1.0).lost_since == {"a": 1.0}
    assert taken(watch, sight(a=False), 5.0).lost_since == {"a": 1.0}
    assert taken(watch, sight(a=True), 6.0).lost_since == {}
    assert taken(watch, sight(a=False), 7.0).lost_since == {"a": 7.0}


def test_a_machine_is_alive_since_its_return() -> None:
    """A loss in between begins it anew."""
    watch = MachineWatch()
    assert taken(watch, sight(a=True), 0.0).alive_since == {"a": 0.0}
    assert taken(watch, sight(a=True), 1.0).alive_since == {"a": 0.0}
    assert taken(watch, sight(a=False), 2.0).alive_since == {}
    assert taken(watch, sight(a=True), 3.0).alive_since == {"a": 3.0}


def test_a_named_machine_that_was_never_heard_is_lost_after_a_while() -> None:
    """A new leader over a broker without messages gives it the time to report."""
    watch = MachineWatch()
    seen = taken(watch, sight(a=True), 5.0, "a", "gone")
    assert not seen.machines["gone"].alive
    assert seen.lost_since == {"gone": 5.0 + MACHINE_SILENT_AFTER}
    assert taken(watch, sight(a=True, gone=True), 6.0, "a", "gone").lost_since == {}


def test_nobody_is_lost_right_after_a_reconnection() -> None:
    """Machines lose the broker together with the manager, and need some time to come back."""
    watch = MachineWatch()
    taken(watch, sight(a=True, b=False), 0.0)
    seen = taken(watch, sight(connection=2, a=False, b=False), 100.0)
    assert seen.lost_since == dict.fromkeys("ab", 100.0 + RECONNECTED_WITHIN)
    assert taken(watch, sight(connection=2, a=True, b=False), 101.0).lost_since == {"b": 100.0 + RECONNECTED_WITHIN}
    late = taken(watch, sight(connection=2, a=False, b=False), 200.0)
    assert late.lost_since == {"a": 200.0, "b": 100.0 + RECONNECTED_WITHIN}


def fleet_of(*carriages: Carriage) -> CommittedFleet:
    return CommittedFleet(carriages={each.host: each for each in carriages})


def carried(host: str, machine: str, kept_by: str = "", **fields: Any) -> Carriage:
    """A host, with complete copies at these peers."""
    return Carriage(
        host=host,
        machine=machine,
        root=f"root of {machine}",
        peers=tuple(kept_by),
        roots=tuple(f"root of {peer}" for peer in kept_by),
        kept_by=frozenset(kept_by),
        **fields,
    )


def seen(*alive: str, gone: str = "") -> dict[str, MachineSeen]:
    return {
        name: MachineSeen(name=name, alive=name in alive, root=f"root of {name}") for name in sorted({*alive, *gone})
    }


def test_a_machine_that_is_alive_is_not_forgotten() -> None:
    """The refusal says how to end it."""
    refusal = departure("a", fleet_of(), seen("a"), {}).refusal
    assert refusal == ("machine a is alive; empty it with: braid machines drain a --wait, stop it, and forget it then")


def test_hosts_without_jobs_end_with_their_machine() -> None:
    """Its own, and that of another machine that it had taken over; what others carry stays as it is."""
    committed = fleet_of(carried("a", "a", "b"), carried("c", "a"), carried("b", "b", "a"))
    assert departure("a", committed, seen("b", gone="ac"), {"b": ["1"]}) == Departure(ending=frozenset("ac"))


def test_a_host_that_another_machine_carries_stays() -> None:
    """With jobs or without, as long as that machine is there; without jobs it ends if that is gone too."""
    committed = fleet_of(carried("a", "b"))
    assert departure("a", committed, seen("b"), {"a": ["1"]}) == Departure()
    assert departure("a", committed, seen("b"), {}) == Departure()
    assert departure("a", committed, seen(gone="b"), {}) == Departure(ending=frozenset("a"))


def test_all_own_hosts_of_a_machine_end_with_it() -> None:
    """If nobody who is there carries them, and they run no jobs."""
    machines = seen("b", gone="cd") | {"a": MachineSeen(name="a", alive=False, own=("a", "a.2", "a.3"))}
    committed = fleet_of(carried("a.2", "c"), carried("a.3", "b"), carried("d", "c"))
    assert departure("a", committed, machines, {}) == Departure(ending=frozenset({"a.2"}))


def test_a_machine_whose_host_is_in_the_store_is_needed_until_that_is_restored() -> None:
    """Its peer is not, since the store has everything too."""
    stored = replace(carried("h", "a", "b"), kept_by=frozenset({"b", STORE}))
    refusal = departure("a", fleet_of(stored), seen(gone="ab"), {"h": ["3"]}).refusal
    assert "start a machine that has a copy: b, or restore the host on an empty folder with: braid host h" in refusal
    assert departure("b", fleet_of(stored), seen(gone="ab"), {"h": ["3"]}) == Departure()


@pytest.mark.parametrize(
    ("kept_by", "alive", "reason"),
    [
        ("", "b", "no machine that is there has its files; start a again, or remove the dataflows of jobs 3, 4"),
        ("c", "b", "no machine that is there has its files; start a machine that has a copy: c, or remove the data"),
        ("b", "b", "machine a still carries host h, which goes on elsewhere in a moment; ask again then"),
    ],
)
def test_a_machine_that_carries_jobs_is_refused(kept_by: str, alive: str, reason: str) -> None:
    """The refusal names the host, and who could go on with it."""
    found = departure("a", fleet_of(carried("h", "a", kept_by)), seen(*alive, gone="ac"), {"h": ["4", "3"]})
    assert (found.ending, "machine a still carries host h" in found.refusal) == (frozenset(), True)
    assert reason in found.refusal


@pytest.mark.parametrize(
    ("kept_by", "alive", "refused"),
    [("a", "", True), ("a", "m", False), ("ab", "b", False), ("ab", "", False), ("b", "", False)],
)
def test_the_only_copy_of_a_lost_host_is_kept(kept_by: str, alive: str, refused: bool) -> None:  # noqa: FBT001 - a case
    """Not if the host's machine is there, or another one has a copy."""
    found = departure("a", fleet_of(carried("h", "m", kept_by)), seen(*alive, gone="abm"), {"h": ["1"]})
    refusal = (
        "machine a has the only copy of host h, whose machine m is away too; start one of them, or remove the "
        "dataflows of job 1"
    )
    assert found.refusal == (refusal if refused else "")


def test_the_only_copy_of_a_host_without_jobs_is_not_needed() -> None:
    """The machine that carried it is not forgotten, so its host is there when it returns."""
    assert departure("a", fleet_of(carried("h", "m", "a")), seen(gone="am"), {}) == Departure()
