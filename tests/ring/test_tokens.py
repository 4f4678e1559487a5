"""The ring of tokens, and where tokens go by what hosts have to do."""

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ring.balance import BURDENED, RELIEVED, RingLoad, RingTurn, balancing, next_ring
from ring.decision import wanted
from ring.fleet import SETTLED_AFTER, Carriage, Fleet, HostReport
from ring.tokens import RING_SIZE, Ring, point_of
from tests.ring.scenes import LONG_AGO, NAMES, NOW, Scene, carriage, machine

MEMBERS = [f"m{number}" for number in range(8)]
points = st.integers(0, RING_SIZE - 1)


@st.composite
def rings(draw: st.DrawFn, least: int = 1) -> Ring:
    """Any ring; half of the time its tokens are close together."""
    tokens = draw(st.lists(st.one_of(points, st.integers(0, 30)), min_size=least, max_size=8, unique=True))
    return Ring(dict(zip(MEMBERS, tokens, strict=False)))


@st.composite
def loaded(draw: st.DrawFn) -> tuple[Ring, dict[int, float]]:
    near = st.one_of(points, st.integers(0, 40))
    return draw(rings(2)), draw(st.dictionaries(near, st.integers(0, 50).map(float), max_size=30))


@given(rings(), points)
def test_every_point_is_owned_once(ring: Ring, point: int) -> None:
    """By the machine whose token is the nearest at or before it, round the ring."""
    distances = {name: (point - token) % RING_SIZE for name, token in ring.tokens.items()}
    assert min(distances, key=distances.__getitem__) == ring.owner(point)
    assert RING_SIZE == sum(map(ring.arc, ring.tokens))


@given(rings(), st.lists(points, max_size=20))
def test_a_new_machine_takes_half_of_one_arc(ring: Ring, some: list[int]) -> None:
    """Of the largest one; nobody else's points move."""
    after = ring.joined("new")
    (halved,) = [name for name in ring.tokens if after.arc(name) != ring.arc(name)]
    assert max(map(ring.arc, ring.tokens)) == ring.arc(halved) == after.arc(halved) + after.arc("new")
    assert after.arc("new") - after.arc(halved) in {0, 1}
    moved = {(ring.owner(point), after.owner(point)) for point in some if after.owner(point) != ring.owner(point)}
    assert moved <= {(halved, "new")}


@given(rings(2), st.lists(points, max_size=20), st.data())
def test_what_a_machine_leaves_goes_to_its_neighbour(ring: Ring, some: list[int], data: st.DataObject) -> None:
    """Which has the copies; nothing else moves."""
    gone = data.draw(st.sampled_from(sorted(ring.tokens)))
    after = ring.left(gone)
    for point in some:
        before = ring.owner(point)
        assert (ring.neighbour(gone) if before == gone else before) == after.owner(point)


@given(rings(2), st.lists(points, max_size=20), st.integers(2, 9), st.data())
def test_relief_moves_one_token_at_most_half_way(ring: Ring, some: list[int], part: int, data: st.DataObject) -> None:
    """Only the neighbour's; points go from the relieved machine to it."""
    name = data.draw(st.sampled_from(sorted(ring.tokens)))
    after = ring.relieved(name, part)
    assert {ring.neighbour(name)} >= {each for each in ring.tokens if ring.tokens[each] != after.tokens[each]}
    assert ring.arc(name) - after.arc(name) <= ring.arc(name) / 2
    moved = {(ring.owner(point), after.owner(point)) for point in some if ring.owner(point) != after.owner(point)}
    assert moved <= {(name, ring.neighbour(name))}


@given(rings(), st.lists(st.sampled_from("xyz"), min_size=8, max_size=8), st.integers(0, 8))
def test_copies_are_at_other_machines_in_other_zones(ring: Ring, zones: list[str], count: int) -> None:
    """All distinct, in as many zones as there are, and as many as there are machines."""
    zone_of = dict(zip(MEMBERS, zones, strict=False))
    there = {name: zone_of[name] for name in ring.tokens}
    for name in ring.tokens:
        chosen = ring.next_machines(name, there, count)
        assert len(set(chosen)) == len(chosen) == min(count, len(there) - 1)
        assert name not in chosen
        assert len({zone_of[each] for each in (name, *chosen)}) == min(len(set(there.values())), len(chosen) + 1)


