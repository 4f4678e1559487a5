"""The state of a job: its versions, its division over shards, and the changes that a batch stages."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags.dataflow import GROUPS, evenly
from engine.offset import Offset
from engine.records.record import Record, Table
from engine.records.state import AT_LEAST_EVERY, NUMBERS, InstanceStates, Staged, packed_key, packed_value
from tests.engine.records.unpacked import group_of

GROUPS_IN_ALL = 129


def settle(
    state: InstanceStates, puts: dict[int, dict[Any, Any]] | None = None, dropped: tuple[int, ...] = ()
) -> Record:
    """One batch that puts values under keys of instances."""
    for instance, items in (puts or {}).items():
        for key, value in items.items():
            state.of(instance).put((key,), value)
    batch = state.version + 1
    return state.settle(Record(batch=batch, start=Offset(), end=Offset(), dropped=dropped, changes=state.changes()))


def size(table: Table) -> int:
    return sum(
        len(key) + len(value or b"")
        for groups in table.values()
        for items in groups.values()
        for key, value in items.items()
    )


def imaged_bytes(record: Record) -> int:
    return size(dict(enumerate([dict(enumerate(image.values())) for image in record.imaged.values()])))


def kept_in(state: InstanceStates, group: int) -> dict[int, dict[bytes, bytes]]:
    return {instance: dict(groups[group]) for instance, groups in state.kept.items() if group in groups}


def test_settled_changes_count() -> None:
    """The next batch sees them, and the state of a dropped instance is gone."""
    state = InstanceStates()
    settle(state, {1: {"a": 1, "b": 2}, 2: {"a": 3}})
    state.of(1).delete(("b",))
    settle(state, {1: {"c": 4}})
    settle(state, dropped=(2,))
    got = [state.of(instance).get((key,)) for instance in (1, 2) for key in "abc"]
    assert [1, None, 4, None, None, None] == got
    assert {1} == set(state.kept)
    assert 2 == state.version


def test_a_batch_sees_one_overlay_per_instance() -> None:
    """Within a batch, an instance's state is one object, and the next batch gets another."""
    state = InstanceStates()
    staged = state.of(1)
    staged.put(("a",), 1)
    assert staged is state.of(1)
    assert 1 == state.of(1).get(("a",))
    settle(state)
    assert staged is not state.of(1)


def test_discarded_changes_have_no_effect() -> None:
    """The state is as before the batch."""
    state = InstanceStates()
    settle(state, {1: {"a": 1}})
    state.of(1).put(("a",), 2)
    state.of(1).advance("out", 3)
    state.discard()
    assert {} == state.changes()
    assert (1, 0) == (state.of(1).get(("a",)), state.of(1).number("out"))


def test_a_batch_that_does_not_follow_is_refused() -> None:
    """A state is never carried over a batch that it has not seen."""
    state = InstanceStates()
    with pytest.raises(ValueError, match="batch 1 does not follow batch -1; catch up first"):
        state.settle(Record(batch=1, start=Offset(), end=Offset()))


def test_imported_state_counts_like_computed_state() -> None:
    """An instance continues with the state and numbers of another job."""
    elsewhere, here = InstanceStates(), InstanceStates()
    elsewhere.of(1).advance("out", 7)
    settle(elsewhere, {1: {"a": 1}})
    here.bring(elsewhere.kept)
    assert 7 == here.of(1).advance("out", 1)
    settle(here)
    assert (1, 8) == (here.of(1).get(("a",)), here.of(1).number("out"))
    assert (1, 7) == (elsewhere.of(1).get(("a",)), elsewhere.of(1).number("out"))


def test_an_image_is_the_whole_content_of_a_group() -> None:
    """The keys of every instance in its group after the batch. It never changes later."""
    state = InstanceStates()
    records = [settle(state, {instance: dict.fromkeys(range(40), batch) for instance in (1, 2)}) for batch in range(3)]
    assert records[1].imaged
    last = records[-1]
    assert last.imaged == {group: kept_in(state, group) for group in last.imaged}
    before = {
        group: {instance: dict(items) for instance, items in image.items()} for group, image in last.imaged.items()
    }
    settle(state, {1: dict.fromkeys(range(40), "other")})
    assert before == last.imaged


