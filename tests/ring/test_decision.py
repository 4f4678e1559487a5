"""The rules by which hosts survive their machines, one by one."""

from dataclasses import replace

import pytest

from ring.decision import CarriageState, state_of
from ring.fleet import LOST_AFTER, SETTLED_AFTER, STORE, Carriage, Fleet, HostReport, MachineSeen
from ring.tokens import Ring, point_of
from tests.ring.scenes import LONG_AGO, NOW, POINTS, Scene, carriage, machine


def test_a_new_machine_carries_its_own_host() -> None:
    """Its host has no carriage yet; a machine that is gone gets none."""
    scene = Scene.of()
    scene.lose("d")
    assert [Carriage(host=name, machine=name, root=f"root-{name}", point=POINTS[name]) for name in "abc"] == [
        turn.carriage for turn in scene.decided()
    ]


def test_a_host_that_nobody_carries_is_carried_by_who_reports_it() -> None:
    """Not if the machine of its own name is there, which has newer files than one that was away."""
    scene = Scene.of(*(carriage(name) for name in "abd"), replicas=0)
    scene.machines["a"] = machine("a", hosts={"c": HostReport(), "z": HostReport()})
    assert {"c": "c", "z": "a"} == {turn.carriage.host: turn.carriage.machine for turn in scene.decided()}
    scene.lose("c")
    assert {"c": "a", "z": "a"} == {turn.carriage.host: turn.carriage.machine for turn in scene.decided()}


def test_a_host_goes_on_at_the_next_machine_that_has_everything() -> None:
    """With a new term, and the others that have everything still counted."""
    scene = Scene.of(carriage(peers="dbc", kept_by="dc"), replicas=3)
    scene.lose("a")
    expected = carriage(at="c", peers="db", kept_by="d", term=4, version=8)
    assert expected == scene.turn()


@pytest.mark.parametrize("gone", [0.0, LOST_AFTER / 2])
def test_a_machine_may_be_away_for_a_moment(gone: float) -> None:
    """Nothing becomes of its host until the grace is over."""
    scene = Scene.of(carriage(peers="b", kept_by="b"))
    scene.lose("a", since=NOW - gone)
    assert scene.turn() is None
    scene.lose("a", since=NOW - LOST_AFTER)
    assert scene.turn() is not None


def test_a_machine_that_was_never_seen_is_not_lost() -> None:
    """A manager that has just started has not heard of all yet."""
    scene = Scene.of(carriage(peers="b", kept_by="b"))
    del scene.machines["a"]
    assert scene.turn() is None


def test_a_host_waits_for_its_machine_if_nobody_has_everything() -> None:
    """A peer that is not counted has not got all of it, and one that is gone or lost its disk can't go on."""
    scene = Scene.of(carriage(peers="bcd", kept_by="cd"), replicas=3)
    scene.lose("a", "c")
    scene.machines["d"] = machine("d", root="new disk")
    assert scene.turn() is None


def test_who_is_counted_stays_so_while_the_carrier_is_lost() -> None:
    """Also one that is lost itself: it may be the first to return."""
    scene = Scene.of(carriage(peers="b", kept_by="b"))
    scene.lose("a", "b")
    assert scene.turn() is None
    scene.machines["b"] = machine("b")
    found = scene.next()
    assert "b" == found.machine


def test_a_machine_with_all_tags_and_types_comes_first_and_one_that_drains_last() -> None:
    """What the host's own machine offers is what its jobs may need."""
    scene = Scene.of(carriage(peers="bcd", kept_by="bcd"), replicas=3)
    scene.machines["a"] = machine("a", tags=frozenset({"gpu"}), types=frozenset({"map"}))
    scene.machines["b"] = machine("b", types=frozenset({"map"}))
    scene.machines["c"] = machine("c", tags=frozenset({"gpu"}), types=frozenset())
    scene.machines["d"] = machine("d", tags=frozenset({"gpu", "big"}), types=frozenset({"map", "count"}))
    scene.lose("a")
    found = scene.next()
    assert "d" == found.machine
    scene.draining = {"d", "b"}
    found = scene.next()
    assert "c" == found.machine


def test_a_host_goes_only_to_machines_of_its_image() -> None:
    """If its own machine names none, it may go to one of any."""
    for image, expected in (("cuda", "c"), ("", "b")):
        scene = Scene.of(carriage(peers="bcd", kept_by="bcd"), replicas=3)
        scene.machines |= {"a": machine("a", image=image), "b": machine("b", image="xilinx")}
        scene.machines |= {"c": machine("c", image="cuda")}
        scene.lose("a")
        assert expected == scene.next().machine


