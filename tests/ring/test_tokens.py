"""The ring of tokens."""

import random
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ring.balance import RingLoad, balancing
from ring.tokens import RING_SIZE, Ring, point_of

NAMES = [f"m{number}" for number in range(8)]
points = st.integers(0, RING_SIZE - 1)


@st.composite
def rings(draw: st.DrawFn, least: int = 1) -> Ring:
    """Any ring; half of the time its tokens are close together."""
    tokens = draw(st.lists(st.one_of(points, st.integers(0, 30)), min_size=least, max_size=8, unique=True))
    return Ring(dict(zip(NAMES, tokens, strict=False)))


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
    zone_of = dict(zip(NAMES, zones, strict=False))
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
    ring = Ring({name: 100 * place for place, name in enumerate(NAMES[:6])})
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
    ring = Ring({name: place * RING_SIZE // 8 for place, name in enumerate(NAMES)})
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
