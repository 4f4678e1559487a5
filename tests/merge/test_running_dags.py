"""Running DAGs by example: which join, which split, and under which ids they go on."""

import pytest

from merge import DagId, Instance, RunningDags

Parts = tuple[tuple[int, ...], ...]


def joined(dags: RunningDags, *parts: tuple[int, ...]) -> tuple[RunningDags, set[tuple[DagId, DagId]]]:
    """The running DAGs with these parts, and each that became part of another, with that one first."""
    after = dags.join([tuple(map(Instance, part)) for part in parts])
    return after, {(after.of_source[source], dag) for source, dag in dags.of_source.items()} - _unchanged(dags)


def made(*parts: tuple[int, ...]) -> RunningDags:
    """Running DAGs after the parts came one by one."""
    dags = RunningDags()
    for part in parts:
        dags, _ = joined(dags, part)
    return dags


def left(
    dags: RunningDags, *parts: tuple[int, ...], stopped: tuple[int, ...] = ()
) -> tuple[RunningDags, set[tuple[DagId, DagId]]]:
    """The running DAGs without these parts, and each that fell off another, with that one first."""
    after = dags.leave([tuple(map(Instance, part)) for part in parts], frozenset(map(Instance, stopped)))
    return after, {(dags.of_source[source], dag) for source, dag in after.of_source.items()} - _unchanged(dags)


def _unchanged(dags: RunningDags) -> set[tuple[DagId, DagId]]:
    return {(dag, dag) for dag in dags.of_source.values()}


def links(dags: RunningDags) -> dict[int, dict[int, int]]:
    return {source: dict(around.items()) for source, around in dags.links.items()}


def test_none() -> None:
    """At first there is no running DAG, and the first will be number 1."""
    dags = RunningDags()
    assert ({}, {}, 1) == (dict(dags.of_source), links(dags), dags.next_dag)


def test_each_part_begins_a_running_dag() -> None:
    """The sources of a new part belong to one new running DAG and are linked to a path; nothing is joined by it."""
    dags, found = joined(RunningDags(), (1, 2, 4), (3,))
    assert {1: 1, 2: 1, 3: 2, 4: 1} == dict(dags.of_source)
    assert {1: {2: 1}, 2: {1: 1, 4: 1}, 4: {2: 1}} == links(dags)
    assert (3, set()) == (dags.next_dag, found)


def test_new_sources_go_with_the_known_one() -> None:
    """A part with a source that runs already makes the others members of its running DAG."""
    dags, found = joined(made((1, 2), (3,)), (3, 4, 5))
    assert {1: 1, 2: 1, 3: 2, 4: 2, 5: 2} == dict(dags.of_source)
    assert (3, set()) == (dags.next_dag, found)


def test_new_source_before_known_ones() -> None:
    """A new source that is named first gets a running DAG, which the known one's then absorbs or is absorbed by."""
    dags, _ = joined(made((1, 2)), (0, 1))
    assert ({0: 1, 1: 1, 2: 1}, 3) == (dict(dags.of_source), dags.next_dag)


def test_links_are_counted() -> None:
    """Each part counts, in both directions, also where nothing is joined by it."""
    dags = made((1, 2), (1, 2), (2, 3))
    assert {1: {2: 2}, 2: {1: 2, 3: 1}, 3: {2: 1}} == links(dags)


@pytest.mark.parametrize(
    ("parts", "link", "expected", "kept"),
    [
        (((1, 2), (3,)), (2, 3), (1, 2), 1),
        (((1,), (2, 3)), (1, 2), (2, 1), 2),
        (((1, 2, 3), (4, 5)), (1, 4), (1, 2), 1),
    ],
)
def test_larger_running_dag_keeps_its_id(
    parts: Parts, link: tuple[int, ...], expected: tuple[int, int], kept: int
) -> None:
    """Where two running DAGs join, the larger keeps its id, whichever is older; every source of the other takes it."""
    dags, found = joined(made(*parts), link)
    assert {expected} == found
    assert {kept} == set(dags.of_source.values())