def test_a_machine_with_the_same_root_has_everything() -> None:
    """It needs no copy, and is no peer."""
    scene = Scene.of(carriage(root="shared"))
    scene.machines |= {name: machine(name, root="shared") for name in "ac"}
    found = scene.next()
    assert ("b",) == found.peers
    scene.lose("a")
    found = scene.next()
    assert ("c", "shared") == (found.machine, found.root)


def test_a_carrier_that_returns_without_its_disk_is_lost() -> None:
    """Its files are at who keeps them, so the host goes on there."""
    scene = Scene.of(carriage(peers="b", kept_by="b"))
    scene.machines["a"] = machine("a", root="new disk")
    assert carriage(at="b", peers="", term=4, version=8) == scene.turn()


def test_without_any_copy_a_new_disk_begins_afresh() -> None:
    """Nothing could bring the old files back but the old disk; where there may be copies, that is waited for."""
    scene = Scene.of(carriage(peers="b"), carriage("c", at="d"), replicas=0)
    scene.machines |= {name: machine(name, root="new disk") for name in "ad"}
    assert carriage(root="new disk", term=4, version=8) == scene.turn()
    assert scene.turn("c") is None
    scene.replicas = 1
    assert scene.turn() is None


def test_peers_are_the_next_machines_in_other_zones() -> None:
    """As many as there should be copies; those on a disk that has one already add none."""
    scene = Scene.of(carriage(), replicas=2)
    scene.machines |= {"a": machine("a", zone="x"), "b": machine("b", zone="x"), "d": machine("d", zone="y")}
    assert carriage(peers="cd", version=8) == scene.turn()
    scene.machines["c"] = machine("c", root="root-d")
    assert carriage(peers="cb", version=8, roots=("root-d", "root-b")) == scene.turn()


def test_a_lost_peer_is_replaced_and_not_counted() -> None:
    """So that the carrier goes on without it; likewise one without address, or back with another root."""
    for there in (machine("b", at=""), machine("b", root="new disk"), machine("b", alive=False)):
        one = carriage(peers="bc", kept_by="bc")
        scene = Scene.of(one, replicas=2)
        scene.report(one)
        scene.lose("b")
        scene.machines["b"] = there
        assert carriage(peers="cd", kept_by="c", version=8) == scene.turn()


def test_a_lost_peer_counts_until_the_carrier_acts_upon_the_carriage() -> None:
    """The carrier may be lost too without looking so, just after it was to take over; then the peer is all there is."""
    one = carriage(peers="bc", kept_by="b")
    scene = Scene.of(one)
    scene.lose("b")
    scene.report(replace(one, version=6))
    assert scene.turn() is None
    scene.report(one)
    assert carriage(peers="c", version=8) == scene.turn()


def test_a_peer_that_was_never_seen_is_not_lost() -> None:
    """A manager that has just started has not heard of all yet."""
    one = carriage(peers="b", kept_by="b")
    scene = Scene.of(one)
    scene.report(one)
    del scene.machines["b"]
    assert scene.turn() is None
    scene.lost_since["b"] = LONG_AGO
    assert carriage(peers="c", version=8) == scene.turn()


def test_a_peer_that_returns_with_a_new_disk_gets_another_copy() -> None:
    """As a new peer, since what it had is lost."""
    one = carriage(peers="b", kept_by="b")
    scene = Scene.of(one)
    scene.machines = {"a": machine("a"), "b": machine("b", root="new disk")}
    scene.report(one)
    scene.settle()
    assert carriage(peers="b", roots=("new disk",), version=9) == scene.carriages["a"]


def test_who_has_everything_is_counted() -> None:
    """By the report of the carrier on this version; reports on older ones may be about another time."""
    one = carriage(peers="bc", kept_by="b")
    scene = Scene.of(one, replicas=2)
    scene.report(replace(one, version=6), in_sync=frozenset("cd"))
    assert scene.turn() is None
    scene.report(one, in_sync=frozenset("cd"))
    assert replace(one, kept_by=frozenset("bc"), version=8) == scene.turn()


def test_who_can_not_be_reached_is_not_counted() -> None:
    """It is replaced, or stays a peer if there is no other."""
    one = carriage(peers="bc", kept_by="bc")
    scene = Scene.of(one, replicas=2)
    scene.report(one, broken=frozenset("b"))
    assert replace(one, kept_by=frozenset("c"), version=8) == scene.turn()
    scene.carriages["a"] = replace(one, kept_by=frozenset("c"))
    assert carriage(peers="cd", kept_by="c", version=8) == scene.turn()
    scene.lose("d")
    assert scene.turn() is None


def test_a_carrier_is_ordered_to_go_on_without_a_broken_peer() -> None:
    """Also if nobody counts on it yet: without a new version the carrier would gate on it for ever."""
    one = carriage(peers="b")
    scene = Scene.of(one)
    scene.report(one, in_sync=frozenset("b"), broken=frozenset("b"))
    assert replace(one, version=8) == scene.turn()


