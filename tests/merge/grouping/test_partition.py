"""What a partition keeps up to date is what its groups are, after any moves; and refusals say what is proved."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge.grouping import (
    Expense,
    Group,
    GroupedStream,
    Grouping,
    GroupingNotFound,
    GroupingProblem,
    Image,
    PresentGroup,
    Ungroupable,
    cost_of,
    problems_of,
)
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.partition import (
    NEW,
    Partition,
    grouping_of,
    latency,
    linear,
    ordered,
    proof_of_none,
    refusal,
    score,
    settle_images,
    tried_everything,
)
from tests.merge.grouping.problems import ALL, COSTS, PLAIN, grouping_problems, problem_of


def partition_of(problem: GroupingProblem, *blocks: Sequence[int]) -> Partition:
    """The tasks cut into these blocks; those in none stay alone."""
    partition = Partition(NodeLayout(problem))
    for block in blocks:
        partition.move(block, NEW)
    return partition


def quotient(partition: Partition, *, with_raw: bool = True) -> "nx.DiGraph[int]":
    """Which groups feed which, straight from the streams."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(partition.group_of)
    for parent, child, raw in partition.layout.streams:
        one, other = partition.group_of[parent], partition.group_of[child]
        if one != other and (with_raw or not raw):
            graph.add_edge(one, other)
    return graph


def figures(partition: Partition) -> dict[str, object]:
    """What a partition keeps, straight from where its nodes and groups are."""
    layout, group_of = partition.layout, partition.group_of
    groups = {group: {node for node in range(layout.nodes) if group_of[node] == group} for group in group_of}
    pairs = {(parent, child) for parent, child, _ in layout.streams if group_of[parent] != group_of[child]}
    after = Counter((group_of[parent], group_of[child]) for parent, child in pairs)
    work = {group: sum(layout.work[node] for node in nodes) for group, nodes in groups.items()}
    return {
        "members": groups,
        "work": work,
        "masks": {
            group: sum(
                1 << at for at in range(len(layout.images)) if all(layout.masks[node] >> at & 1 for node in nodes)
            )
            for group, nodes in groups.items()
        },
        "after": after,
        "before": Counter({(child, parent): count for (parent, child), count in after.items()}),
        "load": [
            sum(work[group] + layout.batch for group in groups if partition.image[group] == image)
            for image in range(len(layout.images))
        ],
        "paid": sum(all(node < layout.count for node in nodes) for nodes in groups.values()),
        "bridges": sum(
            len({group_of[child] for child in flow.children} - {group_of[flow.parent]})
            for flow in layout.flows
            if not flow.raw
        ),
        "anchors": {group_of[node]: node for node in range(layout.count, layout.nodes)},
    }


def kept(partition: Partition) -> dict[str, object]:
    """The same, as the partition keeps it."""
    return {
        "members": partition.members,
        "work": partition.work,
        "masks": {
            group: partition.mask_of(group) & (1 << len(partition.layout.images)) - 1 for group in partition.members
        },
        "after": _flat(partition.after),
        "before": _flat(partition.before),
        "load": partition.load,
        "paid": partition.paid,
        "bridges": partition.bridges,
        "anchors": {group: anchor for group in partition.members if (anchor := partition.anchor(group)) is not None},
    }


def _flat(counts: Mapping[int, Counter[int]]) -> Counter[tuple[int, int]]:
    return Counter({(one, other): count for one, others in counts.items() for other, count in others.items()})


def block(partition: Partition, nodes: Iterable[int]) -> tuple[list[Group], GroupingProblem]:
    """Nodes as a group on each image, and a problem of nothing but these and what images are there."""
    layout, members = partition.layout, sorted(nodes)
    tasks = tuple(layout.tasks[node].id for node in members if node < layout.count)
    anchors = [layout.present[node - layout.count] for node in members if node >= layout.count]
    images = [anchors[0].image] if anchors else [image.name for image in layout.images if image.limit != 0]
    present = anchors[0].id if anchors else None
    kept_tasks = tuple(task for task in layout.tasks if task.id in tasks)
    unlimited = tuple(replace(image, most=None) for image in layout.images)
    problem = replace(layout.problem, tasks=kept_tasks, streams=(), images=unlimited)
    return [Group(image=image, tasks=tasks, present=present) for image in images], problem


