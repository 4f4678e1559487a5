"""Passes that give tasks their identity: a scope in which each is shared, a signature, and one task of equal ones.

`confine` restricts sharing further, for reasons known at run time. The signature is the digest of a canonical text, so
that equal computations have equal signatures. Tasks with equal keys collapse, and the rest are put in canonical order.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import networkx as nx
import rfc8785

from dags.canonical.draft import Accepted
from dags.dataflow import Dataflow, Input, Key, Scope, Task


def settle_scopes(accepted: Accepted) -> Accepted:
    """Give every task its scope: none if it may be shared, else one that its descendants inherit.

    A task with a history of its own has the scope of that history.

    A task whose parents have different scopes gets its own. If it inherited one of them, two tasks could have equal
    signatures and scopes although one follows the shared and the other the confined twin of the same parent.

    >>> settled = settle_scopes(accepted("s:source > a:map > k:sink s > r:random > b:map > l:sink"))
    >>> dict(zip(settled.ids, settled.scopes))["b"]
    Scope(dataflow='flow', task='r')
    """
    scopes: list[Scope | None] = [None] * len(accepted.ids)
    for i in accepted.order:
        above = {scopes[wire.origin] for wire in accepted.inputs[i]}
        own = accepted.fresh[i] or not accepted.types[i].shareable or len(above) > 1
        inherited = Scope(accepted.dataflow, accepted.ids[i]) if own else next(iter(above), None)
        scopes[i] = accepted.histories.get(accepted.ids[i], inherited)
    return replace(accepted, scopes=tuple(scopes))


def confine(dataflow: Dataflow, scope_of: Callable[[int], Scope | None]) -> Dataflow:
    """Put some shareable tasks of a dataflow into scopes. `scope_of` is given a task's position.

    It is called only for tasks that follow no task in a scope; the others inherit, as in the pass above.
    """
    ids = {place: task for task, place in sorted(dataflow.places.items(), reverse=True)}
    tasks: list[Task] = []
    for at, task in enumerate(dataflow.tasks):
        scope = task.key.scope
        if scope is None:
            above = {tasks[edge.parent].key.scope for edge in task.inputs}
            inherited = Scope(dataflow.id, ids[at]) if len(above) > 1 else next(iter(above), None)
            scope = inherited or scope_of(at)
        tasks.append(task if scope == task.key.scope else replace(task, key=Key(task.key.signature, scope)))
    return replace(dataflow, tasks=tuple(tasks))


SCHEME = "braid-1"
"""The version of the signature scheme; part of every text that is hashed."""


def sign(accepted: Accepted) -> Accepted:
    """Give every task its text and the digest of the text.

    The text is canonical JSON: scheme, type, type version, config, and the multiset of inputs as (port, parent's
    signature, parent's port, count). A source task has its registered source instead of inputs.

    >>> signed = sign(settle_scopes(accepted("s:source > a:map > k:sink")))
    >>> signed.texts[0].decode()
    '["braid-1","source",1,{"source":"weather"},[["ann","weather",{"place":"string","value":"integer"}]]]'
    """
    texts: list[bytes] = [b""] * len(accepted.ids)
    digests: list[bytes] = [b""] * len(accepted.ids)
    heads: dict[str, bytes] = {}
    for i in accepted.order:
        kind = accepted.types[i]
        inputs = Counter((w.to_port, digests[w.origin].hex(), w.from_port) for w in accepted.inputs[i])
        # Lists of texts and counts: json writes those as RFC 8785 wants them, many times faster than rfc8785.
        origins = json.dumps(
            sorted([*edge, count] for edge, count in inputs.items()), ensure_ascii=False, separators=(",", ":")
        ).encode()
        if (source := accepted.registered[i]) is not None:
            origins = rfc8785.dumps([[source.owner, source.name, dict(source.schema.fields.items())]])
        if kind.name not in heads:
            heads[kind.name] = rfc8785.dumps([SCHEME, kind.name, kind.version])[:-1]
        texts[i] = b"%b,%b,%b]" % (heads[kind.name], accepted.config_texts[i], origins)
        digests[i] = sha256(texts[i]).digest()
    return replace(accepted, texts=tuple(texts), signatures=tuple(digests))


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
        outputs=dict(accepted.outputs),
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