def test_a_host_leaves_a_machine_that_drains() -> None:
    """Its heir first becomes a peer, then has everything, then inherits, then carries; the old machine keeps a copy."""
    scene = Scene.of(carriage(), replicas=0, draining={"a", "b"})
    one = scene.next()
    assert carriage(peers="c", version=8) == one
    scene.carriages["a"] = one
    scene.report(one, in_sync=frozenset("c"))
    assert [] == [turn for turn in scene.settle() if turn.carriage.term > 3]
    one = scene.carriages["a"]
    assert carriage(peers="c", kept_by="c", version=10, heir="c") == one
    scene.report(one, released=True)
    assert carriage(at="c", peers="a", kept_by="a", version=11, term=4) == scene.turn()


def test_one_host_is_handed_over_at_a_time() -> None:
    """The next one follows when the first is at its heir."""
    scene = Scene.of(*(carriage(host, at="d", peers="a", kept_by="a") for host in "bc"), draining={"d", "b", "c"})
    scene.settle()
    assert ["a", ""] == [scene.carriages[host].heir for host in "bc"]
    scene.report(scene.carriages["b"], released=True)
    scene.settle()
    assert ["", "a"] == [scene.carriages[host].heir for host in "bc"]


@pytest.mark.parametrize("back", [SETTLED_AFTER - 1, SETTLED_AFTER])
def test_hosts_go_home(back: float) -> None:
    """To the machine of their name, once it is back for a while."""
    one = carriage(at="b", peers="a", kept_by="a")
    scene = Scene.of(one, alive_since={"a": NOW - back})
    assert (replace(one, heir="a", version=8) if back == SETTLED_AFTER else None) == scene.turn()


def test_hosts_of_machines_that_are_gone_follow_the_tokens() -> None:
    """A token that was moved takes the hosts with it whose points it passed."""
    place = point_of("gone")
    scene = Scene.of(carriage("gone", at="b", peers="c", kept_by="c", point=place))
    scene.alive_since = dict.fromkeys("abcd", LONG_AGO)
    scene.ring = Ring({"a": place - 200, "b": place - 100, "c": place + 50, "d": place + 200})
    assert scene.turn("gone") is None
    scene.ring = Ring({**scene.ring.tokens, "c": place - 25})
    assert "c" == scene.next("gone").heir


@pytest.mark.parametrize("why", ["lost", "drains", "broken", "new disk"])
def test_an_heir_that_can_not_inherit_is_none(why: str) -> None:
    """The carrier, which has stopped the host, runs it again."""
    one = carriage(peers="bc", kept_by="b", heir="b")
    scene = Scene.of(one, replicas=2)
    scene.report(one, released=True, broken=frozenset("b" if why == "broken" else ""))
    scene.draining = {"a", "b"} if why == "drains" else {"a"}
    if why == "lost":
        scene.lose("b")
    if why == "new disk":
        scene.machines["b"] = machine("b", root="new disk")
    assert replace(one, heir="", version=8) == scene.turn()


def test_an_heir_that_was_never_seen_is_waited_for() -> None:
    """A manager that has just started has not heard of all yet."""
    one = carriage(peers="b", kept_by="b", heir="b")
    scene = Scene.of(one)
    scene.report(one, released=True)
    del scene.machines["b"]
    assert scene.turn() is None
    scene.lost_since["b"] = LONG_AGO
    assert replace(one, heir="", version=8) == scene.turn()


def test_an_heir_carries_only_what_was_released_on_this_version() -> None:
    """A release before a withdrawal is none."""
    one = carriage(peers="b", kept_by="b", heir="b")
    scene = Scene.of(one, draining={"a"})
    scene.report(replace(one, version=6), released=True)
    assert scene.turn() is None


@pytest.mark.parametrize("why", ["drains", "full"])
def test_a_peer_that_copies_should_leave_stays_until_it_is_replaced(why: str) -> None:
    """Its copy counts until another machine has everything; nor is it chosen anew."""
    one = carriage(peers="b", kept_by="b")
    scene = Scene.of(one, draining={"b"} if why == "drains" else set())
    if why == "full":
        scene.machines["b"] = machine("b", full="its disk is nearly full")
    scene.settle()
    one = scene.carriages["a"]
    assert carriage(peers="bc", kept_by="b", version=8) == one
    scene.report(one, in_sync=frozenset("c"))
    scene.settle()
    one = scene.carriages["a"]
    assert carriage(peers="bc", kept_by="bc", version=9) == one
    scene.report(one)
    scene.settle()
    assert carriage(peers="c", kept_by="c", version=10) == scene.carriages["a"]


