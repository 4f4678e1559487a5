"""Ports: where streams enter and leave a task, and what no task type may say of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST_PORT = 200
MOST_PORTS = 250
"""On each side of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of a task; made by task types whose ports the config decides."""

    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out",)
    optional: frozenset[str] = frozenset()
    """The input ports that need no stream."""


def unfit(inputs: tuple[str, ...], outputs: tuple[str, ...], optional: frozenset[str]) -> Iterator[str]:
    """What is wrong with the ports of a task type, as the rest of a sentence that begins with the type.

    >>> list(unfit(("in",), ("out",), frozenset({"side"})))
    ["calls 'side' optional, which is none of its input ports; add it there, or leave it out"]
    """
    if not inputs and not outputs:
        yield "has no port at all; give it inputs or outputs"
    # Third parties need no type checker.
    sides: tuple[Any, ...] = (inputs, outputs)
    for ports in sides:
        if not isinstance(ports, tuple) or not all(isinstance(each, str) for each in ports):
            yield "has ports that are no tuple of texts; give their names in a tuple"
        elif len(ports) > MOST_PORTS:
            yield f"has {len(ports):,} ports on one side; {MOST_PORTS} are allowed"
        elif len(set(ports)) < len(ports):
            yield "names a port twice; port names are unique per side"
        elif any(not 0 < len(each) <= LONGEST_PORT for each in ports):
            yield f"has a port with an empty name or one of more than {LONGEST_PORT} characters; name it otherwise"
    if unknown := sorted(set(optional) - set(inputs)):
        yield f"calls {unknown[0]!r} optional, which is none of its input ports; add it there, or leave it out"
