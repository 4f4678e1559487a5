"""Bounds, contractions and answers of the solver, by examples worked out by hand and against all groupings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from merge.grouping import (
    Effort,
    Group,
    GroupedStream,
    GroupingCosts,
    GroupingProblem,
    Image,
    NoGrouping,
    PresentGroup,
    Ungroupable,
    cost_of,
    optimal,
    problems_of,
)
from merge.grouping.construction import clustered
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.optimal import Contraction, any_valid, begun, best_plan, lower_bound
from merge.grouping.partition import Partition, grouping_of, score
from merge.grouping.problem import SearchAllowance
from merge.grouping.strategies import GROUPING_STRATEGIES
from tests.merge.grouping.problems import ALL, COSTS, PLAIN, cheapest, grouping_problems, problem_of

GPU = Image(name="gpu", tags=frozenset({"gpu"}), cores=1.0)
SQL = Image(name="sql", tags=frozenset({"sql"}), cores=1.0)
STAYS = PresentGroup(id="job", image="all", tasks=frozenset({"s"}), work=0.1)


def bound_of(problem: GroupingProblem, seconds: float = 20.0) -> tuple[float, int]:
    """What no grouping costs less than, as a whole and in groups."""
    layout = NodeLayout(problem)
    bound = lower_bound(layout, SearchAllowance(seconds))
    return round((bound.cost - layout.base) / NANOCORES, 6), bound.groups


@pytest.mark.parametrize(
    ("works", "stays", "owners", "groups"),
    [
        pytest.param([], (), {}, 0, id="nothing"),
        pytest.param([0.0], (), {}, 1, id="idle tasks are a group"),
        pytest.param([0.2, 0.2], (), {}, 1, id="what one group holds"),
        pytest.param([0.2, 0.21], (), {}, 2, id="what it does not hold"),
        pytest.param([0.4, 0.4, 0.4], (), {}, 3, id="three full groups"),
        pytest.param([0.9], (), {}, 1, id="a task beyond capacity is one group"),
        pytest.param([0.9, 0.01], (), {}, 2, id="and nothing fits beside it"),
        pytest.param([0.0, 0.0, 0.0], (), {0: "ann", 1: "bob", 2: "ann"}, 2, id="a group for each owner"),
        pytest.param([0.0, 0.0], (0.0,), {0: "ann", 1: "bob"}, 1, id="one of whom may be with what stays"),
        pytest.param([0.0], (0.0,), {}, 0, id="all in what stays"),
        pytest.param([0.3], (0.1,), {}, 0, id="just as much as what stays has room for"),
        pytest.param([0.3, 0.01], (0.1,), {}, 1, id="more than it has room for"),
        pytest.param([0.3, 0.3], (0.1, 0.1), {}, 0, id="in two that stay"),
        pytest.param([0.2], (0.9,), {}, 1, id="what is full has no room"),
    ],
)
def test_the_fewest_groups_are_proved(
    works: Sequence[float], stays: Sequence[float], owners: Mapping[int, str], groups: int
) -> None:
    """So many groups are paid for at least, by work, by owners and by what runs already; they cost a batch each."""
    present = tuple(PresentGroup(id=at, image="all", work=work) for at, work in enumerate(stays))
    assert (round(groups / 10, 6), groups) == bound_of(problem_of(works, owners=owners, present=present))


def test_tasks_of_different_images_need_groups_of_their_own() -> None:
    """Each set of images that work needs has groups, and those of one that stays need none."""
    tags = {0: "gpu", 1: "sql", 2: "gpu"}
    problem = problem_of([0.1, 0.1, 0.4], images=(GPU, SQL, PLAIN), tags=tags)
    assert (0.3, 3) == bound_of(problem)
    joined = replace(problem, present=(PresentGroup(id="job", image="gpu", work=0.3),))
    # There is room for one tenth of the work on gpu.
    assert (0.2, 2) == bound_of(joined)
    assert (0.2, 2) == bound_of(problem_of([0.0, 0.0, 0.0], images=(GPU, SQL, PLAIN), tags=tags))
    idle = problem_of([0.0], images=(GPU, SQL), tags={0: "sql"})
    assert [(0.1, 1), (0.0, 0)] == [
        bound_of(replace(idle, present=(PresentGroup(id="job", image=image),))) for image in ("gpu", "sql")
    ]


def test_hosts_that_are_not_there_are_in_the_bound() -> None:
    """Work and batches need so many hosts, of which those that are there cost nothing."""
    costs = replace(COSTS, price=0.01)
    image = Image(name="dear", tags=frozenset(), cores=0.5, price=2.0, there=1)
    problem = problem_of([0.4, 0.4, 0.4], images=(image,), costs=costs)
    assert (0.34, 3) == bound_of(problem)
    assert (0.36, 3) == bound_of(replace(problem, images=(replace(image, there=0),)))
    assert (0.3, 3) == bound_of(replace(problem, images=(replace(image, there=5),)))
    free = replace(problem, images=(replace(image, there=0), PLAIN))
    assert (0.3, 3) == bound_of(free)


@pytest.mark.parametrize(
    ("tags", "pairs", "bridges"),
    [
        pytest.param({}, [(0, 1), (1, 2)], 0, id="one image runs all"),
        pytest.param({0: "gpu", 1: "sql"}, [(0, 1)], 1, id="two that exclude each other"),
        pytest.param({0: "gpu", 1: "sql"}, [], 0, id="without a stream"),
        pytest.param({0: "gpu", 2: "sql"}, [(0, 1), (1, 2)], 1, id="one between may be with either"),
        pytest.param({0: "gpu", 1: "sql", 2: "sql"}, [(0, 1), (0, 2)], 1, id="one port to one image"),
        pytest.param({0: "gpu", 1: "sql", 2: "gpu"}, [(0, 1), (1, 2)], 2, id="there and back"),
        pytest.param({0: "gpu", 1: "sql", 2: "gpu", 3: "sql"}, [(0, 1), (2, 3)], 2, id="two parts"),
    ],
)
def test_the_fewest_bridges_are_proved(tags: Mapping[int, str], pairs: Sequence[tuple[int, int]], bridges: int) -> None:
    """Where no image can run a connected part, it needs so many bridges; each part needs its own."""
    problem = problem_of([0.0] * 4, pairs, images=(GPU, SQL), tags=tags, costs=replace(COSTS, batch=0.0))
    assert (round(bridges / 100, 6), bound_of(problem)[1]) == bound_of(problem)
    raw = replace(problem, streams=tuple(replace(stream, raw=True) for stream in problem.streams))
    assert 0.0 == bound_of(raw)[0]


def test_a_part_beyond_capacity_needs_bridges() -> None:
    """Work that fills more than two groups needs two bridges where streams join it, also if other tasks are apart."""
    problem = problem_of([0.3, 0.3, 0.3, 0.0], [(0, 1), (1, 2)])
    assert (0.32, 3) == bound_of(problem)
    assert (0.2, 2) == bound_of(problem_of([0.2, 0.2, 0.2], []))
    # Streams over what stays do not join what they lead to.
    over = problem_of([0.3, 0.3], [(0, "s"), ("s", 1)], present=(replace(STAYS, work=0.4),))
    assert (0.2, 2) == bound_of(over)


def test_the_slowest_path_is_in_the_bound() -> None:
    """The busiest task takes a batch, and where a bridge is needed the path has a hop and two batches."""
    costs = replace(COSTS, second=0.5, hop=0.02, pace=2.0, batch=0.2)
    # A batch of 0.2 seconds, and 2 seconds for each core of work.
    assert (0.1 + 0.5 * (0.2 + 2 * 0.3), 1) == bound_of(problem_of([0.3, 0.1], [(0, 1)], costs=costs))
    tags = {0: "gpu", 1: "sql"}
    apart = problem_of([0.0, 0.05], [(0, 1)], images=(GPU, SQL), tags=tags, costs=costs)
    assert (round(0.2 + 0.01 + 0.02 + 0.5 * 0.4, 6), 2) == bound_of(apart)
    busy = problem_of([0.0, 0.35], [(0, 1)], images=(GPU, SQL), tags=tags, costs=costs)
    assert (round(0.2 + 0.01 + 0.5 * (0.2 + 0.7), 6), 2) == bound_of(busy)
    hop = problem_of([0.0, 0.05], [(0, 1)], images=(GPU, SQL), tags=tags, costs=replace(costs, second=0.0))
    assert (0.23, 2) == bound_of(hop)


def test_what_is_not_looked_at_counts_as_nothing() -> None:
    """With nothing left of the allowance the bound is what needs no solver."""
    problem = problem_of([0.3, 0.3, 0.3], [(0, 1)], images=(GPU, SQL), tags={0: "gpu", 1: "sql"})
    assert (0.31, 3) == bound_of(problem, 0.0)


@settings(max_examples=20)
@given(grouping_problems(most_tasks=4))
def test_the_bound_in_groups_is_below_all_groupings(problem: GroupingProblem) -> None:
    """No cheapest grouping has fewer new groups than were proved to be needed."""
    layout = NodeLayout(problem)
    bound = lower_bound(layout, SearchAllowance(20.0))
    answer = GROUPING_STRATEGIES["optimal"](problem, Effort(seconds=20.0))
    assert bound.groups <= sum(group.present is None for group in answer.groups)
    assert bound.cost >= layout.base


def test_a_contraction_has_clusters_for_tasks() -> None:
    """A cluster has the tags, work and owner of its tasks, and a stream for each port that leads out of it."""
    costs = GroupingCosts(pace=1.0, batch=0.1, bridge=0.01, hop=1.0, second=1.0, start=1.0, price=1.0)
    problem = problem_of(
        [0.1, 0.2, 0.3, 0.0],
        [("s", 0), (0, 1), (1, 2), (0, 2), (2, 3)],
        present=(STAYS,),
        tags={0: "gpu", 1: "sql"},
        owners={1: "ann"},
        costs=costs,
    )
    raw = GroupedStream(parent=1, child=3, port="raw", raw=True)
    layout = NodeLayout(replace(problem, streams=(*problem.streams, raw)))
    clusters = Partition(layout)
    first = clusters.move([0, 1], 0)
    contraction = Contraction(clusters)
    contracted = contraction.layout
    assert {(0, frozenset({"gpu", "sql"}), 0.3, "ann"), (2, frozenset(), 0.3, ""), (3, frozenset(), 0.0, "")} == {
        (task.id, task.tags, task.work, task.owner) for task in contracted.tasks
    }
    streams = [(stream.parent, stream.child, stream.raw) for stream in contracted.problem.streams]
    assert Counter([("stays 4", 0, False), (0, 2, False), (0, 2, False), (0, 3, True), (2, 3, False)]) == Counter(
        streams
    )
    # What left two tasks of a cluster stays two bridges.
    assert 5 == len({(stream.parent, stream.port) for stream in contracted.problem.streams})
    assert GroupingCosts(pace=1.0, batch=0.1, bridge=0.01) == contracted.costs
    assert (replace(STAYS, tasks=frozenset({"stays 4"})),) == contracted.present
    assert layout.problem.images == contracted.problem.images
    assert 0 == first


def test_clusters_are_expanded_to_their_tasks() -> None:
    """Groups of clusters are groups of all their tasks, on the same images, and in what is there if they were."""
    stays = replace(STAYS, image="plain")
    other = replace(STAYS, id="other", tasks=frozenset())
    problem = problem_of([0.1, 0.1, 0.1, 0.1, 0.0], [(0, 1)], images=(ALL, PLAIN), present=(stays, other))
    clusters = Partition(NodeLayout(problem))
    clusters.move([0, 1], 0)
    contraction = Contraction(clusters)
    partition = Partition(contraction.layout)
    # The nodes of the contraction are 0 and 1, 2, 3, 4, and what stays.
    partition.move([1], 0)
    partition.set_image(0, 1)
    partition.move([2], partition.group_of[4])
    expanded = contraction.expanded(partition)
    assert (
        Group(image="plain", tasks=(0, 1, 2)),
        Group(image="plain", tasks=(3,), present="job"),
        Group(image="all", tasks=(4,)),
    ) == grouping_of(expanded).groups
    assert (2, 0) == (expanded.paid, expanded.bridges)
    partition.move([3], partition.group_of[5])
    assert ("job", "other") == tuple(
        group.present for group in grouping_of(contraction.expanded(partition)).groups if group.present
    )


@settings(max_examples=20)
@given(grouping_problems(most_tasks=6))
def test_clusters_alone_are_the_clusters(problem: GroupingProblem) -> None:
    """Expanded without any move a contraction is what it was made of, with as many bridges."""
    clusters = clustered(NodeLayout(problem), 0.5)
    contraction = Contraction(clusters)
    alone = Partition(contraction.layout)
    expanded = contraction.expanded(alone)
    assert sorted(map(sorted, clusters.members.values())) == sorted(map(sorted, expanded.members.values()))
    assert alone.bridges == clusters.bridges == expanded.bridges
    assert alone.load == expanded.load


@pytest.mark.parametrize(
    ("cores", "batch", "groups"),
    [
        pytest.param((1.0, 1.0), 0.1, 4, id="no more than nodes"),
        pytest.param((0.4, 0.35), 0.1, 3, id="as many batches as the cores leave"),
        pytest.param((0.2, 0.1), 0.1, 1, id="one at least"),
        pytest.param((0.4, None), 0.1, 2, id="with any number of hosts as many as asked for"),
        pytest.param((0.4, 0.3), 0.0, 2, id="and where batches cost nothing"),
    ],
)
def test_there_are_no_more_groups_than_cores(cores: Sequence[float | None], batch: float, groups: int) -> None:
    """What all limits leave beside the work is for batches."""
    images = tuple(
        Image(name=str(at), tags=frozenset(), cores=limit or 1.0, most=None if limit is None else 1)
        for at, limit in enumerate(cores)
    )
    problem = problem_of([0.1] * 4, images=images, costs=replace(COSTS, batch=batch))
    assert groups == optimal._most_groups(NodeLayout(problem), 2)


def test_no_more_groups_are_tried_than_are_paid_for() -> None:
    """What the first groups cost is worth so many batches, beside what is there; without such a limit any number."""
    line = problem_of([0.1] * 4, [(0, 1), (1, 2), (2, 3)])
    stays = (
        PresentGroup(id=1, image="all", tasks=frozenset({"s"})),
        PresentGroup(id=2, image="all", tasks=frozenset({"t"})),
    )
    over = GroupedStream(parent="s", child="t")

    def slots(problem: GroupingProblem) -> int:
        partition = Partition(NodeLayout(problem))
        partition.move([0, 1], 0)
        partition.move([2, 3], 2)
        return optimal._slots(partition.layout, partition)

    assert 2 == slots(line)
    assert 3 == slots(replace(line, costs=replace(COSTS, bridge=0.1)))
    assert 4 == slots(replace(line, costs=replace(COSTS, batch=0.0)))
    assert 4 == slots(replace(line, images=(replace(ALL, cores=0.3, most=1),)))
    dear = replace(COSTS, bridge=0.05)
    assert 4 == slots(replace(line, present=stays, streams=(*line.streams, over), costs=dear))


ONLY = Image(name="only", tags=frozenset(), cores=0.95, most=1)


def alone(problem: GroupingProblem) -> Partition:
    """Every task in a group of its own."""
    return Partition(NodeLayout(problem))


def blocks(partition: Partition | None) -> list[list[int]] | None:
    """The groups of a partition, by their nodes."""
    return None if partition is None else sorted(map(sorted, partition.members.values()))


def test_valid_groups_are_looked_for_where_others_are_beyond_limits() -> None:
    """Two tasks that have cores for one batch are one group, and with no time left none are found."""
    problem = problem_of([0.2, 0.2], images=(replace(ONLY, cores=0.5),))
    assert [[0, 1]] == blocks(any_valid(alone(problem), SearchAllowance(20.0)))
    assert any_valid(alone(problem), SearchAllowance(0.0)) is None


def test_that_there_are_no_valid_groups_is_proved() -> None:
    """By the cores of the fewest groups, or by trying all; three tasks of more than half a group are three groups."""
    few = problem_of([0.2, 0.2], images=(replace(ONLY, cores=0.4),))
    with pytest.raises(Ungroupable, match=r"'only' have 0\.4 cores and 0\.5 are needed"):
        any_valid(alone(few), SearchAllowance(20.0))
    halves = problem_of([0.25, 0.25, 0.25], images=(ONLY,))
    with pytest.raises(Ungroupable) as refused:
        any_valid(alone(halves), SearchAllowance(20.0))
    assert (
        "no image can run task 0: of all ways to divide the tasks, none fits the cores of 'only'; let one of these "
        "images have more hosts"
    ) == str(refused.value)
    with pytest.raises(Ungroupable, match="of all ways to divide the tasks"):
        optimal.optimal(halves, 20.0)
    roomy = replace(halves, images=(replace(ONLY, cores=1.05),))
    assert [[0], [1], [2]] == blocks(any_valid(alone(roomy), SearchAllowance(20.0)))


def test_what_is_too_large_is_looked_for_by_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver decides for clusters where tasks are too many, for nothing where these are, and proves nothing."""
    problem = problem_of([0.02] * 4, [(0, 1), (2, 3)], images=(replace(ONLY, cores=0.28),))
    monkeypatch.setattr(optimal, "_LARGE_FOR_ANY_VALID", 3)
    assert any_valid(alone(problem), SearchAllowance(20.0)) is None
    monkeypatch.setattr(optimal, "_LARGE_FOR_ANY_VALID", 4)
    result = any_valid(alone(problem), SearchAllowance(20.0))
    assert result is not None
    assert result.layout.nodes == 4
    assert blocks(result) in ([[0, 1], [2, 3]], [[0, 1, 2, 3]])
    monkeypatch.setattr(optimal, "_PARTS_TO_TRY", (0.5,))
    monkeypatch.setattr(optimal, "_LARGE_FOR_ANY_VALID", 9)
    assert any_valid(alone(problem_of([0.25, 0.25, 0.25], images=(ONLY,))), SearchAllowance(20.0)) is None


