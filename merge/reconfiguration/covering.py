"""Components of a reconfiguration: the tasks that have to switch in step, so that no source event meets old and new.

This is the scheduler of Fries (Wang et al., VLDB 2022, sections 5 and 6). A source event and all that is made of it are
one transaction. In each component the heads switch when they please and send a marker along the streams within it; any
other task of it switches where the markers of all its inputs within it have arrived.

**The sub-DAG.** It holds the changed tasks, the one-to-many tasks before them that were not pruned, and all tasks on
paths between any of these (Algorithms 1 and 3). The paper adds the earliest one-to-many ancestors only. The later ones
lie between these and the changed tasks, so adding all of them gives the same sub-DAG.

**Pruning** (Algorithm 4). A one-to-many task is no reason to make the sub-DAG larger

- if it emits at most one tuple on each edge, and exactly one of its edges leads to changed tasks. Paths count, not only
  direct edges. A later task that splits this path again is judged by itself;
- if it is unique;
- or if it has a gate: one unique task, itself unchanged, on every path from it to any changed task.

A task that is unique on each edge, such as one whose stream several others read, is unique if exactly one of its edges
leads to changed tasks: no tuple on another edge meets one.

The last rule asks for more than the paper, which wants some unique task on each path to one changed task. Two paths
with different unique tasks may bring two tuples of one transaction to one changed task, or to two in different
components. The unique task must not be the changed one, because that may take two tuples.

**Proven.** No transaction meets old and new. A tuple in a component comes before or after the switch of the task that
takes it. Streams keep their order and markers are awaited, so all that is made of it within the component is on the
same side. No path leaves the sub-DAG and returns. Now let changed tasks take two tuples of one transaction.

- If one is made of the other, the tasks between are in the component: both are on the same side.
- Otherwise they part at a task that emitted several tuples for one. If it is in the sub-DAG, so is all between, and
  both are on the side of the tuple that it took.
- If it is outside, it was pruned. It emitted two tuples for one towards changed tasks, so it is neither unique nor has
  it one edge that carries one tuple: it has a gate. Both tuples were made of tuples that the gate emitted, and not of
  the same one. But a unique task does not emit twice.

In the same way, a transaction meets at most one component, and a head takes at most one tuple of it (lemmas 6.2, 6.3).
That the sub-DAG is the smallest with this property is not proven.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import networkx as nx


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Tasks that switch in step: a weakly connected part of the minimal covering sub-DAG. Made by `components`."""

    scope: frozenset[str]
    heads: frozenset[str]
    """Those without an input from the scope. They start the markers."""


def components(
    streams: Iterable[tuple[str, str]],
    changed: Iterable[str],
    one_to_many: Collection[str] = (),
    per_edge: Collection[str] = (),
    unique: Collection[str] = (),
) -> tuple[Component, ...]:
    """The components of a change of some tasks, ordered by the first name in each.

    Each pair in `streams` is an edge, also where two are equal. Tasks in `one_to_many` may emit several tuples for one.
    A task whose stream several others consume is among them, since each consumer gets every tuple. Those in `per_edge`
    are one-to-many, but emit at most one tuple for one on each edge. Tasks in `unique` emit at most one tuple for each
    source event, over all edges; those of them in `per_edge`, on each edge. All others emit at most one tuple for one,
    over all edges.

    Takes O(V + E), and for the order O(C log C) with C components. Raises ValueError where streams lead in a circle.
    """
    changed = frozenset(changed)
    graph: TopologicalSorter[str] = TopologicalSorter()
    parents: defaultdict[str, list[str]] = defaultdict(list)
    children: defaultdict[str, list[str]] = defaultdict(list)
    for above, below in streams:
        graph.add(below, above)
        parents[below].append(above)
        children[above].append(below)
    try:
        order = tuple(graph.static_order())
    except CycleError as error:
        raise ValueError(f"streams lead in a circle, {' > '.join(error.args[1])}; a dataflow has none") from error

    leading = reached(changed, parents)
    # A tuple on any other edge meets no changed task.
    edges = {task: [child for child in children[task] if child in leading] for task in leading}
    several = leading.intersection(one_to_many).difference(per_edge)
    copying = {task for task in leading.intersection(per_edge) if len(edges[task]) > 1}
    spreading = several | copying
    pruned = _gated(order, changed, edges, frozenset(unique) - copying)
    scope = reached({*changed, *(spreading - pruned)}, edges)
    streams_within: nx.DiGraph[str] = nx.DiGraph()
    streams_within.add_nodes_from(scope)
    streams_within.add_edges_from((task, child) for task in scope for child in edges[task])
    parts = sorted(map(frozenset, nx.weakly_connected_components(streams_within)), key=min)
    return tuple(
        Component(scope=part, heads=frozenset(task for task in part if not streams_within.in_degree(task)))
        for part in parts
    )


def _gated(
    order: Sequence[str], changed: Collection[str], edges: Mapping[str, Collection[str]], unique: AbstractSet[str]
) -> set[str]:
    """The tasks with one unique, unchanged task on all their paths to changed ones. A unique task is its own.

    Each keeps the last such task. Paths from several children share one only if they share the last.
    """
    gates: dict[str, str | None] = {}
    for task in reversed(order):
        if task in edges and task not in changed:
            last = {gates.get(child) for child in edges[task]}
            common = last.pop() if len(last) == 1 else None
            gates[task] = task if common is None and task in unique else common
    return {task for task, gate in gates.items() if gate is not None}


def reached(starts: Iterable[str], edges: Mapping[str, Collection[str]]) -> set[str]:
    """Some tasks, and all to which edges lead from them."""
    seen = set(starts)
    ends = list(seen)
    while ends:
        for following in edges.get(ends.pop(), ()):
            if following not in seen:
                seen.add(following)
                ends.append(following)
    return seen