def test_fewer_replicas_need_fewer_peers() -> None:
    """Those that have everything stay."""
    scene = Scene.of(carriage(peers="bcd", kept_by="d"))
    assert carriage(peers="d", kept_by="d", version=8) == scene.turn()


def test_each_change_has_its_reason() -> None:
    """It names the machines."""
    one = carriage("c", peers="d", kept_by="d")
    scene = Scene.of(carriage(peers="b", kept_by="b"), carriage("b"), one, carriage("d"))
    scene.lose("a")
    scene.report(one, broken=frozenset("d"))
    assert {
        "a": "machine a is lost, and b has everything",
        "b": "c gets copies",
        "c": "c can't reach d",
        "d": "b gets copies",
    } == {turn.carriage.host: turn.why for turn in scene.decided()}


def test_the_state_of_a_carriage_is_by_its_carrier() -> None:
    """An unknown root is nobody's, so two machines without one share nothing."""
    fleet = Fleet(
        machines={name: MachineSeen(name=name, alive=True, at="x") for name in "ab"},
        ring=Ring(),
        replicas=1,
        draining=frozenset(),
        now=NOW,
        lost_since={},
        alive_since={},
    )
    one = Carriage(host="a", machine="a")
    assert CarriageState.CARRIED is state_of(one, fleet)
    assert CarriageState.INHERITED is state_of(replace(one, heir="b"), fleet)
    assert CarriageState.LOST is state_of(replace(one, root="x"), fleet)
    assert CarriageState.UNSEEN is state_of(replace(one, machine="c"), fleet)
    assert not fleet.shares("b", "")
    assert fleet.takes_copies("b", one)


def _at_store(**facts: object) -> Carriage:
    return replace(carriage(kept_by=[STORE]), **facts)  # type: ignore[arg-type]  # facts are its fields


def test_a_store_counts_and_breaks_like_a_peer() -> None:
    """Whichever machine gets copies, and however often the carrier changes, until that can't reach it."""
    scene = Scene.of(carriage())
    scene.report(scene.carriages["a"], in_sync=frozenset({STORE}))
    counted = scene.next()
    assert frozenset({STORE}) == counted.kept_by
    scene = Scene.of(_at_store(), replicas=1)
    assert (frozenset({STORE}), 1) == (scene.next().kept_by, len(scene.next().peers))
    scene = Scene.of(carriage(peers="b", kept_by=["b", STORE]))
    scene.lose("a")
    assert ("b", frozenset({STORE})) == (scene.next().machine, scene.next().kept_by)
    scene = Scene.of(_at_store(peers=("b",), roots=("root-b",)))
    scene.report(scene.carriages["a"], in_sync=frozenset({STORE}), broken=frozenset({STORE}))
    assert frozenset() == scene.next().kept_by


def test_nothing_begins_afresh_or_is_restored_by_itself_where_a_store_has_everything() -> None:
    """The machine of its name is back with another disk; an operator has to say what becomes of the host."""
    scene = Scene.of(_at_store(root="lost"), replicas=0)
    assert scene.turn() is None
    scene.machines["a"] = machine("a", restores="lost")
    assert carriage(kept_by=[STORE], term=4, version=8) == scene.turn()


def test_a_host_is_not_restored_from_older_files_unless_a_loss_is_accepted() -> None:
    """Such as those of another root than the last carrier's, or those of a store that lacks something."""
    for lost, restores in (
        (_at_store(root="lost"), "another"),
        (carriage(root="lost"), "lost"),
    ):
        scene = Scene.of(lost, replicas=1)
        scene.machines["a"] = machine("a", restores=restores)
        assert scene.turn() is None
        scene.machines["a"] = machine("a", restores=restores, accepts_loss=True)
        assert ("root-a", 4) == (scene.next().root, scene.next().term)


def test_a_host_is_not_restored_while_it_is_carried_or_somebody_has_its_files() -> None:
    """A machine of another name carries it, may be back any moment, or is lost and has left a copy."""
    scene = Scene.of(_at_store(machine="b", root="root-b"))
    scene.machines["a"] = machine("a", restores="root-b")
    assert scene.next().machine == "b"
    del scene.machines["b"]
    assert scene.turn() is None
    scene = Scene.of(carriage(at="b", peers="c", kept_by=["c", STORE]))
    scene.machines["a"] = machine("a", restores="root-b")
    scene.lose("b")
    assert scene.next().machine == "c"
    scene.lose("c")
    assert scene.next().machine == "a"


def test_a_machine_that_waits_to_restore_a_host_is_not_new() -> None:
    """Nobody knows who carried the host: the store is another deployment's, or the database is."""
    scene = Scene.of(*(carriage(name) for name in "bcd"), replicas=0)
    scene.machines["a"] = machine("a", restores="lost")
    assert () == scene.decided()