@given(rings(), st.integers(0, 3), st.data())
def test_losses_leave_a_copy_of_everything(ring: Ring, count: int, data: st.DataObject) -> None:
    """Whatever is lost, up to n * r / (r + 1) machines, if no more than r of them stand next to each other."""
    order = sorted(ring.tokens, key=ring.tokens.__getitem__)
    lost = data.draw(st.sets(st.sampled_from(order)))
    runs = [[order[(start + step) % len(order)] for step in range(count + 1)] for start in range(len(order))]
    assume(not any(lost.issuperset(run) for run in runs))
    if len(order) > count:
        assert len(lost) <= len(order) * count / (count + 1)
    for name in order:
        assert not lost.issuperset({name, *ring.next_machines(name, dict.fromkeys(order, ""), count)})


def test_most_losses_are_spread() -> None:
    """With one copy every other machine may be lost, with two copies two of three."""
    ring = Ring({name: 100 * place for place, name in enumerate(MEMBERS[:6])})
    for count, lost in ((1, {"m0", "m2", "m4"}), (2, {"m0", "m1", "m3", "m4"})):
        kept = [{name, *ring.next_machines(name, dict.fromkeys(ring.tokens, ""), count)} for name in ring.tokens]
        assert all(each - lost for each in kept)


@given(loaded())
def test_balancing_ends_and_only_helps(situation: tuple[Ring, dict[int, float]]) -> None:
    """The highest load never rises, each step moves one token at most half-way, and the end is an end."""
    first, loads = situation
    load = RingLoad(loads=loads)
    steps = balancing(first, load)
    for before, after in pairwise(steps):
        (moved,) = [name for name in before.tokens if before.tokens[name] != after.tokens[name]]
        giver = next(name for name in before.tokens if before.neighbour(name) == moved)
        assert before.arc(giver) - after.arc(giver) <= before.arc(giver) / 2
    highest = [max(load.of(each).values()) for each in (steps[0], steps[-1])]
    assert highest[1] <= highest[0]
    assert len(steps) < 1_000
    assert (steps[-1],) == balancing(steps[-1], load)


@pytest.mark.parametrize("seed", range(5))
def test_balancing_helps_under_skew(seed: int) -> None:
    """Where one machine has most to do, the highest load falls from several times the mean to little above it."""
    numbers = random.Random(seed)
    ring = Ring({name: place * RING_SIZE // 8 for place, name in enumerate(MEMBERS)})
    loads = {numbers.randrange(RING_SIZE // 8): 10.0 for _ in range(100)} | {
        numbers.randrange(RING_SIZE): 1.0 for _ in range(200)
    }
    load = RingLoad(loads=loads)

    def skew(one: Ring) -> float:
        found = load.of(one)
        return max(found.values()) * len(found) / sum(found.values())

    steps = balancing(ring, load)
    assert skew(ring) > 5
    assert skew(steps[-1]) < 1.5
    assert steps[:4] == balancing(ring, load, 3)


def test_a_ring_without_machines_owns_nothing() -> None:
    """Nobody is empty, not an error, since a service may have no machine yet."""
    assert "" == Ring().owner(0)
    assert Ring({"a": point_of("a")}) == Ring().joined("a") == Ring().including(["a"])
    assert Ring() == Ring({"a": 1}).left("a")
    assert Ring({"a": 1}) == Ring({"a": 1}).relieved("a")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Ring({"a": 1, "b": 1}), "the same token"),
        (lambda: Ring({"a": RING_SIZE}), "not on the ring"),
        (lambda: Ring({"a": 1}).joined("a"), "on the ring already"),
        (lambda: Ring({"a": 1, "b": 9}).relieved("a", 1), "half-way back at most"),
    ],
)
def test_what_no_ring_is(make: object, why: str) -> None:
    """Tokens that are not unique places on it are refused, with what would do."""
    assert callable(make)
    with pytest.raises(ValueError, match=why):
        make()


