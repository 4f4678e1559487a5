"""The changes that a batch stages in an instance's state."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags.dataflow import GROUPS
from engine.records.state import NUMBERS, Staged, packed_key, packed_value
from tests.engine.records.unpacked import group_of

FIELDS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3) | st.floats()
VALUES = st.recursive(FIELDS.filter(lambda value: value == value), lambda each: st.lists(each, max_size=3))  # noqa: PLR0124 - no number equals itself unless it is one
FEW = st.sampled_from([("a",), ("b",), (1, None), (2.5, "c")])
PORTS = st.sampled_from(["out", "left"])
ACTIONS = st.lists(
    st.tuples(st.just("put"), FEW, st.integers(0, 3))
    | st.tuples(st.just("delete"), FEW, st.none())
    | st.tuples(st.just("many"), st.lists(st.tuples(FEW, st.none() | st.integers(0, 3)), max_size=4), st.none())
    | st.tuples(st.just("advance"), PORTS, st.integers(0, 3)),
    max_size=8,
)
Action = tuple[str, Any, Any]
KEPT = {("a",): 10, (1, None): 11}


def fresh() -> Staged:
    groups: dict[int, dict[bytes, bytes]] = {NUMBERS: {b"out": packed_value(5)}}
    for key, value in KEPT.items():
        packed = packed_key(key)
        groups.setdefault(group_of(packed), {})[packed] = packed_value(value)
    return Staged(groups)


def do(staged: Staged, actions: list[Action]) -> None:
    for what, on, value in actions:
        if what == "put":
            staged.put(on, value)
        elif what == "delete":
            staged.delete(on)
        elif what == "many":
            keys = [packed_key(key) for key, _ in on]
            staged.put_many(keys, [None if each is None else packed_value(each) for _, each in on])
        else:
            staged.advance(on, value)


def seen(staged: Staged) -> tuple[Any, ...]:
    keys = [("a",), ("b",), (1, None), (2.5, "c")]
    return ([staged.get(key) for key in keys], staged.number("out"), staged.number("left"), staged.changes())


@given(FEW, VALUES)
def test_a_value_is_read_as_it_was_put(key: tuple[Any, ...], value: Any) -> None:
    """Until it is deleted."""
    staged = fresh()
    staged.put(key, value)
    assert value == staged.get(key)
    staged.delete(key)
    assert staged.get(key) is None


def test_kept_values_are_seen_until_they_change() -> None:
    """A batch sees the values of earlier batches, then its own changes."""
    staged = fresh()
    assert (10, None, 5) == (staged.get(("a",)), staged.get(("b",)), staged.number("out"))
    staged.put(("a",), 12)
    staged.delete((1, None))
    assert (12, None) == (staged.get(("a",)), staged.get((1, None)))


@given(ACTIONS)
def test_staging_is_what_a_dictionary_does(actions: list[Action]) -> None:
    """Puts and deletions in any order, packed or not, give the content of a dictionary."""
    staged, model, numbers = fresh(), dict[Any, Any](KEPT), {"out": 5, "left": 0}
    for what, on, value in actions:
        do(staged, [(what, on, value)])
        if what == "advance":
            numbers[on] += value
        else:
            model.update(on if what == "many" else [(on, value)])
    expected = [model.get(key) for key in [("a",), ("b",), (1, None), (2.5, "c")]]
    assert (expected, numbers["out"], numbers["left"]) == seen(staged)[:3]


@given(ACTIONS, ACTIONS, ACTIONS)
def test_a_rollback_leaves_no_trace(before: list[Action], undone: list[Action], after: list[Action]) -> None:
    """Changes since a mark have no effect, even on later ones."""
    staged, spared = fresh(), fresh()
    do(staged, before)
    do(spared, before)
    token = staged.mark()
    do(staged, undone)
    staged.rollback(token)
    assert seen(spared) == seen(staged)
    do(staged, after)
    do(spared, after)
    assert seen(spared) == seen(staged)
    staged.rollback(token)
    staged.rollback(0)
    assert seen(fresh()) == seen(staged)


def test_numbers_go_on_from_where_they_were() -> None:
    """Advancing a port returns the first number, and each port has its own."""
    staged = fresh()
    assert [5, 8, 8, 0, 9] == [
        staged.advance("out", 3),
        staged.advance("out", 0),
        staged.advance("out", 1),
        staged.advance("left", 2),
        staged.number("out"),
    ]
    assert {NUMBERS: {b"out": packed_value(9), b"left": packed_value(2)}} == staged.changes()


def test_changes_lie_in_the_groups_of_their_keys() -> None:
    """Staged changes come by key group, with deletions, and without kept values."""
    staged = fresh()
    staged.put(("b",), 1)
    staged.delete(("a",))
    a, b = packed_key(("a",)), packed_key(("b",))
    assert {group_of(b): {b: packed_value(1)}, group_of(a): {a: None}} == staged.changes()
    assert all(0 <= group_of(packed_key((number,))) < GROUPS for number in range(1_000))
    assert GROUPS == len({group_of(packed_key((number,))) for number in range(10_000)})


def test_equal_floats_are_one_key() -> None:
    """Zeros of both signs are one key, and so are all NaNs. True, 1 and 1.0 are three."""
    assert packed_key((0.0, 1)) == packed_key((-0.0, 1))
    assert packed_key((math.nan,)) == packed_key((-math.nan,)) == packed_key((float("inf") * 0,))
    assert 3 == len({packed_key((True,)), packed_key((1,)), packed_key((1.0,))})


@given(st.tuples(FIELDS, FIELDS), st.tuples(FIELDS, FIELDS))
def test_different_keys_are_packed_differently(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """Two keys have equal bytes only if they are equal, with all NaNs equal."""
    if packed_key(one) == packed_key(other):
        assert str([0.0 if each == 0 else each for each in one]) == str([0.0 if each == 0 else each for each in other])


def test_keys_and_values_go_in_pairs() -> None:
    """The number of values must be that of keys."""
    with pytest.raises(ValueError, match="zip"):
        fresh().put_many([b"a", b"b"], [b"1"])
