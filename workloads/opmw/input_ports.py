"""Input ports of steps that join: which of a step's inputs enters which."""

import json
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from hashlib import sha256

from engine.tasks.compute import join_ports


def ports_given(
    entering: Mapping[str, Sequence[str]], computes: Mapping[str, Sequence[object]]
) -> dict[tuple[str, str], str]:
    """For each step and each of its inputs the port, given what enters each step and what each task computes.

    Ports are given out in the order of digests of the inputs with all their ancestors. Names count for nothing, so that
    equal steps of two templates have equal inputs at equal ports, and stay equal.

    >>> ports_given({"join": ["a", "b"]}, {"join": ["Merge"], "a": ["Sort"], "b": ["Plot"]})
    {('join', 'a'): 'in1', ('join', 'b'): 'in2'}
    >>> ports_given({"merge": ["y", "x"]}, {"merge": ["Merge"], "x": ["Sort"], "y": ["Plot"]})
    {('merge', 'x'): 'in1', ('merge', 'y'): 'in2'}
    """
    digests: dict[str, str] = {}
    for task in TopologicalSorter(entering).static_order():
        above = sorted(digests[parent] for parent in entering.get(task, ()))
        digests[task] = sha256(json.dumps([computes[task], above], sort_keys=True).encode()).hexdigest()
    return {
        (step, task): port
        for step, tasks in entering.items()
        for port, task in zip(join_ports(len(tasks)), sorted(tasks, key=digests.__getitem__), strict=True)
    }
