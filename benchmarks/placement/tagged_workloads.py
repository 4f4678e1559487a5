"""Workloads whose tasks need tags at random, and the images that offer these."""

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from workloads.workload import Workload

IMAGES: Mapping[str, frozenset[str]] = {"red": frozenset({"t1", "t2"}), "blue": frozenset({"t2", "t3"})}
"""The tags that hosts offer, by the names of their images."""
COMPARED = ("pack", "plan")
_TAGGED = 0.25
_TAGS = ("t1", "t2", "t3")


def tagged(workload: Workload, seed: int, most: int | None = None) -> Workload:
    """The first dataflows of a workload, in which a quarter of the tasks needs a tag."""
    dataflows = {}
    for name, document in islice(workload.dataflows.items(), most):
        draw = random.Random(f"{seed} {name}")
        tasks = [
            {**task, "tags": [draw.choice(_TAGS)]}
            if draw.random() < _TAGGED and task["type"] not in {"source", "output"}
            else task
            for task in document["tasks"]
        ]
        dataflows[name] = {**document, "tasks": tasks}
    return replace(workload, dataflows=dataflows)
