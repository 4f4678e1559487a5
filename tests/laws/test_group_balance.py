"""Laws of the balance of key groups."""

from hypothesis import given
from hypothesis import strategies as st

from dags.dataflow import GROUPS, evenly
from merge.shards import BETTER, UNEVEN, balanced, loads_of


@st.composite
def situations(draw: st.DrawFn) -> tuple[tuple[int, ...], list[float], int]:
    """Any assignment, with some loads, of which a few may be much more than others."""
    shards = draw(st.integers(1, 16))
    groups = tuple(draw(st.lists(st.integers(0, shards - 1), min_size=GROUPS, max_size=GROUPS)))
    loads = [float(each) for each in draw(st.lists(st.integers(0, 20), min_size=GROUPS, max_size=GROUPS))]
    for hot in draw(st.lists(st.integers(0, GROUPS - 1), max_size=3)):
        loads[hot] += 1_000.0
    return draw(st.sampled_from((groups, evenly(shards)))), loads, shards


@given(situations())
def test_nothing_moves_for_little(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """Either all stays, or the fullest shard was too full and has less to do by a tenth at least."""
    groups, loads, shards = situation
    found = balanced(groups, loads, shards)
    before, after = (loads_of(each, loads, shards) for each in (groups, found))
    if found != groups:
        assert max(before) > UNEVEN * sum(before) / shards
        assert max(after) <= BETTER * max(before)


@given(situations())
def test_what_is_balanced_stays(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """Under the same load groups move once at most."""
    groups, loads, shards = situation
    found = balanced(groups, loads, shards)
    assert found == balanced(found, loads, shards)


@given(situations())
def test_only_groups_with_events_move(situation: tuple[tuple[int, ...], list[float], int]) -> None:
    """And they are in a shard that is there."""
    groups, loads, shards = situation
    for group, (before, after) in enumerate(zip(groups, balanced(groups, loads, shards), strict=True)):
        if before != after:
            assert loads[group] > 0.0
            assert after in range(shards)


@given(
    st.integers(2, 16), st.lists(st.integers(80, 100).map(float), min_size=GROUPS, max_size=GROUPS), st.integers(0, 99)
)
def test_a_skew_without_a_hot_group_is_evened_out(shards: int, loads: list[float], start: int) -> None:
    """Wherever all the groups are, even all in one shard."""
    crowded = tuple(0 if group % 100 <= start else shards - 1 for group in range(GROUPS))
    full = loads_of(balanced(crowded, loads, shards), loads, shards)
    assert max(full) <= UNEVEN * sum(full) / shards


def test_without_figures_nothing_moves() -> None:
    """No events, or none known of."""
    assert evenly(3) == balanced(evenly(3), (), 3) == balanced(evenly(3), [0.0] * GROUPS, 3)