def may_be_one(partition: Partition, nodes: Iterable[int]) -> bool:
    """Whether nodes are a valid group on some image, by the definition of what is valid."""
    members = set(nodes)
    if sum(node >= partition.layout.count for node in members) > 1:
        return False
    groups, problem = block(partition, members)
    return any(not group.tasks or not problems_of(problem, [group]) for group in groups)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Partitions after some moves that are possible, whether or not groups wait for each other then."""
    partition = Partition(NodeLayout(draw(grouping_problems(most_tasks=6))))
    tasks = st.integers(0, partition.layout.count - 1)
    for _ in range(draw(st.integers(0, 8))):
        nodes = draw(st.lists(tasks, min_size=1, max_size=3))
        to = partition.group_of[draw(st.integers(0, partition.layout.nodes - 1))]
        if partition.takes(to, nodes):
            partition.move(nodes, to)
        else:
            partition.move(nodes[:1], NEW)
    return partition


@given(partitions())
def test_figures_are_those_of_the_groups(partition: Partition) -> None:
    """After any moves all that is kept is what follows from where nodes are, and images can run their groups."""
    assert figures(partition) == kept(partition)
    assert all(partition.mask_of(group) >> image & 1 for group, image in partition.image.items())
    assert partition.image.keys() == partition.members.keys()
    limits = zip(partition.load, partition.layout.limits, strict=True)
    over = sum(load - limit for load, limit in limits if limit is not None and load > limit)
    assert over == partition.overload()
    assert all(partition.cores(group) == work + partition.layout.batch for group, work in partition.work.items())


@given(partitions(), st.data())
def test_a_group_takes_what_is_valid_with_it(partition: Partition, data: st.DataObject) -> None:
    """Nodes may be in a group if all of it together has no problems by the definition of valid groups."""
    nodes = data.draw(st.sets(st.integers(0, partition.layout.count - 1), min_size=1, max_size=3))
    for group, members in partition.members.items():
        assert may_be_one(partition, members | nodes) == partition.takes(group, nodes)


@given(partitions())
def test_two_groups_may_be_one_where_that_is_valid(partition: Partition) -> None:
    """They are one if the definition has nothing against it, an image has room, and no way leads over a third."""
    graph, layout = quotient(partition), partition.layout
    acyclic = nx.is_directed_acyclic_graph(graph)
    for one, other in permutations(partition.members, 2):
        is_valid = may_be_one(partition, partition.members[one] | partition.members[other])
        assert is_valid == partition.is_one(one, other)
        has_room = not layout.is_limited
        for image in layout.images_in(partition.mask_of(one) & partition.mask_of(other)):
            others = [group for group in partition.members if group not in {one, other}]
            load = sum(partition.cores(group) for group in others if partition.image[group] == image)
            load += partition.work[one] + partition.work[other] + layout.batch
            limit = layout.limits[image]
            has_room |= limit is None or load <= max(limit, partition.load[image])
        if acyclic:
            ways = [*nx.all_simple_paths(graph, one, other), *nx.all_simple_paths(graph, other, one)]
            is_between = any(len(way) > 2 for way in ways)
            assert is_between == partition.is_between(one, other)
            assert (is_valid and has_room and not is_between) == partition.joins(one, other)


@given(partitions())
def test_a_group_on_a_cycle_is_known(partition: Partition) -> None:
    """A group waits for itself if streams lead from it over others back to it."""
    graph = quotient(partition)
    on_cycles = {group for part in nx.strongly_connected_components(graph) if len(part) > 1 for group in part}
    assert on_cycles == {group for group in partition.members if partition.is_on_cycle(group)}


@given(partitions(), st.data())
def test_more_bridges_are_those_after_the_move(partition: Partition, data: st.DataObject) -> None:
    """What a move would add to the bridges is what it adds, whichever nodes move to whichever group."""
    nodes = data.draw(st.sets(st.integers(0, partition.layout.count - 1), min_size=1, max_size=3))
    for group in partition.members:
        if partition.takes(group, nodes):
            other = partition.copy()
            assert group == other.move(nodes, group)
            assert other.bridges - partition.bridges == partition.more_bridges(nodes, group)


@given(partitions())
def test_a_copy_changes_apart(partition: Partition) -> None:
    """A copy is the same, stays right in all moves of its own, and leaves the original as it was."""
    before, groups, images = kept(partition.copy()), partition.group_of.copy(), partition.image.copy()
    copy = partition.copy()
    assert before == kept(partition) == kept(copy)
    for node in range(copy.layout.count):
        copy.move([node], NEW)
    assert copy.layout.nodes == len(copy.members)
    assert figures(copy) == kept(copy)
    assert (before, groups, images) == (kept(partition), partition.group_of, partition.image)
    assert before == figures(partition)


@given(partitions())
def test_the_score_is_the_cost(partition: Partition) -> None:
    """Less what is paid anyway, the score is what the groups cost by the definition, in parts and in whole."""
    if not nx.is_directed_acyclic_graph(quotient(partition)):
        return
    layout = partition.layout
    groups = [
        Group(
            image=layout.images[partition.image[group]].name,
            tasks=tuple(layout.tasks[node].id for node in sorted(nodes) if node < layout.count),
            present=None if (anchor := partition.anchor(group)) is None else layout.present[anchor - layout.count].id,
        )
        for group, nodes in partition.members.items()
        if min(nodes) < layout.count
    ]
    cost = cost_of(layout.problem, groups)
    assert pytest.approx(cost.latency, abs=1e-6) == latency(partition) / NANOCORES
    assert pytest.approx(cost.total - cost.latency, abs=1e-6) == (linear(partition) - layout.base) / NANOCORES
    assert (partition.overload(), linear(partition) + latency(partition)) == score(partition)


@given(partitions())
def test_groups_are_ordered_after_those_that_feed_them(partition: Partition) -> None:
    """Each group is there once, after all that feed it; those on a cycle are not."""
    graph = quotient(partition)
    if nx.is_directed_acyclic_graph(graph):
        order = ordered(partition)
        assert sorted(partition.members) == sorted(order)
        assert all(order.index(one) < order.index(other) for one, other in graph.edges)


@given(partitions())
def test_settled_images_are_the_best_for_each_group(partition: Partition) -> None:
    """No group by itself could be on another image for less overload, or as much and less cost; figures stay right."""
    before = (partition.overload(), linear(partition))
    settle_images(partition)
    assert figures(partition) == kept(partition)
    settled = (partition.overload(), linear(partition))
    assert settled <= before
    for group in partition.members:
        for image in partition.layout.images_in(partition.mask_of(group)):
            other = partition.copy()
            other.set_image(group, image)
            assert settled <= (other.overload(), linear(other))


def test_at_first_every_node_is_alone() -> None:
    """Each node has the first image that can run it, and what stays costs no batch."""
    stays = PresentGroup(id="job", image="plain", tasks=frozenset({"s"}), work=0.2)
    problem = problem_of([0.1, 0.3], [("s", 0), (0, 1)], images=(PLAIN, ALL), present=(stays,), tags={1: "sql"})
    partition = Partition(NodeLayout(problem))
    assert [0, 1, 2] == partition.group_of
    assert {0: 0, 1: 0, 2: 1} == partition.image
    assert [600_000_000, 300_000_000] == partition.load
    assert (2, 2) == (partition.paid, partition.bridges)
    assert [None, None, 2] == [partition.anchor(group) for group in range(3)]
    assert (0, 2 * 100_000_000 + 2 * 10_000_000) == score(partition)


def test_a_new_group_has_the_next_number() -> None:
    """Numbers are not used again, and nodes that are in a group already stay there."""
    partition = partition_of(problem_of([0.1, 0.1, 0.1]), [0, 1])
    assert [3, 3, 2] == partition.group_of
    assert 3 == partition.move([0], 3)
    assert 4 == partition.move([0], NEW)
    assert [4, 3, 2] == partition.group_of
    assert {2: {2}, 3: {1}, 4: {0}} == partition.members


def test_the_larger_group_stays_when_two_join() -> None:
    """What is there already stays, else the group with more nodes, else that with the lower number."""
    stays = PresentGroup(id="job", image="all", tasks=frozenset({"s"}))
    partition = partition_of(problem_of([0.0] * 6, present=(stays,)), [1, 2])
    assert 3 == partition.copy().join(4, 3) == partition.copy().join(3, 4)
    assert 7 == partition.copy().join(0, 7) == partition.copy().join(7, 0)
    assert 6 == partition.copy().join(6, 7) == partition.copy().join(7, 6)
    joined = partition.copy()
    joined.join(7, 6)
    assert {0: {0}, 3: {3}, 4: {4}, 5: {5}, 6: {1, 2, 6}} == joined.members
    assert (6, 7) == (joined.anchor(6), joined.layout.nodes)


def test_two_present_groups_are_never_one() -> None:
    """Both stay, so that neither can take the other, and a way between them is found over a task."""
    first = PresentGroup(id="one", image="all", tasks=frozenset({"s"}))
    second = PresentGroup(id="two", image="all", tasks=frozenset({"t"}))
    partition = Partition(NodeLayout(problem_of([0.0], [("s", 0), (0, "t")], present=(first, second))))
    assert not partition.is_one(1, 2)
    assert partition.is_between(1, 2)
    assert not partition.is_between(0, 2)
    assert partition.is_one(0, 2)


def test_what_bridges_are_there_anyway_is_in_the_score() -> None:
    """A bridge between two groups that stay is counted, and one between tasks of one of them is none."""
    first = PresentGroup(id="one", image="all", tasks=frozenset({"s", "u"}))
    second = PresentGroup(id="two", image="all", tasks=frozenset({"t"}))
    problem = problem_of([0.0], [("s", "t"), ("s", "u"), ("u", 0)], present=(first, second))
    partition = Partition(NodeLayout(problem))
    assert 2 == partition.bridges
    assert 10_000_000 == partition.layout.base
    partition.move([0], 1)
    assert 1 == partition.bridges
    assert Expense() == grouping_of(partition).cost
    # Two tasks of what stays send two streams, whatever their ports are called.
    assert 2 == Partition(NodeLayout(problem_of([0.0], [("s", 0), ("u", 0)], present=(first,)))).bridges


def test_ways_are_looked_for_from_both_ends() -> None:
    """In a line of five groups the way from the first to the last is found after four groups were looked at."""
    partition = partition_of(problem_of([0.0] * 5, [(at, at + 1) for at in range(4)]))
    assert partition.is_between(0, 4)
    assert 4 == partition.looked
    assert not partition.is_between(0, 1)
    assert 4 == partition.looked


def test_the_side_with_fewer_groups_goes_on() -> None:
    """From one with many takers the way is looked for from its end."""
    # 0 feeds 1, 2 and 3; only 1 leads on, over 4 and 5, to 6.
    partition = partition_of(problem_of([0.0] * 7, [(0, 1), (0, 2), (0, 3), (1, 4), (4, 5), (5, 6)]))
    assert partition.is_between(0, 6)
    # 3 ahead and 1 behind, then the same again, until 1 is there.
    assert 2 * (3 + 1) == partition.looked
    partition.looked = 0
    assert not partition.is_between(2, 6)
    assert 0 == partition.looked


@pytest.mark.parametrize(
    ("images", "stays", "chosen"),
    [
        pytest.param(((1.0, 1, 0.0), (1.0, None, 9.0)), 0.5, 1, id="what is within its limit, at any price"),
        pytest.param(((0.2, 1, 0.0), (0.3, 1, 9.0)), 0.0, 1, id="the least beyond its limit"),
        pytest.param(((1.0, None, 2.0), (1.0, None, 1.0)), 0.0, 1, id="the cheapest"),
        pytest.param(((9.0, 1, 0.0), (1.0, None, 1.0)), 0.0, 0, id="the cheapest, if within a limit"),
        pytest.param(((1.0, None, 1.0), (1.0, None, 2.0)), 0.3, 0, id="a host with room for both"),
        pytest.param(((2.0, 1, 0.0), (3.0, 1, 0.0)), 0.0, 1, id="the most room"),
        pytest.param(((9.0, 1, 0.0), (1.0, None, 0.0)), 0.0, 1, id="any number of hosts"),
        pytest.param(((1.0, None, 0.0), (1.0, None, 0.0)), 0.5, 0, id="the first of equals"),
        pytest.param(((2.0, 1, 0.0), (2.0, 1, 0.0)), 0.0, 0, id="the first of equals with limits"),
    ],
)
def test_a_new_group_gets_the_roomiest_image(
    images: Sequence[tuple[float, int | None, float]], stays: float, chosen: int
) -> None:
    """The least overload counts first, then what new hosts cost, then room, then the order of names."""
    offered = tuple(
        Image(name=f"{at}", tags=frozenset(), cores=cores, most=most, price=price)
        for at, (cores, most, price) in enumerate(images)
    )
    present = (PresentGroup(id="job", image="0", work=stays),) if stays else ()
    partition = Partition(
        NodeLayout(problem_of([0.4], images=offered, present=present, costs=replace(COSTS, price=0.1)))
    )
    group = partition.move([0], NEW)
    assert chosen == partition.image[group]


def test_a_group_stays_on_its_image_while_that_has_room() -> None:
    """It moves where its image lacks the cores for what came, or can't run it."""
    small = Image(name="small", tags=frozenset(), cores=0.5, most=1)
    partition = partition_of(problem_of([0.1, 0.3, 0.2, 0.0], images=(ALL, small), tags={3: "gpu"}))
    partition.set_image(1, 1)
    assert 1 == partition.move([0], 1)
    assert 1 == partition.image[1]
    tagged, full = partition.copy(), partition
    tagged.move([3], 1)
    assert 0 == tagged.image[1]
    full.move([2], 1)
    assert 0 == full.image[1]


