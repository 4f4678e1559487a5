"""The input ports of steps that join, assigned to their inputs."""

import json
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from hashlib import sha256

from engine.tasks.compute import join_ports


def input_ports(
    entering: Mapping[str, Sequence[str]], computes: Mapping[str, Sequence[object]]
) -> dict[tuple[str, str], str]:
    """The port of each input of each step, given the inputs of each step and the computation of each task.

    Ports follow the order of the digests of the inputs with all their ancestors. Names do not count, so equal steps of
    two templates have equal inputs at equal ports, and stay equal.

    >>> input_ports({"join": ["a", "b"]}, {"join": ["Merge"], "a": ["Sort"], "b": ["Plot"]})
    {('join', 'a'): 'in1', ('join', 'b'): 'in2'}
    >>> input_ports({"merge": ["y", "x"]}, {"merge": ["Merge"], "x": ["Sort"], "y": ["Plot"]})
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
