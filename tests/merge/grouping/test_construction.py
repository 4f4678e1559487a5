"""Groups made from nothing, by examples whose order of joining is worked out by hand."""

from collections.abc import Mapping, Sequence

import pytest

from merge.grouping import Image, PresentGroup
from merge.grouping.construction import clustered, connected, filled, packed
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.problem import SearchAllowance
from tests.merge.grouping.problems import PLAIN, problem_of

GPU = Image(name="gpu", tags=frozenset({"gpu"}), cores=1.0)
STAYS = PresentGroup(id="job", image="plain", tasks=frozenset({"s"}), work=0.1)


def blocks(partition: Partition) -> list[list[int]]:
    """The groups of a partition, by their nodes."""
    return sorted(map(sorted, partition.members.values()))


@pytest.mark.parametrize(
    ("works", "groups"),
    [
        pytest.param([0.1, 0.2, 0.3], [[0, 2], [1]], id="the fullest takes what it has room for"),
        pytest.param([0.1, 0.1, 0.3], [[0, 2], [1]], id="of equals the first"),
        pytest.param([0.2, 0.2, 0.2], [[0, 1], [2]], id="the first of equals takes the second"),
        pytest.param([0.1, 0.1, 0.1, 0.1, 0.4], [[0, 1, 2, 3], [4]], id="one that is full is passed over"),
    ],
)
def test_the_fullest_groups_are_joined_first(works: Sequence[float], groups: Sequence[Sequence[int]]) -> None:
    """Without streams the fullest group takes the fullest that fits it, and then the next."""
    assert groups == blocks(connected(NodeLayout(problem_of(works))))


def test_images_are_filled_up_to_their_limits() -> None:
    """What only one image can run has room there, because what another can run as well is not put there first."""
    small = Image(name="a", tags=frozenset({"gpu"}), cores=0.35, most=1)
    partition = filled(NodeLayout(problem_of([0.1] * 4, images=(small, PLAIN), tags={0: "gpu"})))
    assert [[0], [1, 2, 3]] == blocks(partition)
    assert [200_000_000, 400_000_000] == partition.load


def test_filling_takes_off_what_it_looks_at() -> None:
    """Also at tasks that do not fit beside the first; once nothing is left all others stay alone."""
    owners = {at: "bob" if at else "ann" for at in range(40)}
    layout = NodeLayout(problem_of([0.0] * 40, images=(PLAIN,), owners=owners))
    assert [[0], [*range(1, 40)]] == blocks(filled(layout, SearchAllowance(1.0)))
    # Forty tasks come next, and forty are looked at.
    for steps, groups in ((70, 40), (90, 2)):
        assert groups == len(filled(layout, SearchAllowance(steps / 1e6)).members)


def test_streams_decide_before_work() -> None:
    """What streams join is one group first, also where another would be fuller."""
    assert [[0, 1], [2]] == blocks(connected(NodeLayout(problem_of([0.1, 0.2, 0.3], [(0, 1)]))))


def test_clusters_are_a_part_of_the_capacity() -> None:
    """A line of four is two clusters of half a group, and what stays is none of them."""
    problem = problem_of([0.1] * 4, [("s", 0), (0, 1), (1, 2), (2, 3)], images=(PLAIN,), present=(STAYS,))
    assert [[0, 1], [2, 3], [4]] == blocks(clustered(NodeLayout(problem), 0.5))
    assert [[0], [1], [2], [3], [4]] == blocks(clustered(NodeLayout(problem), 0.4))
    assert [[0, 1, 2, 3], [4]] == blocks(clustered(NodeLayout(problem), 1.0))


@pytest.mark.parametrize(
    ("pairs", "tags", "groups"),
    [
        pytest.param([], {}, [[0, 2], [1]], id="the fullest group"),
        pytest.param([(1, 0)], {}, [[0, 1], [2]], id="one that feeds it"),
        pytest.param([(0, 1)], {}, [[0, 1], [2]], id="one that it feeds"),
        pytest.param([], {2: "gpu"}, [[0, 1], [2]], id="one with as many images"),
    ],
)
def test_a_cluster_is_packed_where_it_fits_best(
    pairs: Sequence[tuple[int, int]], tags: Mapping[int, str], groups: Sequence[Sequence[int]]
) -> None:
    """The smallest of three comes last, and has a choice: streams count first, then images, then work."""
    layout = NodeLayout(problem_of([0.1, 0.2, 0.3], pairs, images=(GPU, PLAIN), tags=tags))
    assert groups == blocks(packed(layout, 0.25, SearchAllowance(1.0)))


def test_what_is_there_is_packed_too() -> None:
    """A cluster joins what stays if it has room; with nothing left of the allowance all stay as they are."""
    problem = problem_of([0.3, 0.1], images=(PLAIN,), present=(STAYS,))
    assert [[0, 2], [1]] == blocks(packed(NodeLayout(problem), 0.25, SearchAllowance(1.0)))
    assert [[0], [1], [2]] == blocks(packed(NodeLayout(problem), 0.25, SearchAllowance(0.0)))