LONG = NOW - SETTLED_AFTER


def calm(hosts: Mapping[str, int], loads: Mapping[str, float], *, replicas: int = 1) -> tuple[Scene, Fleet]:
    """Machines that have been there for long, each with its so many own hosts at home, and what these take."""
    names = sorted(hosts)
    ring, carriages = Ring(), dict[str, Carriage]()
    for name in names:
        ring = ring.joined(name, points=[each.point for each in carriages.values()])
        for host in own(name, hosts[name]):
            point = ring.free_point(name, [each.point for each in carriages.values()])
            carriages[host] = carriage(host, name, point=point)
    scene = Scene.of(*carriages.values(), ring=ring, replicas=replicas, alive_since=dict.fromkeys(names, LONG_AGO))
    scene.machines = {name: machine(name, own=own(name, hosts[name])) for name in names}
    return scene, replace(scene.fleet(), loads=loads)


def own(name: str, count: int) -> tuple[str, ...]:
    return (name, *(f"{name}{number}" for number in range(2, count + 1)))


def turned(scene: Scene, fleet: Fleet, since: float | None = LONG) -> RingTurn:
    return next_ring(scene.carriages, fleet, since)


def highest(fleet: Fleet, scene: Scene, ring: Ring) -> float:
    """The highest load of a machine for its cores, if each host is at home."""
    loads = dict.fromkeys(ring.tokens, 0.0)
    for host, each in scene.carriages.items():
        loads[ring.owner(each.point)] += fleet.loads.get(host, 0.0)
    return max(load / max(1.0, fleet.machines[name].cores) for name, load in loads.items())


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Scene, Fleet]:
    """Calm fleets of machines with some hosts, cores and tags each, any of which may not take copies or drain."""
    hosts = {name: draw(st.integers(1, 4)) for name in NAMES[: draw(st.integers(1, 4))]}
    every = [host for name, count in hosts.items() for host in own(name, count)]
    loads = {host: draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0])) for host in every}
    scene, fleet = calm(hosts, loads)
    for name in hosts:
        facts = {
            "cores": draw(st.sampled_from([0.0, 1.0, 4.0])),
            "at": draw(st.sampled_from(["somewhere", "somewhere", "somewhere", ""])),
            "tags": frozenset(draw(st.sampled_from([[], [], ["t"]]))),
        }
        scene.machines[name] = replace(scene.machines[name], **facts)  # type: ignore[arg-type]  # they are its fields
    return scene, fleet


@given(fleets())
def test_the_highest_load_only_falls_until_nothing_moves(situation: tuple[Scene, Fleet]) -> None:
    """Step by step, each by a tenth of the mean; a host moves once in a step, to a machine that may have it."""
    scene, fleet = situation
    for _ in range(30):
        after = turned(scene, fleet)
        if not after.why:
            break
        assert highest(fleet, scene, after.ring) < highest(fleet, scene, fleet.ring)
        fleet = replace(fleet, ring=after.ring)
        for host, each in scene.carriages.items():
            home = fleet.home(each)
            assert home == each.machine or (fleet.suits(home, each) and fleet.takes_copies(home, each))
            scene.carriages[host] = replace(each, machine=home, root=f"root-{home}")
    else:
        pytest.fail("it does not end")
    assert fleet.ring == after.ring


@given(fleets())
def test_every_host_has_one_home_and_only_those_named_move(situation: tuple[Scene, Fleet]) -> None:
    """Points stay; the reason names each host that goes, with its new home."""
    scene, fleet = situation
    after = turned(scene, fleet)
    going = {host: after.ring.owner(each.point) for host, each in scene.carriages.items()}
    moved = {host: home for host, home in going.items() if home != scene.carriages[host].machine}
    assert all(f"{host} to {home}" in after.why for host, home in moved.items())
    assert bool(moved) == bool(after.why)


