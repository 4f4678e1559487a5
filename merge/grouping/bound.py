"""The bound: what no grouping of a problem costs less than, from small models that leave much out.

The work that needs the same images needs so many groups, whatever these hold. And each connected part of a problem
needs so many bridges by itself, whatever its groups share with others: where no image can run all of it, or it is too
much for one group.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import networkx as nx
from ortools.sat.python import cp_model

from merge.grouping.effort import SearchAllowance
from merge.grouping.exact.solver import new_solver, solved
from merge.grouping.layout import NANOCORES, ROOM, NodeLayout, PortFlow

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
        volumes[layout.may[node]] += _volume(layout, node)
    everything = sum(volumes.values())
    counts, hosts = [model.new_int_var(0, layout.count, "") for _ in layout.images], []
    joined = [0] * len(layout.images)
    """The room in groups that run anyway."""
    owners = set(layout.owner[: layout.count]) - {""}
    staying = list(filter(layout.stays, range(layout.count, layout.nodes)))
    for node in staying:
        joined[next(layout.images_in(layout.may[node]))] += max(0, layout.most_work - layout.work[node])
    model.add(sum(counts) >= len(owners) - len(staying))
    loads: list[list[cp_model.IntVar]] = [[] for _ in layout.images]
    for mask, volume in sorted(volumes.items()):
        shares = {image: model.new_int_var(0, volume, "") for image in layout.images_in(mask)}
        model.add(sum(shares.values()) == volume)
        if not any(layout.may[node] & mask for node in staying):
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
    """How many bridges a part has at least."""
    inside = set(part)
    volume = sum(_volume(layout, node) for node in part)
    by_work = max(0, -(-volume // layout.most_work) - 1)
    mask = (1 << len(layout.images)) - 1
    for node in part:
        mask &= layout.may[node]
    if mask:
        return by_work
    model = cp_model.CpModel()
    on = {node: {image: model.new_bool_var("") for image in layout.images_in(layout.may[node])} for node in part}
    for literals in on.values():
        model.add_exactly_one(literals.values())
    flows = [flow for flow in layout.flows if flow.parent in inside and not flow.raw]
    return max(by_work, _least(model, sum(each for flow in flows for each in _bridges(model, flow, on)), allowance))


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
