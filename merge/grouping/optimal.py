"""`optimal` and `plan`: the cheapest groups, by CP-SAT, with a bound that proves how near they are to it.

`optimal` begins with the best groups that heuristics found, and ends at once if they cost no more than the bound. Where
these are beyond the limits of images, the solver first looks for any valid groups, or proves that there are none. A
problem that is small enough is solved exactly; in a larger one the solver decides for clusters of tasks. `plan` is what
the service goes by: `optimal` within its time, and `hybrid` where the problem is too large for it.

**The bound** is from small models that leave much out. The work that needs the same images needs so many groups,
whatever these hold. And each connected part of a problem needs so many bridges by itself: where no image can run all of
it, or it is too much for one group.

**A contraction** is a problem whose tasks are the clusters of another one. It leaves out what makes the solver slow and
decides little among few groups: the slowest path, and the price of hosts.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, replace

import networkx as nx
from ortools.sat.python import cp_model

from merge.grouping.construction import clustered
from merge.grouping.improvement import descend
from merge.grouping.layout import NANOCORES, ROOM, NodeLayout, PortFlow
from merge.grouping.partition import NEW, Partition, grouping_of, proof_of_none, score, settle_images, tried_everything
from merge.grouping.problem import GroupedStream, GroupedTask, Grouping, GroupingProblem, SearchAllowance
from merge.grouping.slot_model import SlotModel, new_solver, solved
from merge.grouping.strategies import improved, in_stages

_SECONDS = 0.2
"""How long each model may take; what it has proved by then counts."""
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """What was proved; made by `lower_bound`."""

    cost: int
    """In units, as scores are, so with what bridges cost that are there anyway."""
    groups: int
    """The fewest that are paid for."""


def lower_bound(layout: NodeLayout, allowance: SearchAllowance) -> LowerBound:
    """The bound of a problem; what was not looked at once nothing is left of the allowance counts as nothing."""
    groups, hosts = _fewest_groups(layout, allowance)
    bridges = sum(_fewest_bridges(layout, part, allowance) for part in _parts(layout))
    costs = layout.costs
    busiest = max((layout.work[node] for node in range(layout.count)), default=0)
    slowest = costs.second * (costs.batch * NANOCORES + costs.pace * busiest)
    if bridges:
        slowest = max(slowest, (costs.hop + 2 * costs.second * costs.batch) * NANOCORES)
    # Each group and path is rounded by itself, by one unit at most.
    rounded = int(slowest) - layout.nodes if costs.second else round(slowest)
    streams = bridges * round(costs.bridge * NANOCORES) + max(0, rounded)
    return LowerBound(cost=layout.base + groups * layout.batch + hosts + streams, groups=groups)


def _fewest_groups(layout: NodeLayout, allowance: SearchAllowance) -> tuple[int, int]:
    """How many groups are paid for at least, and what new hosts cost at least."""
    model = cp_model.CpModel()
    volumes: defaultdict[int, int] = defaultdict(int)
    for node in range(layout.count):
        volumes[layout.masks[node]] += _volume(layout, node)
    everything = sum(volumes.values())
    counts, hosts = [model.new_int_var(0, layout.count, "") for _ in layout.images], []
    joined = [0] * len(layout.images)
    """The room in groups that run anyway."""
    owners = set(layout.owner[: layout.count]) - {""}
    staying = range(layout.count, layout.nodes)
    for node in staying:
        joined[next(layout.images_in(layout.masks[node]))] += max(0, layout.most_work - layout.work[node])
    model.add(sum(counts) >= len(owners) - len(staying))
    loads: list[list[cp_model.IntVar]] = [[] for _ in layout.images]
    for mask, volume in sorted(volumes.items()):
        shares = {image: model.new_int_var(0, volume, "") for image in layout.images_in(mask)}
        model.add(sum(shares.values()) == volume)
        if not any(layout.masks[node] & mask for node in staying):
            model.add(sum(counts[image] for image in shares) >= 1)
        for image, share in shares.items():
            loads[image].append(share)
    for image, offered in enumerate(layout.images):
        load = sum(loads[image])
        model.add(load <= layout.most_work * counts[image] + joined[image])
        if price := layout.prices[image]:
            cores = layout.host_cores(image)
            most = -(-(everything + layout.batch * layout.count) // cores)
            more = model.new_int_var(0, most, "")
            hosts.append(price * more)
            model.add(cores * (more + min(most, offered.there)) >= load + layout.batch * counts[image] - ROOM)
    at_least = max(0, -(-(everything - sum(joined)) // layout.most_work))
    # Apart, because each is solved at once and both together are not.
    return max(at_least, _least(model, sum(counts), allowance)), _least(model, sum(hosts), allowance) if hosts else 0


def _volume(layout: NodeLayout, node: int) -> int:
    """What a task takes of a group at least, since its work is rounded up."""
    return max(0, min(layout.work[node], layout.most_work) - 1)


def _least(model: cp_model.CpModel, figure: cp_model.LinearExprT, allowance: SearchAllowance) -> int:
    if allowance.is_spent:
        return 0
    model.minimize(figure)
    solver = new_solver(min(_SECONDS, allowance.seconds))
    solved(model, solver, allowance)
    return max(0, math.ceil(solver.best_objective_bound - _ROUNDING))


def _parts(layout: NodeLayout) -> list[list[int]]:
    """The tasks that streams join which are not raw, and not only over what stays."""
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(layout.count))
    graph.add_edges_from(
        (parent, child) for parent, child, raw in layout.streams if not raw and max(parent, child) < layout.count
    )
    return [sorted(part) for part in nx.connected_components(graph)]


def _fewest_bridges(layout: NodeLayout, part: list[int], allowance: SearchAllowance) -> int:
    inside = set(part)
    volume = sum(_volume(layout, node) for node in part)
    by_work = max(0, -(-volume // layout.most_work) - 1)
    mask = (1 << len(layout.images)) - 1
    for node in part:
        mask &= layout.masks[node]
    if mask:
        return by_work
    model = cp_model.CpModel()
    on = {node: {image: model.new_bool_var("") for image in layout.images_in(layout.masks[node])} for node in part}
    for literals in on.values():
        model.add_exactly_one(literals.values())
    flows = [flow for flow in layout.flows if flow.parent in inside and not flow.raw]
    return max(by_work, _least(model, sum(bridge for flow in flows for bridge in _bridges(model, flow, on)), allowance))


def _bridges(
    model: cp_model.CpModel, flow: PortFlow, on: dict[int, dict[int, cp_model.IntVar]]
) -> list[cp_model.IntVar]:
    """The bridges of a flow: one to each image that takes it and has not its parent."""
    children = [child for child in flow.children if child in on]
    images = sorted(set[int]().union(*(on[child].keys() for child in children)))
    bridges = {image: model.new_bool_var("") for image in images}
    for child in children:
        for image, literal in on[child].items():
            model.add_bool_or([bridges[image], ~literal, on[flow.parent].get(image, False)])
    return list(bridges.values())


class Contraction:
    """A problem of clusters, and of present groups as they are."""

    def __init__(self, clusters: Partition) -> None:
        self._original = layout = clusters.layout
        self._clusters: dict[int | str, list[int]] = {
            group: sorted(nodes) for group, nodes in clusters.members.items() if clusters.anchor(group) is None
        }
        numbers: dict[int, int | str] = {node: f"stays {node}" for node in range(layout.count, layout.nodes)}
        numbers |= {node: group for group, nodes in self._clusters.items() for node in nodes}
        self.layout = NodeLayout(
            GroupingProblem(
                tasks=tuple(self._task(group, nodes) for group, nodes in self._clusters.items()),
                streams=tuple(
                    GroupedStream(parent=numbers[flow.parent], child=numbers[child], port=str(at), raw=flow.raw)
                    for at, flow in enumerate(layout.flows)
                    for child in flow.children
                    if numbers[flow.parent] != numbers[child]
                ),
                images=layout.problem.images,
                costs=replace(layout.costs, hop=0.0, second=0.0, start=0.0, price=0.0),
                present=tuple(
                    replace(group, tasks=frozenset({f"stays {layout.count + at}"}))
                    for at, group in enumerate(layout.present)
                ),
            )
        )

    def _task(self, group: int | str, nodes: list[int]) -> GroupedTask:
        tasks = [self._original.tasks[node] for node in nodes]
        return GroupedTask(
            id=group,
            tags=frozenset[str]().union(*(task.tags for task in tasks)),
            work=sum(self._original.work[node] for node in nodes) / NANOCORES,
            owner=max(task.owner for task in tasks),
        )

    def expanded(self, partition: Partition) -> Partition:
        """A partition of the clusters as one of the tasks."""
        result = Partition(self._original)
        for group, nodes in partition.members.items():
            clusters = [self.layout.tasks[node].id for node in nodes if node < self.layout.count]
            members = [node for cluster in clusters for node in self._clusters[cluster]]
            anchor = partition.anchor(group)
            if members:
                to = NEW if anchor is None else result.group_of[self._original.count + anchor - self.layout.count]
                result.set_image(result.move(members, to), partition.image[group])
        return result


_LARGE_FOR_ANY_VALID = 3000
"""For so many tasks, or clusters of them, times groups the solver takes longer to read a model than there is time."""
_PARTS_TO_TRY = (None, 0.1, 0.2, 0.35)
"""What parts of the capacity clusters have, for which the solver decides where there are too many tasks."""
_FIRST, _LONGER = 0.1, 1.5
"""The part of the time that the first try has, and how much longer each next one may take.

