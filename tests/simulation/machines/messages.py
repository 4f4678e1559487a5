"""Connections between a carrier and a peer, and what is said on them."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.machines.files import Files, Write


@dataclass(frozen=True, slots=True)
class Hello:
    """A carrier begins to send a host's files to a peer, which should have this root."""

    host: str
    carrier: str
    term: int
    root: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a peer has of a host."""

    files: Files


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in what is sent."""

    written: int


@dataclass(frozen=True, slots=True)
class Have:
    """A peer has everything up to a mark."""

    written: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """A peer takes nothing: it knows this higher term, or is not whom the carrier takes it for."""

    term: int


Message = Hello | Inventory | Mark | Have | Fenced | Write


@dataclass(slots=True, eq=False)
class Connection:
    """Messages in both directions, in order, until it is cut; what has not arrived by then never will."""

    ends: frozenset[str]
    open: bool = True
    there: deque[Message] = field(default_factory=deque)
    back: deque[Message] = field(default_factory=deque)

    def close(self) -> None:
        self.open = False
        self.there.clear()
        self.back.clear()

    def arrived(self, messages: deque[Message], numbers: random.Random) -> Iterator[Message]:
        """Some of the messages of one direction."""
        for _ in range(numbers.randint(0, len(messages))):
            if messages:
                yield messages.popleft()
