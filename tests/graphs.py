"""Running graphs as tests look at them: one step ahead with the one before kept, and as networkx has them."""

# networkx's classes take no parameters at run time.
from __future__ import annotations

from dataclasses import replace

import networkx as nx

from merge import Change, Instance, RunningGraph


def applied(running: RunningGraph, change: Change) -> RunningGraph:
    """The next running graph; the given one stays as it is."""
    following = replace(
        running,
        tasks=running.tasks.copy(),
        index=running.index.copy(),
        users={task: users.copy() if isinstance(users, set) else users for task, users in running.users.items()},
        dataflows=running.dataflows.copy(),
    )
    following.advance(change)
    return following


def streams_of(running: RunningGraph) -> nx.MultiDiGraph[Instance]:
    """The running tasks, and the streams between them."""
    graph: nx.MultiDiGraph[Instance] = nx.MultiDiGraph()
    graph.add_nodes_from(running.tasks)
    for instance, task in running.tasks.items():
        for edge in task.inputs:
            ports = (edge.parent_port, edge.port)
            graph.add_edge(Instance(edge.parent), instance, key=ports, times=edge.times)
    return graph
