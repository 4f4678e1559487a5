"""The documents of a workload in each mode: `reuse` as they are, `default` with every task marked as fresh."""

from typing import Any

from workloads.way import Mode
from workloads.workload import Document


def document_in(mode: Mode, document: Document) -> dict[str, Any]:
    """A document as it is submitted in a mode.

    >>> document_in("default", {"version": 1, "tasks": [{"id": "a", "type": "source"}]})["tasks"]
    [{'id': 'a', 'type': 'source', 'fresh': True}]
    """
    if mode == "reuse":
        return dict(document)
    return {**document, "tasks": [{**task, "fresh": True} for task in document["tasks"]]}