def test_another_image_takes_the_load_along() -> None:
    """All cores of a group are taken of its image, and of no other."""
    partition = partition_of(problem_of([0.1, 0.3], images=(ALL, PLAIN)))
    assert [600_000_000, 0] == partition.load
    partition.set_image(1, 1)
    assert [200_000_000, 400_000_000] == partition.load
    partition.set_image(1, 1)
    assert [200_000_000, 400_000_000] == partition.load


def test_images_settle_where_hosts_are_cheapest() -> None:
    """Groups fill the host that is there, and go where new ones cost least; ties stay where they are."""
    there = Image(name="there", tags=frozenset(), cores=0.5, price=5.0, there=1)
    cheap = Image(name="cheap", tags=frozenset(), cores=1.0, price=1.0)
    dear = Image(name="dear", tags=frozenset(), cores=0.5, price=5.0)
    costs = replace(COSTS, price=0.1)
    partition = partition_of(problem_of([0.4, 0.4, 0.4], images=(there, cheap, dear), costs=costs))
    for group in range(3):
        partition.set_image(group, 1)
    settle_images(partition)
    # By name the images are cheap, dear, there. The first task has the host that is there, the others a cheap one.
    assert {0: 2, 1: 0, 2: 0} == partition.image
    assert 3 * 100_000_000 + 100_000_000 == linear(partition)


