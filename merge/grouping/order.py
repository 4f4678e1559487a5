"""The order of groups: each after those that feed it."""

from collections.abc import Sequence

import networkx as nx

from merge.grouping.expense import Place, places_of
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Group


def arranged(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups in order; as they are if they wait for each other, which `problems_of` says then."""
    places = places_of(problem, groups)
    named = {places[group.tasks[0]]: group for group in groups if group.tasks}
    graph: nx.DiGraph[Place] = nx.DiGraph()
    graph.add_nodes_from(named)
    graph.add_edges_from(
        (places[each.parent], places[each.child])
        for each in problem.streams
        if places[each.parent] != places[each.child]
    )
    if not nx.is_directed_acyclic_graph(graph):
        return tuple(groups)
    return tuple(named[place] for place in nx.topological_sort(graph) if place in named)
