"""The keeper with the decisions of the ring: machines come, are lost and return, and what is published of that."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from bridge import topics
from manager.answers.overview import OperationKind
from manager.machines.carriages import decide_with
from manager.machines.keeper import CarriageKeeper
from manager.use_case import Paging
from ring.fleet import Carriage
from ring.tokens import Ring
from tests.manager.carriages.machines import Kept
from tests.manager.managers import OPERATOR, Manager


class Deciding(Kept):
    """A keeper that decides as a service with one copy of each host does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.keeper = CarriageKeeper(
            self.committed,
            self.hearing.listener,
            decide_with(1),
            leads=lambda: self.manager.committer.leads,
            clock=lambda: self.hearing.clock,
        )

    def settle(self) -> dict[str, Carriage]:
        """Look until nothing changes."""
        while self.keeper.look():
            self.hearing.settle()
        return dict(self.committed.fleet().carriages)

    def carries(self, machine: str, *hosts: str, own: Sequence[str] = (), **fields: object) -> None:
        """Have a machine report that it acts upon the latest carriages of hosts, and gates on all peers."""
        carriages = self.committed.fleet().carriages
        reports = {
            host: {"version": carriages[host].version, "in_sync": list(carriages[host].peers), **fields}
            for host in hosts
        }
        self.say_machine(machine, root=f"root of {machine}", own=own, hosts=reports)

    def messages(self) -> dict[str, Any]:
        return {each["host"]: each for each in (json.loads(message) for _, message in self.retained())}


@pytest.fixture
def deciding(sqlite: str) -> Iterator[Deciding]:
    manager = Manager(sqlite).lead()
    made = Deciding(manager)
    for name in ("a", "b", "c"):
        made.say_machine(name, root=f"root of {name}")
    made.settle()
    yield made
    made.close()
    manager.close()


def test_each_machine_carries_its_host_and_gets_a_place(deciding: Deciding) -> None:
    """Every host has a peer, and every machine its own token on the ring."""
    fleet = deciding.committed.fleet()
    assert {host: each.machine for host, each in fleet.carriages.items()} == {"a": "a", "b": "b", "c": "c"}
    assert all(len(each.peers) == 1 for each in fleet.carriages.values())
    assert len(set(fleet.tokens.values())) == len(fleet.tokens) == 3


def test_a_lost_machine_is_replaced_by_who_has_everything(deciding: Deciding) -> None:
    """The message names the peer as the carrier in the next term, a second after the loss."""
    deciding.carries("a", "a")
    (peer,) = deciding.settle()["a"].peers
    deciding.say_machine("a", alive=False)
    assert deciding.settle()["a"].machine == "a"
    deciding.hearing.clock += 1.0
    assert deciding.settle()["a"].machine == peer
    deciding.hearing.settle()
    order = deciding.messages()["a"]
    assert (order["machine"], order["term"], order["kept_by"]) == (peer, 2, [])


def test_a_host_without_a_copy_waits_for_its_machine(deciding: Deciding) -> None:
    """A peer that is not known to have everything takes nothing over."""
    deciding.say_machine("a", alive=False)
    deciding.hearing.clock += 3_600.0
    deciding.settle()
    assert deciding.committed.fleet().carriages["a"].machine == "a"


def test_a_machine_that_drains_hands_its_hosts_over(deciding: Deciding) -> None:
    """The heir is published; once the carrier has released the host, the heir carries it, and the journal says why."""
    deciding.carries("a", "a")
    (peer,) = deciding.settle()["a"].peers
    deciding.committed.drain("a", draining=True, who="operator")
    deciding.carries("a", "a")
    assert deciding.settle()["a"].heir == peer
    deciding.hearing.settle()
    assert deciding.messages()["a"]["heir"] == peer
    deciding.carries("a", "a", released=True)
    after = deciding.settle()["a"]
    assert (after.machine, after.heir, after.term) == (peer, "", 2)


def test_a_machine_with_too_much_to_do_hands_a_host_over(deciding: Deciding) -> None:
    """After its load was uneven for a minute: tokens move, with an entry in the journal, and its heir is published."""
    deciding.say_machine("a", root="root of a", own=["a", "a.2"])
    deciding.settle()
    for step in range(2 * 20):
        cpu = {"1": {"cpu_ns": step * 10**9}}
        for job, host in (("1", "a"), ("2", "a.2")):
            deciding.hearing.say(topics.job(job, "status"), {"host": host, "state": "running"})
            deciding.hearing.say(topics.job(job, "metrics"), {"run": 1, "batch": step, "instances": cpu})
        deciding.hearing.clock += 4.0
        for name, hosts in (("a", ("a", "a.2")), ("b", ("b",)), ("c", ("c",))):
            deciding.carries(name, *hosts, own=hosts)
        deciding.settle()
    found = deciding.committed.fleet()
    home = Ring(found.tokens).owner(found.carriages["a.2"].point)
    assert home in {"b", "c"}
    assert found.carriages["a.2"].heir == home
    noted = deciding.manager.service.operations.page(OPERATOR, Paging()).items
    assert ["a.2 to"] == [each.note.rsplit(": ", 1)[-1][:6] for each in noted if each.kind is OperationKind.BALANCE]


def test_a_forgotten_machine_that_returns_is_new(deciding: Deciding) -> None:
    """The broker retains nothing of it and its host; back with its old disk, its host begins in the next term."""
    deciding.carries("a", "a")
    before = deciding.settle()["a"]
    deciding.say_machine("a", alive=False)
    deciding.hearing.say(topics.host("a", "status"), {"host": "a", "alive": False})
    deciding.hearing.settle()
    deciding.committed.forget("a", ending={"a"}, who="operator")
    deciding.settle()
    # From now on nobody sends it copies.
    deciding.hearing.clock += 1.0
    deciding.settle()
    deciding.hearing.settle()
    everything = deciding.hearing.broker.retained([topics.host("+", "+"), topics.machine("+", "status")])
    assert [] == [topic for topic, _ in everything if topic.split("/")[3] == "a"]
    deciding.say_machine("a", root="root of a", hosts={"a": {"version": before.version}})
    after = deciding.settle()["a"]
    assert (after.machine, after.term) == ("a", before.term + 1)
    assert after.version > before.version
    assert "a" in deciding.committed.fleet().tokens
    deciding.hearing.settle()
    assert (deciding.messages()["a"]["term"], deciding.committed.fleet().ended) == (after.term, {})


def test_a_machine_that_returns_with_a_forgotten_host_is_known_to_carry_it(deciding: Deciding) -> None:
    """By orders that only it remembers; it gets one of the next term, and the host goes home when that can be."""
    deciding.say_machine("b", alive=False)
    deciding.say_machine("c", alive=False)
    deciding.committed.forget("b", ending={"b"}, who="operator")
    assert "b" not in deciding.settle()
    deciding.say_machine("c", root="root of c", hosts={"b": {"version": 1}, "c": {"version": 1}})
    assert (deciding.settle()["b"].machine, deciding.settle()["b"].term) == ("c", 2)


def test_a_new_leader_goes_on_with_the_same_places(deciding: Deciding) -> None:
    """Tokens and carriages are committed, so nothing moves because another manager leads."""
    before = deciding.committed.fleet()
    other = Deciding(Manager(deciding.manager.url, "other").lead())
    for name in ("a", "b", "c"):
        other.say_machine(name, root=f"root of {name}")
    other.settle()
    assert other.committed.fleet() == before
    other.close()
    other.manager.close()