def test_a_neighbour_takes_hosts_of_a_machine_with_too_much_to_do() -> None:
    """And nobody else moves; the reason says how much better it is."""
    scene, fleet = calm({"a": 4, "b": 1, "c": 1}, {"a": 0.5, "a2": 0.5, "a3": 0.5, "a4": 0.5, "b": 0.4, "c": 0.4})
    after = turned(scene, fleet)
    homes = {host: after.ring.owner(each.point) for host, each in scene.carriages.items()}
    assert [2, 4] == [
        list(homes.values()).count("a"),
        list(homes.values()).count("b") + list(homes.values()).count("c"),
    ]
    assert "machine a has 2.14 times the mean load" in after.why
    assert after.uneven_since is None


def test_hosts_go_home_to_the_owner_of_their_point() -> None:
    """So a moved token has them handed over, and nothing brings them back."""
    scene, fleet = calm({"a": 2, "b": 1}, {"a": 1.0, "a2": 1.0})
    fleet = replace(fleet, ring=turned(scene, fleet).ring)
    assert {"a": "a", "a2": "b", "b": "b"} == {host: wanted(each, fleet) for host, each in scene.carriages.items()}
    there = carriage("a2", "b", point=scene.carriages["a2"].point)
    assert "b" == wanted(there, fleet)
    assert "b" == wanted(replace(there, machine="a", root="root-a"), fleet)


def test_a_load_has_to_be_uneven_for_a_while() -> None:
    """It counts from the first sight on, and begins anew once loads are even; a little above that it goes on."""
    scene, fleet = calm({"a": 2, "b": 1}, {"a": 0.5, "a2": 0.5})
    assert RingTurn(ring=scene.ring, uneven_since=NOW) == turned(scene, fleet, None)
    assert RingTurn(ring=scene.ring, uneven_since=LONG + 1) == turned(scene, fleet, LONG + 1)
    assert turned(scene, fleet).why
    for ratio, since, kept in (
        (BURDENED - 0.05, None, None),
        (BURDENED - 0.05, NOW - 1, NOW - 1),
        (RELIEVED - 0.05, NOW - 1, None),
    ):
        loads = {"a": ratio / 2, "a2": ratio / 2, "b": 2 - ratio}
        assert RingTurn(ring=scene.ring, uneven_since=kept) == turned(scene, replace(fleet, loads=loads), since)


@pytest.mark.parametrize(
    "loads",
    [{"a": 0.02, "a2": 0.02}, {"a": 1.0, "a2": 0.0}, {"a": 0.52, "a2": 0.5, "b": 0.5, "c": 0.0}, {}],
    ids=["idle", "one host is all of it", "hardly better", "nothing measured"],
)
def test_what_does_not_help_is_not_done(loads: dict[str, float]) -> None:
    """Hosts stay where they are."""
    scene, fleet = calm({"a": 2, "b": 1}, loads)
    assert ("", scene.ring) == (turned(scene, fleet).why, turned(scene, fleet).ring)


def test_tokens_stay_while_anything_is_on_its_way() -> None:
    """A host that is away from home or handed over, a machine that came a moment ago, drains, or is lost."""
    scene, fleet = calm({"a": 2, "b": 1}, {"a": 0.5, "a2": 0.5})
    assert turned(scene, fleet).why
    one, lost = scene.carriages["b"], replace(fleet.machines["b"], alive=False)
    for other in (replace(one, machine="a", root="root-a"), replace(one, heir="a"), replace(one, root="a new disk")):
        moving = Scene.of(*scene.carriages.values(), other)
        assert RingTurn(ring=scene.ring) == turned(moving, fleet)
    for changed in (
        replace(fleet, alive_since={**fleet.alive_since, "b": NOW}),
        replace(fleet, draining=frozenset("b")),
        replace(fleet, machines={**fleet.machines, "b": lost}),
    ):
        assert RingTurn(ring=scene.ring) == turned(scene, changed)