def test_images_without_price_or_limit_stay() -> None:
    """Where all images cost the same nothing is changed."""
    partition = partition_of(problem_of([0.1], images=(ALL, PLAIN)))
    partition.set_image(0, 1)
    settle_images(partition)
    assert {0: 1} == partition.image


def test_groups_come_in_order_with_their_names() -> None:
    """Each after those that feed it, of these the one with the lowest task first, and none that has no task."""
    idle = PresentGroup(id="idle", image="plain", tasks=frozenset({"t"}))
    stays = PresentGroup(id="job", image="plain", tasks=frozenset({"s"}), work=0.1)
    problem = problem_of(
        [0.1, 0.2, 0.0, 0.0], [(3, 0), ("s", 1), (1, 0)], images=(ALL, PLAIN), present=(stays, idle), tags={3: "gpu"}
    )
    partition = partition_of(problem, [0, 2])
    partition.move([1], partition.group_of[5])
    assert Grouping(
        groups=(
            Group(image="plain", tasks=(1,), present="job"),
            Group(image="all", tasks=(3,)),
            Group(image="all", tasks=(0, 2)),
        ),
        cost=Expense(groups=0.2, bridges=0.02),
    ) == grouping_of(partition)


def test_the_slowest_path_has_its_hops_and_batches() -> None:
    """A path of two groups costs a hop and both batches, what is read raw costs no hop, and a free path nothing."""
    costs = replace(COSTS, hop=0.003, second=0.5, pace=2.0, batch=0.1)
    problem = problem_of([0.05, 0.15, 0.1], [(0, 1)], costs=costs)
    partition = Partition(NodeLayout(problem))
    # Batches take 0.2, 0.4 and 0.3 seconds.
    assert round(0.303e9) == latency(partition)
    raw = replace(problem, streams=(GroupedStream(parent=0, child=1, raw=True),))
    assert round(0.2e9) == latency(Partition(NodeLayout(raw)))
    for cheaper, cost in ((replace(costs, second=0.0), 0.003), (replace(costs, hop=0.0), 0.3), (COSTS, 0.0)):
        free = Partition(NodeLayout(replace(problem, costs=cheaper)))
        assert round(cost * NANOCORES) == latency(free)
        assert free.paid * free.layout.batch + round((0.01 + cost) * NANOCORES) == score(free)[1]


