"""The builder of documents from tasks by id and the chains that join them."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
Tasks: TypeAlias = Mapping[str, tuple[str, Mapping[str, Any]]]
"""The type and the config of each task."""
_SEVERAL_IN = frozenset({"decision_tree_classify", "error_estimate", "linear_regression_predict"})
_SEVERAL_OUT = frozenset({"join_by_id", "tumbling_window"})


def document(name: str, tasks: Tasks, *chains: str | Iterable[str]) -> Document:
    """A document of tasks and chains of them, such as `a > b > c`; an input port other than `in` follows a colon.

    >>> chain = "s > f", "m > f:average"
    >>> found = document("d", {"s": ("source", {}), "m": ("source", {}), "f": ("error_estimate", {})}, *chain)
    >>> found["streams"][1]
    {'from': 'm', 'to': 'f', 'to_port': 'average'}
    """
    streams: list[dict[str, str]] = []
    for chain in chains:
        for origin, end in pairwise(chain.split(" > ") if isinstance(chain, str) else chain):
            to, _, port = end.partition(":")
            stream = {"from": origin.partition(":")[0], "to": to}
            if tasks[stream["from"]][0] in _SEVERAL_OUT:
                stream["from_port"] = "out"
            if tasks[to][0] in _SEVERAL_IN:
                stream["to_port"] = port or "in"
            if stream not in streams:
                streams.append(stream)
    return {
        "version": 1,
        "name": name,
        "tasks": [{"id": id_, "type": type_, "config": config} for id_, (type_, config) in tasks.items()],
        "streams": streams,
    }