def test_beginnings_have_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What heuristics leave goes back, and valid groups in place of theirs are improved with a part of the rest."""
    problem = problem_of([0.2, 0.2], images=(replace(ONLY, cores=0.5),))
    beyond, valid = alone(problem), alone(problem)
    valid.move([0], 1)
    shares = []

    def improved(_: NodeLayout, allowance: SearchAllowance) -> Partition:
        shares.append(allowance.seconds)
        allowance.seconds -= 1.0
        return beyond

    def in_stages(allowance: SearchAllowance, partition: Partition) -> Partition:
        assert [[0, 1]] == blocks(partition)
        shares.append(allowance.seconds)
        allowance.seconds -= 2.0
        return valid

    monkeypatch.setattr(optimal, "improved", improved)
    monkeypatch.setattr(optimal, "in_stages", in_stages)
    monkeypatch.setattr(optimal, "any_valid", lambda _beyond, _allowance: valid)
    allowance = SearchAllowance(21.0)
    assert begun(beyond.layout, allowance, 0.4) is valid
    assert [pytest.approx(8.4), pytest.approx(6.0)] == shares
    assert pytest.approx(18.0) == allowance.seconds
    monkeypatch.setattr(optimal, "any_valid", lambda _beyond, _allowance: None)
    assert begun(beyond.layout, allowance, 0.4) is beyond
    assert pytest.approx(17.0) == allowance.seconds
    monkeypatch.setattr(optimal, "improved", lambda _layout, _allowance: valid)
    assert begun(beyond.layout, allowance, 0.4) is valid
    assert 3 == len(shares)


def test_the_solver_makes_the_cheapest_of_dear_groups() -> None:
    """From tasks alone it comes to all in one, and proves that; with no time it leaves them, and the bound."""
    begin = alone(problem_of([0.1, 0.1, 0.1], [(0, 1), (1, 2)]))
    best, bound = optimal._exact(begin, 0, SearchAllowance(20.0))
    assert [[0, 1, 2]] == blocks(best)
    assert 100_000_000 == bound == score(best)[1]
    kept, unproved = optimal._exact(begin, 70_000_000, SearchAllowance(1e-9))
    assert kept is begin
    assert 70_000_000 == unproved
    cheap, proved = optimal._exact(best, 0, SearchAllowance(20.0))
    assert (100_000_000, 100_000_000) == (score(cheap)[1], proved)


def test_the_solver_knows_what_batches_of_idle_tasks_take() -> None:
    """The slowest path has a hop and two batches, of half a second's worth each, if two images are needed."""
    costs = replace(COSTS, hop=0.02, second=0.5, pace=2.0, batch=0.2)
    begin = alone(problem_of([0.0] * 3, [(0, 1), (1, 2)], images=(GPU, SQL), tags={0: "gpu", 2: "sql"}, costs=costs))
    best, bound = optimal._exact(begin, 0, SearchAllowance(20.0))
    assert 2 == len(best.members)
    assert round((2 * 0.1 + 0.01 + 0.02 + 2 * 0.5 * 0.2) * NANOCORES) == score(best)[1] == bound