SMALL = Image(name="small", tags=frozenset(), cores=0.5, most=1)


def test_what_is_beyond_a_limit_only_as_it_was_tried_is_not_proved() -> None:
    """Both tasks could be one group of just enough cores, so the message says what was tried, and what helps."""
    partition = Partition(NodeLayout(problem_of([0.2, 0.2], images=(SMALL,))))
    refused = refusal(partition)
    assert isinstance(refused, GroupingNotFound)
    assert (
        "no valid groups were found, and it is not proved that there are none: the hosts of image 'small' have 0.5 "
        "cores and 0.6 are needed; let it search for more seconds, take the strategy 'plan', or let the image have "
        "more hosts"
    ) == str(refused)
    with pytest.raises(GroupingNotFound, match=r"'small' have 0\.5 cores and 0\.6 are needed"):
        grouping_of(partition)
    partition.move([0], partition.group_of[1])
    assert 1 == len(grouping_of(partition).groups)


def test_the_image_that_is_beyond_its_limit_is_named() -> None:
    """It is none without a limit, and none that is just full."""
    free = Image(name="a", tags=frozenset(), cores=0.1)
    full = Image(name="b", tags=frozenset(), cores=0.3, most=1)
    problem = problem_of([0.2, 0.2, 0.2, 0.2], images=(free, full, SMALL))
    partition = Partition(NodeLayout(problem))
    for node, image in enumerate((0, 1, 2, 2)):
        partition.set_image(node, image)
    with pytest.raises(GroupingNotFound, match=r"the hosts of image 'small' have 0\.5 cores and 0\.6 are needed"):
        raise refusal(partition)