def test_a_small_state_is_in_every_record() -> None:
    """If a batch changes the whole state, its record alone is enough."""
    state = InstanceStates()
    for _ in range(20):
        record = settle(state, {1: dict.fromkeys(range(50), "value")})
        assert record.batch == record.base


def test_a_group_written_whole_needs_no_image() -> None:
    """The changes of the first record are its groups' whole content, and need no image later."""
    state = InstanceStates()
    first = settle(state, {1: dict.fromkeys(range(2000), "value")})
    second = settle(state, {1: {0: "other"}})
    assert {} == first.imaged
    assert 0 == first.base == second.base
    assert imaged_bytes(second) <= size(second.changes)


def test_images_cost_what_changes_cost() -> None:
    """Over many batches, images are no larger than changes, except for one group every few batches."""
    state = InstanceStates()
    settle(state, {1: dict.fromkeys(range(5000), "value" * 3)})
    changed = imaged = 0
    for batch in range(1, 200):
        record = settle(state, {1: {(batch * 31 + n) % 5_000: "other" * 3 for n in range(20)}})
        changed += size(record.changes)
        imaged += imaged_bytes(record) if batch % AT_LEAST_EVERY else 0
    assert 0 < imaged <= changed


def test_old_records_are_not_needed_for_ever() -> None:
    """Without changes, every group still gets a new image in turn."""
    state = InstanceStates()
    state.of(1).advance("out", 5)
    settle(state, {instance: dict.fromkeys(range(400), "value") for instance in (1, 2)})
    records = [settle(state) for _ in range(3 * AT_LEAST_EVERY * GROUPS_IN_ALL)]
    bound = AT_LEAST_EVERY * GROUPS_IN_ALL
    assert all(record.batch - record.base <= bound for record in records)
    assert all(before.base <= after.base for before, after in pairwise(records))
    assert all(len(record.imaged) <= 1 for record in records)
    assert NUMBERS in {group for record in records for group in record.imaged}


def test_a_group_that_was_emptied_needs_no_record() -> None:
    """After deletion or dropping, an empty group needs no old record."""
    state = InstanceStates()
    settle(state, {1: {"a": 1}})
    settle(state, {2: {"b": 1}})
    assert 1 == settle(state, dropped=(1,)).base
    state.of(2).delete(("b",))
    record = settle(state)
    assert (record.batch, {}, {}) == (record.base, record.imaged, state.kept)


def test_deleting_what_is_not_there_changes_nothing() -> None:
    """A missing key can be deleted, and keeps no group alive."""
    state = InstanceStates()
    state.of(1).delete(("a",))
    record = settle(state)
    assert ({1: {group_of(packed_key(("a",))): {packed_key(("a",)): None}}}, {}) == (record.changes, state.kept)
    assert record.batch == record.base


def test_keys_are_kept_as_bytes() -> None:
    """The state contains packed keys and values, by instance and key group."""
    state = InstanceStates()
    settle(state, {1: {"a": 1.5}})
    key = packed_key(("a",))
    assert {1: {group_of(key): {key: packed_value(1.5)}}} == state.kept


@pytest.mark.parametrize("shards", [2, 3, 4, 8])
@pytest.mark.parametrize("many", [16, 100])
@pytest.mark.parametrize(
    "named", [str, int, "k{}".format, "sensor-{}".format, "sensor-{:03d}".format], ids=["str", "int", "k", "-", "-000"]
)
def test_numbered_keys_are_spread_over_the_shards(named: Callable[[int], object], many: int, shards: int) -> None:
    """Every shard has some, and none has twice its share."""
    groups = evenly(shards)
    has = Counter(groups[crc32(packed_key((named(number),))) % GROUPS] for number in range(many))
    assert shards == len(has)
    assert max(has.values()) <= 2 * many / shards


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