@pytest.mark.parametrize(
    ("works", "pairs", "groups"),
    [
        pytest.param([0.05] * 6, [(at, at + 1) for at in range(5)], 1, id="a line"),
        pytest.param([0.25, 0.25, 0.25, 0.1, 0.1], [], 3, id="as few groups as work needs"),
        pytest.param([0.25, 0.25, 0.25, 0.0], [], 3, id="one more than work needs"),
    ],
)
def test_clusters_make_cheaper_groups(works: Sequence[float], pairs: Sequence[tuple[int, int]], groups: int) -> None:
    """From tasks alone, clusters come to the fewest groups, in as many as are proved to be needed or one more."""
    begin = alone(problem_of(works, pairs))
    proved = lower_bound(begin.layout, SearchAllowance(20.0))
    best = optimal._by_clusters(begin, proved, SearchAllowance(20.0))
    assert (0, groups * 100_000_000) == score(best)
    assert begin.layout is best.layout


def test_clusters_join_what_is_there() -> None:
    """What stays needs a slot of its own, and takes what it has room for."""
    begin = alone(problem_of([0.25, 0.25], [("s", 0)], present=(STAYS,)))
    proved = lower_bound(begin.layout, SearchAllowance(20.0))
    best = optimal._by_clusters(begin, proved, SearchAllowance(20.0))
    assert [[0, 2], [1]] == blocks(best)


