"""Ports: the places where streams enter and leave a task, and the rules for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST_PORT = 200
MOST_PORTS = 250
"""On each side of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of a task; made by task types whose ports depend on the config."""

    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out",)
    optional: frozenset[str] = frozenset()
    """The input ports that need no stream."""


def unfit(inputs: tuple[str, ...], outputs: tuple[str, ...], optional: frozenset[str]) -> Iterator[str]:
    """Faults in the ports of a task type, each as the rest of a sentence that begins with the type.

    >>> list(unfit(("in",), ("out",), frozenset({"side"})))
    ["calls 'side' optional, which is not one of its input ports; add it there, or leave it out"]
    """
    if not inputs and not outputs:
        yield "has no ports; give it inputs or outputs"
    # Third parties may not use a type checker.
    sides: tuple[Any, ...] = (inputs, outputs)
    for ports in sides:
        if not isinstance(ports, tuple) or not all(isinstance(each, str) for each in ports):
            yield "has ports that are not a tuple of texts; give their names in a tuple"
        elif len(ports) > MOST_PORTS:
            yield f"has {len(ports):,} ports on one side; the most allowed are {MOST_PORTS}"
        elif len(set(ports)) < len(ports):
            yield "names a port twice; give each port on a side its own name"
        elif any(not 0 < len(each) <= LONGEST_PORT for each in ports):
            yield f"has a port whose name is empty or longer than {LONGEST_PORT} characters; rename it"
    if unknown := sorted(set(optional) - set(inputs)):
        yield f"calls {unknown[0]!r} optional, which is not one of its input ports; add it there, or leave it out"
