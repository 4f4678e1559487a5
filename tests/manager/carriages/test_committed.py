"""The committed carriages: what a commit keeps, who may commit, and what the journal says of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from manager.answers.overview import OperationKind
from manager.machines.carriages import CommittedCarriages
from manager.problem import StateNotReady
from manager.use_case import Paging
from ring.fleet import Carriage
from tests.manager.carriages.machines import commit, committed_of, standings, turn
from tests.manager.managers import OPERATOR, Manager

PEERED: dict[str, Any] = {
    "term": 3,
    "version": 2**40,
    "heir": "b",
    "peers": ("c", "b"),
    "kept_by": frozenset({"b"}),
    "root": "r",
}


@pytest.fixture
def manager(empty_url: str) -> Iterator[Manager]:
    made = Manager(empty_url).lead()
    yield made
    made.close()


def journal(manager: Manager) -> list[tuple[OperationKind, str, str]]:
    found = manager.service.operations.page(OPERATOR, Paging())
    return [(each.kind, each.subject, each.note) for each in found.items]


def test_a_committed_carriage_is_read_as_it_was(manager: Manager) -> None:
    """Another reader of the database finds every field of a carriage, the places on the ring, and who drains."""
    committed = committed_of(manager)
    commit(committed, turn("h", "a", **PEERED), tokens={"a": 2**32 - 1, "b": 0})
    committed.drain("b", draining=True, who="operator")
    fleet = committed_of(manager).fleet()
    assert fleet == committed.fleet()
    assert dict(fleet.carriages) == {"h": Carriage(host="h", machine="a", **PEERED)}
    assert (dict(fleet.tokens), fleet.draining) == ({"a": 2**32 - 1, "b": 0}, frozenset({"b"}))


def test_a_machine_that_left_the_ring_has_no_place(manager: Manager) -> None:
    """Tokens are committed as a whole; a machine without one still drains."""
    committed = committed_of(manager)
    commit(committed, tokens={"a": 1, "b": 2})
    committed.drain("b", draining=True, who="operator")
    commit(committed, tokens={"a": 1})
    fleet = committed_of(manager).fleet()
    assert (dict(fleet.tokens), fleet.draining) == ({"a": 1}, frozenset({"b"}))


def test_the_journal_tells_take_overs_and_hand_overs(manager: Manager) -> None:
    """Each change of a carrier has an entry with the reason; other versions have none."""
    committed = committed_of(manager)
    commit(committed, turn("h", "a"))
    commit(committed, turn("h", "a", version=2, peers=("b",)))
    commit(committed, turn("h", "b", version=3, term=2))
    commit(committed, turn("h", "b", version=4, term=2, heir="a"))
    commit(committed, turn("h", "a", version=5, term=3))
    assert journal(manager) == [
        (OperationKind.HAND_OVER, "h", "from b to a: a test says so"),
        (OperationKind.TAKE_OVER, "h", "from a to b: a test says so"),
    ]


def test_moved_tokens_are_in_the_journal_and_points_stay(manager: Manager) -> None:
    """With the reason; who reads it anew finds each host's point."""
    committed = committed_of(manager)
    commit(committed, turn("h", "a", point=2**32 - 1), tokens={"a": 1, "b": 2})
    committed.commit(committed.fleet(), (), {"a": 1, "b": 5}, balance="a had too much")
    assert journal(manager) == [(OperationKind.BALANCE, "machines", "a had too much")]
    found = committed_of(manager).fleet()
    assert (found.carriages["h"].point, dict(found.tokens)) == (2**32 - 1, {"a": 1, "b": 5})


def test_drains_are_noted_once(manager: Manager) -> None:
    """A machine that drains already is not drained again."""
    committed = committed_of(manager)
    for draining in (False, True, True, False, False):
        committed.drain("a", draining=draining, who="operator")
    assert [kind for kind, _, _ in journal(manager)] == [OperationKind.UNDRAIN_MACHINE, OperationKind.DRAIN_MACHINE]
    assert committed.fleet().draining == frozenset()


def test_a_forgotten_machine_leaves_its_place_to_its_neighbour(manager: Manager) -> None:
    """Nothing of it is kept but the last terms of the hosts that ended with it; the journal has it once."""
    committed = committed_of(manager)
    commit(committed, turn("a", "a", **PEERED), turn("b", "b"), tokens={"a": 7, "b": 90})
    committed.drain("a", draining=True, who="operator")
    for _ in range(2):
        committed.forget("a", ending=committed.fleet().carriages.keys() & {"a"}, who="operator")
    fleet = committed_of(manager).fleet()
    assert fleet == committed.fleet()
    assert (dict(fleet.tokens), fleet.draining, standings(fleet)) == ({"b": 7}, frozenset(), {"b": ("b", 1, 1)})
    assert dict(fleet.ended) == {"a": Carriage(host="a", machine="", term=3, version=2**40)}
    assert journal(manager)[0] == (OperationKind.FORGET_MACHINE, "a", "host a ended with it")
    assert [kind for kind, _, _ in journal(manager)].count(OperationKind.FORGET_MACHINE) == 1


def test_only_the_leader_commits(manager: Manager) -> None:
    """A manager that another has followed changes nothing, even if it does not know that yet."""
    committed = committed_of(manager)
    commit(committed, turn("h", "a"))
    other = Manager(manager.url, "other").lead()
    try:
        assert manager.committer.leads
        with pytest.raises(StateNotReady, match="another manager leads"):
            commit(committed, turn("h", "late", version=2))
        with pytest.raises(StateNotReady, match="another manager leads"):
            committed.drain("a", draining=True, who="operator")
        fleet = committed_of(other).fleet()
        assert (standings(fleet), fleet.draining) == ({"h": ("a", 1, 1)}, frozenset())
    finally:
        other.close()


def test_a_leader_again_reads_what_others_committed(manager: Manager) -> None:
    """Nothing that was known in an earlier term is taken for what is committed."""
    committed = committed_of(manager)
    commit(committed, turn("h", "a"))
    other = Manager(manager.url, "other").lead()
    commit(committed_of(other), turn("h", "b", version=2, term=2))
    other.close()
    manager.candidate.look()
    manager.lead()
    assert standings(committed.fleet()) == {"h": ("b", 2, 2)}


def test_a_manager_that_does_not_lead_refuses(sqlite: str) -> None:
    """It neither reads nor commits."""
    manager = Manager(sqlite)
    committed = committed_of(manager)
    with pytest.raises(StateNotReady, match="does not lead"):
        committed.fleet()
    with pytest.raises(StateNotReady, match="does not lead"):
        committed.drain("a", draining=True, who="operator")
    manager.close()


def test_a_decision_on_an_older_fleet_is_refused(manager: Manager) -> None:
    """What has changed since the decision is not overwritten, even by the same manager."""
    committed: CommittedCarriages = committed_of(manager)
    base = committed.fleet()
    committed.drain("a", draining=True, who="operator")
    with pytest.raises(StateNotReady, match="decided on"):
        committed.commit(base, (turn("h", "a"),), {})
    assert standings(committed.fleet()) == {}