def test_too_many_clusters_leave_groups_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """So does no time, and what clusters make dearer is not taken."""
    begin = alone(problem_of([0.1, 0.1], [(0, 1)]))
    proved = lower_bound(begin.layout, SearchAllowance(20.0))
    assert optimal._by_clusters(begin, proved, SearchAllowance(0.0)) is begin
    best = alone(begin.layout.problem)
    best.move([0], 1)
    assert [[0, 1]] == blocks(optimal._by_clusters(best, proved, SearchAllowance(20.0)))
    monkeypatch.setattr(optimal, "_LARGE_FOR_CLUSTERS", 1)
    assert optimal._by_clusters(begin, proved, SearchAllowance(20.0)) is begin
    monkeypatch.setattr(optimal, "_LARGE_FOR_CLUSTERS", 2)
    assert [[0, 1]] == blocks(optimal._by_clusters(begin, proved, SearchAllowance(20.0)))


def test_the_best_groups_are_obvious() -> None:
    """Images that exclude each other cut two tasks, and the one between them is where two of its streams go."""
    problem = problem_of([0.1, 0.1, 0.1], [(0, 1), (1, 2)], images=(GPU, SQL), tags={0: "gpu", 2: "sql"})
    twice = replace(problem, streams=(*problem.streams, GroupedStream(parent=0, child=1, port="odd")))
    answer = optimal.optimal(twice, 20.0)
    assert (Group(image="gpu", tasks=(0, 1)), Group(image="sql", tasks=(2,))) == answer.groups
    assert pytest.approx((0.21, 0.21)) == (answer.cost.total, answer.bound)