def test_too_few_cores_for_the_tasks_of_one_image_are_proved() -> None:
    """The busiest task and its tags are to blame, and the message has the cores of the fewest groups."""
    gpu = Image(name="gpu", tags=frozenset({"gpu"}), cores=0.4, most=1)
    problem = problem_of([0.1, 0.2, 0.2, 0.9], images=(gpu, PLAIN), tags={0: "gpu", 1: "gpu", 2: "gpu"})
    proved = proof_of_none(NodeLayout(problem))
    assert proved is not None
    # 0.5 cores of work are two groups, since one takes 0.4.
    assert (
        "no image can run task 1: the hosts of image 'gpu' have 0.4 cores and 0.7 are needed; let the image have more "
        "hosts, or another one offer these tags"
    ) == str(proved)
    assert (1, frozenset({"gpu"})) == (proved.task, proved.tags)
    refused = refusal(Partition(NodeLayout(problem)))
    assert isinstance(refused, Ungroupable)
    assert str(proved) == str(refused)


def test_too_few_cores_of_all_images_together_are_proved() -> None:
    """Each image is enough for the tasks that only it can run, and both together are not for all."""
    gpu = Image(name="gpu", tags=frozenset({"gpu"}), cores=0.4, most=1)
    sql = Image(name="sql", tags=frozenset({"sql"}), cores=0.2, most=2)
    problem = problem_of([0.3, 0.2, 0.2], images=(gpu, sql), tags={0: "gpu", 1: "sql"})
    proved = proof_of_none(NodeLayout(problem))
    assert proved is not None
    # 0.7 cores of work are two groups.
    assert (
        "no image can run task 0: the hosts of images 'gpu' and 'sql' have 0.8 cores and 0.9 are needed; let the image "
        "have more hosts, or another one offer these tags"
    ) == str(proved)
    roomy = replace(problem, images=(gpu, replace(sql, most=3)))
    assert proof_of_none(NodeLayout(roomy)) is None
    free = replace(problem, images=(gpu, replace(sql, most=None)))
    assert proof_of_none(NodeLayout(free)) is None