def test_a_machine_that_lacks_tags_or_files_gets_nothing() -> None:
    """What the host's own machine offers its jobs may need, and its files have to get there."""
    scene, fleet = calm({"a": 2, "b": 1}, {"a": 0.5, "a2": 0.5})
    able, without = fleet.machines["a"], replace(fleet.machines["b"], at="")
    for machines in (
        {"a": replace(able, tags=frozenset({"gpu"})), "b": fleet.machines["b"]},
        {"a": able, "b": without},
    ):
        assert not turned(scene, replace(fleet, machines=machines)).why


def test_a_machine_with_more_cores_takes_more() -> None:
    """Loads count for the cores of a machine."""
    loads = dict.fromkeys(["a", "a2", "a3", "a4", "b"], 1.0)
    scene, fleet = calm({"a": 4, "b": 1}, loads)
    large = {**fleet.machines, "b": replace(fleet.machines["b"], cores=4.0)}
    homes = [turned(scene, replace(fleet, machines=large)).ring.owner(each.point) for each in scene.carriages.values()]
    assert (1, 4) == (homes.count("a"), homes.count("b"))
    large = {**fleet.machines, "a": replace(fleet.machines["a"], cores=4.0)}
    assert not turned(scene, replace(fleet, machines=large)).why


def test_a_new_machine_moves_nothing_and_then_relieves_the_fullest() -> None:
    """It is placed behind it, so a part of its hosts needs only one token to move."""
    scene, fleet = calm({"a": 1, "b": 4, "c": 1}, {"b": 0.5, "b2": 0.5, "b3": 0.5, "b4": 0.5, "a": 0.3, "c": 0.3})
    fleet = replace(fleet, machines={**fleet.machines, "d": machine("d")})
    joined = turned(scene, fleet)
    assert ("", None, "d") == (joined.why, joined.uneven_since, joined.ring.neighbour("b"))
    assert {host: each.machine for host, each in scene.carriages.items()} == {
        host: joined.ring.owner(each.point) for host, each in scene.carriages.items()
    }
    point = joined.ring.free_point("d", [each.point for each in scene.carriages.values()])
    scene.carriages["d"] = carriage("d", point=point)
    settled = replace(fleet, ring=joined.ring, alive_since={**fleet.alive_since, "d": LONG_AGO})
    after = turned(scene, settled)
    assert {"b2 to d", "b4 to d"} == set(after.why.rsplit(": ", 1)[-1].split(", "))


def test_a_machine_that_was_known_gets_its_own_hosts_in_its_arc() -> None:
    """More of them than before, too; one that others report, and nobody knows, is at home where it is carried."""
    scene = Scene.of(carriage("a"), machines={"a": machine("a", own=("a", "a.2", "a.3"), hosts={"z": HostReport()})})
    found = {turn.carriage.host: turn.carriage for turn in scene.decided() if turn.carriage.host != "a"}
    assert {"a.2", "a.3", "z"} == set(found)
    assert {"a"} == {scene.ring.owner(each.point) for each in found.values()}
    assert 4 == len({scene.carriages["a"].point, *(each.point for each in found.values())})


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True), st.sets(st.integers(0, 60)), st.data())
def test_free_points_are_the_machine_s_own(tokens: list[int], points: set[int], data: st.DataObject) -> None:
    """Its token first; one that is used only if there is no other."""
    ring = Ring(dict(zip("abcdef", tokens, strict=False)))
    name = data.draw(st.sampled_from(sorted(ring.tokens)))
    found = ring.free_point(name, points)
    assert name == ring.owner(found)
    assert (found == ring.tokens[name]) >= (ring.tokens[name] not in points)
    mine = [far for far in range(min(ring.arc(name), 200)) if (ring.tokens[name] + far) % RING_SIZE not in points]
    assert (found in points) == (not mine)


@given(st.sets(st.integers(0, RING_SIZE // 2), max_size=12), st.integers(1, 6))
def test_machines_join_without_taking_a_point(points: set[int], count: int) -> None:
    """However many come, every point stays with who had it, if there is room behind the last one."""
    ring = Ring({"first": 0})
    for number in range(count):
        after = ring.joined(f"m{number}", points=points)
        assert {point: ring.owner(point) for point in points} == {point: after.owner(point) for point in points}
        ring = after