def test_what_stays_is_no_part_of_the_bound() -> None:
    """Where all tasks join what is there they cost nothing, which is proved, though bridges are there anyway."""
    other = PresentGroup(id="other", image="all", tasks=frozenset({"t"}))
    problem = problem_of([0.1], [("s", 0), ("s", "t")], present=(STAYS, other))
    answer = optimal.optimal(problem, 20.0)
    assert (Group(image="all", tasks=(0,), present="job"),) == answer.groups
    assert (0.0, 0.0) == (answer.cost.total, answer.bound)


def test_three_halves_are_three_groups() -> None:
    """The solver proves what volume does not; by clusters, or with no time, what volume says is the bound."""
    problem = problem_of([0.25, 0.25, 0.25])
    assert pytest.approx((0.3, 0.3)) == _cost_and_bound(problem, 20.0)
    assert pytest.approx((0.3, 0.2)) == _cost_and_bound(problem, 1e-6)
    for limit, bound in ((9, 0.3), (8, 0.2)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimal, "_EXACT", limit)
            assert pytest.approx((0.3, bound)) == _cost_and_bound(problem, 20.0)


def _cost_and_bound(problem: GroupingProblem, seconds: float) -> tuple[float, float | None]:
    answer = optimal.optimal(problem, seconds)
    assert 3 == len(answer.groups)
    return answer.cost.total, answer.bound


def test_a_large_problem_is_not_for_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many tasks are planned with a bound, and one more without, never dearer than `connection`."""
    problem = problem_of([0.25, 0.25, 0.25], [(0, 1), (1, 2)])
    for limit, has_bound in ((3, True), (2, False)):
        monkeypatch.setattr(optimal, "_LARGE", limit)
        answer = best_plan(problem, 5.0)
        assert has_bound == (answer.bound is not None)
        assert pytest.approx(0.32) == answer.cost.total


@settings(max_examples=15)
@given(grouping_problems(most_tasks=5))
def test_clusters_answer_with_valid_groups(problem: GroupingProblem) -> None:
    """Where the solver decides for clusters the groups are valid, and cost no less than the cheapest and the bound."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "_EXACT", 0)
        try:
            answer = optimal.optimal(problem, 5.0)
        except NoGrouping:
            pytest.fail("there are groups")
    assert () == problems_of(problem, answer.groups)
    assert cost_of(problem, answer.groups) == answer.cost
    assert answer.bound is not None
    assert answer.bound - 1e-4 <= cheapest(problem) <= answer.cost.total + 1e-4
