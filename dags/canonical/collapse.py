"""Pass: make one task of equivalent ones, and put the tasks in canonical order."""

from collections import Counter, defaultdict

import networkx as nx

from dags.canonical.draft import Accepted
from dags.dataflow import Dataflow, Input, Key, Task


def collapse(accepted: Accepted) -> Dataflow:
    """Make one task of those with equal keys. Streams that become one are counted as its multiplicity.

    It needs the tags of them all.

    >>> flow = collapse(sign(settle_scopes(accepted("s:source > a:map > k:sink s > b:map > k"))))
    >>> flow.places
    {'a': 1, 'b': 1, 'k': 2, 's': 0}
    >>> flow.tasks[2].inputs
    (Input(port='in', parent=1, parent_port='out', times=2),)
    """
    keys = [Key(*pair) for pair in zip(accepted.signatures, accepted.scopes, strict=True)]
    depths: dict[Key, int] = {}
    first: dict[Key, int] = {}
    tags: defaultdict[Key, frozenset[str]] = defaultdict(frozenset)
    for i in accepted.order:
        depths[keys[i]] = 1 + max((depths[keys[wire.origin]] for wire in accepted.inputs[i]), default=0)
        first.setdefault(keys[i], i)
        tags[keys[i]] |= accepted.types[i].tags | accepted.tags[i]
    # Scopes within a dataflow differ by task id only. So this order depends on nothing but the computation and, among
    # tasks that may not be shared, their ids.
    ordered = sorted(first, key=lambda key: (depths[key], key.signature, key.scope or ("", "")))
    position = {key: place for place, key in enumerate(ordered)}
    tasks = tuple(
        Task(
            key=key,
            text=accepted.texts[first[key]],
            type=accepted.types[first[key]],
            json_fields=accepted.json_fields.get(first[key], ()),
            schemas=accepted.schemas.get(first[key], {}),
            keeping=accepted.keepings[first[key]],
            tags=tags[key],
            inputs=tuple(
                Input(*edge, count)
                for edge, count in sorted(
                    Counter(
                        (wire.to_port, position[keys[wire.origin]], wire.from_port)
                        for wire in accepted.inputs[first[key]]
                    ).items()
                )
            ),
        )
        for key in ordered
    )
    places = sorted((name, position[key]) for name, key in zip(accepted.ids, keys, strict=True))
    return Dataflow(
        id=accepted.dataflow,
        tenant=accepted.tenant,
        name=accepted.name,
        tasks=tasks,
        places=dict(places),
        sinks=tuple(name for name, place in places if tasks[place].type.is_sink),
        parts=_parts(tasks),
    )


def _parts(tasks: tuple[Task, ...]) -> tuple[tuple[int, ...], ...]:
    """The sources of each connected part."""
    streams: nx.Graph[int] = nx.Graph()
    streams.add_nodes_from(range(len(tasks)))
    streams.add_edges_from((task_input.parent, i) for i, task in enumerate(tasks) for task_input in task.inputs)
    return tuple(
        sorted(tuple(sorted(i for i in part if tasks[i].type.is_source)) for part in nx.connected_components(streams))
    )