@pytest.mark.parametrize(
    ("works", "stays", "cores", "needed"),
    [
        pytest.param([0.4], (), 0.5, None, id="just enough"),
        pytest.param([0.4], (), 0.499998, 0.5, id="too little by more than what is rounded"),
        pytest.param([0.4], (), 0.499999, None, id="too little by what is rounded"),
        pytest.param([0.2, 0.2], (), 0.49, 0.5, id="one group"),
        pytest.param([0.2, 0.3], (), 0.65, 0.7, id="two groups"),
        pytest.param([0.9, 0.1], (), 1.1, 1.2, id="a task beyond capacity fills one group"),
        pytest.param([0.0], (), 0.05, 0.1, id="idle tasks need a batch"),
        pytest.param([0.2], (0.2,), 0.45, 0.5, id="what stays has room, and no other batch is needed"),
        pytest.param([0.2, 0.1], (0.2,), 0.65, 0.7, id="what stays has too little room"),
        pytest.param([0.2], (0.2, 0.9), 1.45, 1.5, id="what stays beyond capacity has no room"),
    ],
)
def test_the_fewest_cores_are_proved(
    works: Sequence[float], stays: Sequence[float], cores: float, needed: float | None
) -> None:
    """The cores that are needed are those of all work, and of a batch for each of the fewest groups; both are named."""
    image = Image(name="only", tags=frozenset(), cores=cores, most=1)
    present = tuple(PresentGroup(id=at, image="only", work=work) for at, work in enumerate(stays))
    proved = proof_of_none(NodeLayout(problem_of(works, images=(image,), present=present)))
    said = None if proved is None else str(proved).partition("'only' ")[2].partition("; ")[0]
    assert (None if needed is None else f"have {cores} cores and {needed} are needed") == said


def test_what_stays_is_no_reason_by_itself() -> None:
    """An image that runs more than its limit, and that no task needs, is not in the way."""
    full = Image(name="full", tags=frozenset({"gpu"}), cores=0.1, most=1)
    stays = PresentGroup(id=1, image="full", work=3.0)
    assert proof_of_none(NodeLayout(problem_of([], images=(full,), present=(stays,)))) is None
    assert proof_of_none(NodeLayout(problem_of([0.1], images=(full, PLAIN), present=(stays,)))) is None


def test_trying_everything_names_the_busiest_task_and_all_limits() -> None:
    """Of equally busy ones the first is named, and images without a limit are not."""
    other = Image(name="other", tags=frozenset(), cores=0.5, most=2)
    problem = problem_of([0.1, 0.3, 0.3], images=(SMALL, other, ALL), tags={1: "gpu", 2: "sql"})
    refused = tried_everything(NodeLayout(problem))
    assert (1, frozenset({"gpu"})) == (refused.task, refused.tags)
    assert (
        "no image can run task 1: of all ways to divide the tasks, none fits the cores of 'other', 'small'; let one of "
        "these images have more hosts"
    ) == str(refused)
