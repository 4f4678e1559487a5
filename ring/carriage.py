"""The records of who carries which host, and of what machines report about that.

A host is what plans name, with its jobs and spools. A machine is a process that carries hosts. So a host that loses its
machine is started on another one, from a copy of its files, and nobody else notices a difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

STORE = "the store"
"""Object storage, among those that keep the files of a host. It carries nothing, and no machine has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carriage:
    """The committed answer to who carries a host, who gets its files, and who has them."""

    host: str
    machine: str
    """The machine that carries the host."""
    point: int = 0
    """The host's place on the ring, for as long as it exists; its home is the machine that owns it."""
    term: int = 1
    """Counts the carriers of the host; who knows a higher one refuses a lower one."""
    version: int = 1
    """Counts the changes of this record."""
    heir: str = ""
    """The machine that the host is being handed to; the carrier stops it and reports it released."""
    peers: tuple[str, ...] = ()
    """The machines that the host's files are sent to."""
    roots: tuple[str, ...] = ()
    """The ids of the peers' roots, in the same order; a machine that returns with another one has lost its copies."""
    kept_by: frozenset[str] = frozenset()
    """The peers, and maybe the store, that are known to have everything that anybody outside has seen."""
    root: str = ""
    """The id of its carrier's root; a machine with the same one shares the files, one with another has not got them."""

    def root_of(self, peer: str) -> str:
        """The id of the root at which a peer keeps the copy; empty if that is not known."""
        return dict(zip(self.peers, self.roots, strict=False)).get(peer, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """A machine's report on one host that it carries."""

    version: int = 0
    """The version of the carriage that it acts upon."""
    in_sync: frozenset[str] = frozenset()
    """The peers without which it acknowledges and publishes nothing, since they had everything: kept until the next
    version, even if one of them is broken by now, because it may be counted upon since."""
    broken: frozenset[str] = frozenset()
    """The peers that it has not reached for some seconds."""
    released: bool = False
    """Whether the host is stopped, and its heir has everything."""
    behind_bytes: int = 0
    """The bytes that the slowest peer does not have yet."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the copies at some peers, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSeen:
    """A machine by its latest status."""

    name: str
    alive: bool
    zone: str = ""
    """The failure zone; machines of one zone may be lost together."""
    tags: frozenset[str] = frozenset()
    image: str = ""
    """The image that its hosts were made from; empty if it names none."""
    types: frozenset[str] | None = None
    """The task types that it runs; None if that is unknown."""
    root: str = ""
    """The id of its root."""
    at: str = ""
    """The address where it takes copies; empty if it takes none."""
    full: str = ""
    """Why it should keep no copies: its disk is nearly full; empty if it is not."""
    cores: float = 1.0
    own: tuple[str, ...] = ()
    """The hosts that it begins with; empty if it is the one of its name."""
    hosts: Mapping[str, HostReport] = field(default_factory=dict)
    """The hosts that it carries."""
    restores: str = ""
    """The id of the root whose files it would bring back from the store, as those of its own host, because an operator
    said so; empty if it would not."""
    accepts_loss: bool = False
    """Whether it would even if those may lack something that others have seen."""

    @property
    def own_hosts(self) -> tuple[str, ...]:
        """The hosts that it begins with, in their order."""
        return self.own or (self.name,)