def test_several_running_dags_join_at_once() -> None:
    """A part across three running DAGs joins them two by two."""
    dags, found = joined(made((1,), (2,), (3,)), (1, 2, 3))
    assert {(2, 1), (2, 3)} == found
    assert {1: 2, 2: 2, 3: 2} == dict(dags.of_source)
    assert 4 == dags.next_dag


def test_joining_leaves_what_was_before() -> None:
    """The running DAGs before a join or a removal stay as they were."""
    before = made((1, 2), (3,))
    joined(before, (2, 3))
    left(before, (1, 2))
    assert ({1: 1, 2: 1, 3: 2}, {1: {2: 1}, 2: {1: 1}}, 3) == (dict(before.of_source), links(before), before.next_dag)


def test_last_link_splits() -> None:
    """Only when a link's count falls to zero does a running DAG fall apart; the parted side gets a new id."""
    once, none = left(made((1, 2), (1, 2)), (1, 2))
    assert ({1: {2: 1}, 2: {1: 1}}, set()) == (links(once), none)
    twice, split = left(once, (1, 2))
    assert {(1, 2)} == split
    assert ({1: 2, 2: 1}, {}, 3) == (dict(twice.of_source), links(twice), twice.next_dag)


def test_smaller_side_gets_the_new_id() -> None:
    """The larger side of a split keeps the id."""
    dags, split = left(made((1, 2), (2, 3), (3, 4)), (3, 4))
    assert ({(1, 2)}, {1: 1, 2: 1, 3: 1, 4: 2}) == (split, dict(dags.of_source))
    dags, split = left(made((1, 2), (2, 3), (3, 4)), (1, 2))
    assert ({(1, 2)}, {1: 2, 2: 1, 3: 1, 4: 1}) == (split, dict(dags.of_source))


def test_another_way_round_holds_together() -> None:
    """A link may fall to zero while the sources stay connected through others."""
    dags, split = left(made((1, 2), (2, 3), (1, 3)), (1, 2))
    assert (set(), {1: 1, 2: 1, 3: 1}) == (split, dict(dags.of_source))
    assert {1: {3: 1}, 3: {2: 1, 1: 1}, 2: {3: 1}} == links(dags)


def test_stopped_source_goes() -> None:
    """A stopped source leaves its running DAG, which that alone does not split."""
    dags, split = left(made((1, 2)), (1, 2), stopped=(2,))
    assert (set(), {1: 1}, {}, 2) == (split, dict(dags.of_source), links(dags), dags.next_dag)


def test_every_source_stops() -> None:
    """Nothing is left of a running DAG whose sources all stop, and its id is not used again."""
    dags, split = left(made((1, 2), (3,)), (1, 2), stopped=(1, 2))
    assert (set(), {3: 2}, {}, 3) == (split, dict(dags.of_source), links(dags), dags.next_dag)


def test_sources_joined_through_a_stopped_one_fall_apart() -> None:
    """What only a stopped source held together splits."""
    dags, split = left(made((1, 2, 3)), (1, 2, 3), stopped=(2,))
    assert ({(1, 2)}, {1: 2, 3: 1}, {}) == (split, dict(dags.of_source), links(dags))


def test_sources_joined_through_a_stopped_one_and_otherwise() -> None:
    """What others hold together as well does not split when the source between stops."""
    dags, split = left(made((1, 3), (1, 2, 3)), (1, 2, 3), stopped=(2,))
    assert (set(), {1: 1, 3: 1}, {1: {3: 1}, 3: {1: 1}}) == (split, dict(dags.of_source), links(dags))


def test_one_removal_splits_several_times() -> None:
    """A part that held three sides together names each split, and each side gets an id of its own."""
    dags, split = left(made((1, 2, 3)), (1, 2, 3))
    assert {(1, 2), (1, 3)} == split
    assert ({1: 2, 2: 3, 3: 1}, 4) == (dict(dags.of_source), dags.next_dag)


def test_each_part_of_a_removal_counts() -> None:
    """All parts of a removed dataflow take their links back."""
    dags, split = left(made((1, 2), (3, 4)), (1, 2), (3, 4))
    assert {(1, 3), (2, 4)} == split
    assert ({1: 3, 2: 1, 3: 4, 4: 2}, {}) == (dict(dags.of_source), links(dags))