Some tries are very long and others short for the same problem, so it is better to begin anew."""


def any_valid(beyond: Partition, allowance: SearchAllowance) -> Partition | None:
    """Valid groups in place of some that are beyond the limits of images; None if none were found.

    Raises `Ungroupable` if there are none.
    """
    layout = beyond.layout
    if (proved := proof_of_none(layout)) is not None:
        raise proved
    for part in _PARTS_TO_TRY:
        contraction = None if part is None else Contraction(clustered(layout, part))
        over = layout if contraction is None else contraction.layout
        slots = _most_groups(over, len(beyond.members))
        if over.nodes * slots <= _LARGE_FOR_ANY_VALID:
            break
    else:
        return None
    model = SlotModel(over, slots, with_costs=False)
    seconds, seed = _FIRST * allowance.seconds, 1
    while not allowance.is_spent:
        solver = new_solver(min(seconds, allowance.seconds), seed)
        # The relaxation says little of what fits, and takes most of the time.
        solver.parameters.linearization_level = 0
        status = solved(model.solver_model, solver, allowance)
        if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            partition = model.partition(solver)
            return partition if contraction is None else contraction.expanded(partition)
        if status == cp_model.INFEASIBLE:
            # Where works are rounded up by more than limits leave room for, some that fit may be missed.
            if contraction is None and slots >= _most_groups(layout, layout.nodes) and layout.nodes <= ROOM:
                raise tried_everything(layout)
            return None
        seconds, seed = seconds * _LONGER, seed + 1
    return None


def _most_groups(layout: NodeLayout, otherwise: int) -> int:
    """How many groups there may be for the cores that there are; where there are any number of these, so many."""
    limits = [limit for limit in layout.limits if limit is not None]
    if len(limits) < len(layout.limits) or not layout.batch:
        return min(layout.nodes, otherwise)
    return max(1, min(layout.nodes, (sum(limits) - sum(layout.work)) // layout.batch))


_EXACT = 1200
"""For so many tasks times groups the solver decides for tasks."""
_LARGE_FOR_CLUSTERS = 6000
"""For so many clusters times groups it takes longer to read the model than there is time."""
_PART = 0.35
"""What part of the capacity clusters have: with smaller ones less is found in the same time, larger ones fit badly."""


def optimal(problem: GroupingProblem, seconds: float) -> Grouping:
    """The cheapest groups that were found in time, and a bound for cheaper ones."""
    layout, allowance = NodeLayout(problem), SearchAllowance(seconds)
    best = begun(layout, allowance, 0.4)
    proved = lower_bound(layout, allowance)
    bound = proved.cost
    if score(best) > (0, bound) and not allowance.is_spent:
        if layout.nodes * _slots(layout, best) <= _EXACT:
            best, bound = _exact(best, bound, allowance)
        else:
            best = _by_clusters(best, proved, allowance)
    grouping = grouping_of(best)
    return replace(grouping, bound=min(grouping.cost.total, max(0.0, (bound - layout.base) / NANOCORES)))


def begun(layout: NodeLayout, allowance: SearchAllowance, share: float) -> Partition:
    """The groups of heuristics, which have a share of the time.

    Where these are beyond the limits of images, any that the solver finds, improved.
    """
    first = allowance.part(share)
    best = improved(layout, first)
    allowance.back(first)
    if best.overload() and (valid := any_valid(best, allowance)) is not None:
        second = allowance.part(0.3)
        best = in_stages(second, valid)
        allowance.back(second)
    return best


def _exact(best: Partition, bound: int, allowance: SearchAllowance) -> tuple[Partition, int]:
    model = SlotModel(best.layout, _slots(best.layout, best))
    model.solver_model.add(model.cost >= bound)
    model.hint(best)
    solver = new_solver(allowance.seconds)
    status = solved(model.solver_model, solver, allowance)
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        best = min(best, model.partition(solver), key=score)
    return best, score(best)[1] if status == cp_model.OPTIMAL else max(bound, int(solver.best_objective_bound))


def _by_clusters(best: Partition, proved: LowerBound, allowance: SearchAllowance) -> Partition:
    """The best partition, or a better one that has clusters in one piece, improved."""
    contraction = Contraction(clustered(best.layout, _PART))
    fewest = max(1, proved.groups + len(best.layout.present))
    for slots, share in ((fewest, 0.6), (fewest + 1, 1.0)):
        if contraction.layout.nodes * slots > _LARGE_FOR_CLUSTERS or allowance.is_spent:
            return best
        model = SlotModel(contraction.layout, slots)
        part = allowance.part(share)
        solver = new_solver(part.seconds)
        # The relaxation says little of so few groups, and takes most of the time.
        solver.parameters.linearization_level = 0
        if solved(model.solver_model, solver, part) in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            expanded = contraction.expanded(model.partition(solver))
            descend(expanded, part)
            settle_images(expanded)
            best = min(best, expanded, key=score)
        allowance.back(part)
        if score(best)[1] <= proved.cost + best.layout.batch:
            break
    return best


def _slots(layout: NodeLayout, begin: Partition) -> int:
    """How many groups the cheapest grouping may have: no more than are paid for by what the first one costs."""
    over, cost = score(begin)
    if over or not layout.batch:
        return layout.nodes
    return min(layout.nodes, (cost - layout.base) // layout.batch + len(layout.present))


_LARGE = 500
"""From so many tasks on the solver takes longer to read a problem than it has to improve on it."""


def best_plan(problem: GroupingProblem, seconds: float) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    if len(problem.tasks) <= _LARGE:
        return optimal(problem, seconds)
    return grouping_of(begun(NodeLayout(problem), SearchAllowance(seconds), 0.7))
