"""Use cases of machines: what operators see of them, drains, and what is forgotten."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from manager.answers.jobs import CarriedHostAnswer, MachineAnswer
from manager.answers.overview import OperationKind
from manager.observations.reports import InstanceMeasured, JobSeen, MachineStatus, Measured
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady
from manager.use_case import Paging
from ring.fleet import STORE, HostReport, MachineSeen
from ring.tokens import RING_SIZE
from tests.manager.machines.carriages import commit, turn
from tests.manager.managers import OPERATOR, Manager, caller


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite).lead()
    made.equip(replicas=1)
    yield made
    made.close()


def see(manager: Manager, name: str, **fields: Any) -> None:
    """Have a machine with an address and a root of its own reported."""
    given: dict[str, Any] = {"alive": True, "at": f"10.9.8.7:{len(name)}", "root": f"root of {name}"} | fields
    seen = MachineSeen(name=name, **given)
    manager.seen.every_machine[name] = MachineStatus(seen=seen, secret=f"hush {name}")


def machines(manager: Manager) -> dict[str, MachineAnswer]:
    return {each.name: each for each in manager.service.machines.page(OPERATOR, Paging()).items}


def carried(manager: Manager, host: str) -> CarriedHostAnswer:
    return next(each for machine in machines(manager).values() for each in machine.hosts if each.name == host)


def commits(manager: Manager, host: str, machine: str, **fields: Any) -> None:
    commit(manager.tools.carriages, turn(host, machine, root=f"root of {machine}", **fields))


def test_a_machine_is_shown_with_what_it_carries_and_keeps(manager: Manager) -> None:
    """Each host is where it is carried, with its copies and what is not copied yet."""
    see(manager, "a", zone="z", cores=2.0, tags=frozenset({"gpu"}), hosts={"a": HostReport(behind_bytes=7)})
    see(manager, "b", at="")
    commits(manager, "a", "a", peers=("b",), roots=("root of b",), kept_by=frozenset({"b"}))
    found = machines(manager)
    a, b = found["a"], found["b"]
    assert (a.alive, a.zone, a.cores, a.tags, a.takes_copies, a.keeps) == (True, "z", 2.0, ("gpu",), True, ())
    assert (b.hosts, b.keeps, b.takes_copies) == ((), ("a",), False)
    (host,) = a.hosts
    assert host == CarriedHostAnswer(name="a", peers=("b",), kept_by=("b",), standby=("b",), behind_bytes=7)


def test_loads_and_places_are_shown(manager: Manager) -> None:
    """Each machine has its part of the ring and what its hosts take; a host says where its home is."""
    see(manager, "a")
    see(manager, "b")
    turns = [turn(host, "a", root="root of a", point=point) for host, point in (("a", 0), ("a.2", RING_SIZE - 1))]
    commit(manager.tools.carriages, *turns, tokens={"a": 0, "b": 3 * RING_SIZE // 4})
    manager.admit("ann")
    manager.register("weather")
    manager.submit("ann", "s:source > k:sink")
    now = time.monotonic()
    measured = tuple(
        Measured(at=now - ago, batch=0, instances={1: InstanceMeasured(cpu_ns=cpu)})
        for ago, cpu in ((10, 0), (0, 5 * 10**9))
    )
    manager.seen.jobs["1"] = JobSeen(job="1", host="a.2", state="running", measured=measured, seen=datetime.now(UTC))
    found = machines(manager)
    assert (found["a"].share, found["b"].share, found["b"].load) == (0.75, 0.25, None)
    assert found["a"].load == pytest.approx(0.5, rel=0.1)
    assert [(each.name, each.home, each.load) for each in found["a"].hosts] == [
        ("a", "a", None),
        ("a.2", "b", found["a"].load),
    ]


def test_secrets_are_shown_to_nobody_and_addresses_to_operators(manager: Manager) -> None:
    """Neither is in the journal."""
    see(manager, "a")
    commits(manager, "a", "a")
    answers = [
        manager.service.machines.page(OPERATOR, Paging()),
        manager.service.machines.drain(OPERATOR, "a"),
        manager.service.machines.undrain(OPERATOR, "a"),
    ]
    shown = json.dumps([each.model_dump(mode="json") for each in answers])
    assert ("hush" in shown, shown.count("10.9.8.7:1")) == (False, len(answers))
    noted = manager.service.operations.page(OPERATOR, Paging()).model_dump_json()
    assert ("drain" in noted, "hush" in noted, "10.9.8.7" in noted) == (True, False, False)


def test_a_host_with_too_few_copies_is_marked(manager: Manager) -> None:
    """A copy counts while its machine is there with the disk that it lies on."""
    see(manager, "a")
    see(manager, "b")
    commits(manager, "a", "a", peers=("b",), roots=("root of b",))
    assert carried(manager, "a").under_replicated
    commits(manager, "a", "a", version=2, peers=("b",), roots=("root of b",), kept_by=frozenset({"b"}))
    assert not carried(manager, "a").under_replicated
    see(manager, "b", alive=False)
    assert (carried(manager, "a").under_replicated, carried(manager, "a").standby) == (True, ())
    see(manager, "b", root="a new disk")
    assert (carried(manager, "a").under_replicated, carried(manager, "a").standby) == (True, ())


def test_machines_of_one_root_stand_by_for_each_other(manager: Manager) -> None:
    """They are shown together. Their shared disk is no copy."""
    see(manager, "a", root="shared")
    see(manager, "b", root="shared")
    commit(manager.tools.carriages, turn("a", "a", root="shared"))
    found = machines(manager)
    assert (found["a"].shares_root_with, found["b"].shares_root_with) == (("b",), ("a",))
    host = carried(manager, "a")
    assert (host.standby, host.under_replicated) == (("b",), True)


def test_a_machine_that_was_never_heard_is_shown_as_away(manager: Manager) -> None:
    """What it carries waits for it, and says so."""
    commits(manager, "a", "a", kept_by=frozenset({"b"}), peers=("b",), roots=("root of b",))
    found = machines(manager)
    assert [(each.name, each.alive) for each in found.values()] == [("a", False), ("b", False)]
    assert "start a again with its root, or a machine that has a copy: b" in carried(manager, "a").stays
    see(manager, "b")
    assert carried(manager, "a").stays == ""


def test_a_host_that_only_a_store_has_says_how_it_comes_back(manager: Manager) -> None:
    """Once an empty machine offers to restore it, and the leader may not take that, what would let it."""
    commit(manager.tools.carriages, turn("a", "a", root="lost", kept_by=frozenset({STORE})))
    see(manager, "a")
    assert "or restore it on an empty folder with: braid host a --restore" in carried(manager, "a").stays
    see(manager, "a", restores="older")
    assert carried(manager, "a").stays.endswith("with: braid host a --restore --accept-loss")


def test_a_drain_says_why_a_host_stays(manager: Manager) -> None:
    """As long as nobody else can have it, with the remedy."""
    see(manager, "a")
    commits(manager, "a", "a")
    assert carried(manager, "a").stays == ""
    drained = manager.service.machines.drain(OPERATOR, "a")
    assert drained.draining
    assert drained.hosts[0].stays == (
        "no other machine takes copies of host a or shares its root; start another machine with: braid host NAME, or "
        "keep this one with: braid machines undrain a"
    )
    see(manager, "b")
    assert carried(manager, "a").stays == ""
    manager.service.machines.drain(OPERATOR, "b")
    assert "; b could, but drains too; start another" in carried(manager, "a").stays
    assert not manager.service.machines.undrain(OPERATOR, "a").draining
    assert carried(manager, "a").stays == ""


def test_drains_are_in_the_journal(manager: Manager) -> None:
    """Once each, however often they are asked for."""
    see(manager, "a")
    for _ in range(2):
        manager.service.machines.drain(OPERATOR, "a")
    for _ in range(2):
        manager.service.machines.undrain(OPERATOR, "a")
    entries = manager.service.operations.page(OPERATOR, Paging()).items
    assert [(each.kind, each.who, each.subject) for each in entries] == [
        (OperationKind.UNDRAIN_MACHINE, "operator", "a"),
        (OperationKind.DRAIN_MACHINE, "operator", "a"),
    ]


def test_only_operators_drain_machines_that_are_there(manager: Manager) -> None:
    """A tenant is refused; an unknown machine is named; a manager that does not lead asks to ask again."""
    see(manager, "a")
    with pytest.raises(Forbidden, match="operators only"):
        manager.service.machines.drain(caller("ann"), "a")
    with pytest.raises(NotFound, match="no machine 'b'"):
        manager.service.machines.undrain(OPERATOR, "b")
    manager.committer.step_down()
    with pytest.raises(StateNotReady, match="does not lead"):
        manager.service.machines.drain(OPERATOR, "a")


def test_a_machine_that_is_gone_is_forgotten(manager: Manager) -> None:
    """With its host, which runs no job; what it was is answered, and the journal has it."""
    see(manager, "a", alive=False)
    commits(manager, "a", "a")
    assert [each.name for each in manager.service.machines.forget(OPERATOR, "a").hosts] == ["a"]
    del manager.seen.every_machine["a"]
    assert machines(manager) == {}
    (entry,) = manager.service.operations.page(OPERATOR, Paging()).items
    assert (entry.kind, entry.subject, entry.note) == (OperationKind.FORGET_MACHINE, "a", "host a ended with it")
    with pytest.raises(NotFound, match="no machine 'a'"):
        manager.service.machines.forget(OPERATOR, "a")


def test_a_machine_that_is_needed_is_not_forgotten(manager: Manager) -> None:
    """While it is alive, or may be, or has a host whose jobs nobody else can run; nothing has changed then."""
    manager.admit("ann")
    manager.register("weather")
    manager.submit("ann", "s:source > k:sink")
    see(manager, "north")
    commits(manager, "north", "north")
    with pytest.raises(Conflict, match="machine north is alive"):
        manager.service.machines.forget(OPERATOR, "north")
    see(manager, "north", alive=False)
    manager.seen.just_began = True
    with pytest.raises(StateNotReady, match="not all machines have been heard"):
        manager.service.machines.forget(OPERATOR, "north")
    manager.seen.just_began = False
    with pytest.raises(Conflict, match="remove the dataflows of job 1"):
        manager.service.machines.forget(OPERATOR, "north")
    with pytest.raises(Forbidden, match="operators only"):
        manager.service.machines.forget(caller("ann"), "north")
    assert carried(manager, "north").name == "north"


def test_machines_are_listed_in_pages(manager: Manager) -> None:
    """By name, each once."""
    for name in ("c", "a", "b"):
        see(manager, name)
    first = manager.service.machines.page(OPERATOR, Paging(limit=2))
    last = manager.service.machines.page(OPERATOR, Paging(limit=2, after=first.next))
    assert ([each.name for each in (*first.items, *last.items)], last.next) == (["a", "b", "c"], None)
