"""The records of who carries which host, of what machines report, and of all that a decision considers.

A host is what plans name, with its jobs and spools. A machine is a process that carries hosts. So a host that loses its
machine is started on another one, from a copy of its files, and nobody else notices a difference.

A `Carriage` is committed. A `Fleet` is what a decision considers beside the carriages: machines as they were last seen,
and what an operator asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ring.tokens import Ring

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
    speed: float | None = None
    """How fast a core is, by the reference core; None if it does not say."""
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


LOST_AFTER = 0.5
"""How many seconds a machine has to be gone before it is lost; one that is back sooner has missed nothing."""
SETTLED_AFTER = 60.0
"""How many seconds a machine has to be back before hosts are handed to it, unless operators say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriageTurn:
    """The next version of a carriage, and why it changes."""

    carriage: Carriage
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All that a decision considers beside the carriages."""

    machines: Mapping[str, MachineSeen]
    ring: Ring
    """With all machines that have been seen."""
    replicas: int
    """How many copies each host should have."""
    draining: frozenset[str]
    """The machines that hosts should leave."""
    now: float
    lost_since: Mapping[str, float]
    """Since when each machine is gone; one that is not in it may be back any moment."""
    alive_since: Mapping[str, float]
    settled_after: float = SETTLED_AFTER
    """How many seconds a machine has to be back, and loads have to be uneven, before hosts go elsewhere."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """The cores that each host takes, as far as that was measured."""

    def alive(self, machine: str, root: str) -> bool:
        """Whether a machine is there, with the files of this root."""
        seen = self.machines.get(machine)
        return seen is not None and seen.alive and seen.root == root

    def lost(self, machine: str, root: str) -> bool:
        """Whether the files of this root at a machine are out of reach: it is gone, or is back without them."""
        seen = self.machines.get(machine)
        if seen is not None and seen.alive:
            return seen.root != root
        since = self.lost_since.get(machine)
        return since is not None and self.now - since >= LOST_AFTER

    def settled(self, machine: str) -> bool:
        """Whether a machine has been there for long enough to be handed something."""
        since = self.alive_since.get(machine)
        return since is not None and self.now - since >= self.settled_after

    def home(self, carriage: Carriage) -> str:
        """The machine that owns a host's point; empty if there is none on the ring."""
        return self.ring.owner(carriage.point)

    @property
    def leaving(self) -> frozenset[str]:
        """The machines that copies should leave: they drain, or their disks are nearly full."""
        return self.draining | {name for name, seen in self.machines.items() if seen.full}

    def shares(self, machine: str, root: str) -> bool:
        """Whether a machine is there and works in this root; an unknown root is nobody's."""
        return bool(root) and self.alive(machine, root)

    def takes_copies(self, machine: str, carriage: Carriage) -> bool:
        """Whether a host's files can be sent to a machine. What shares its root needs no copy."""
        seen = self.machines.get(machine)
        if seen is None or not seen.alive or not seen.at or machine == carriage.machine:
            return False
        return not self.shares(machine, carriage.root)

    def has_files(self, machine: str, carriage: Carriage) -> bool:
        """Whether a machine has everything of a host that anybody outside has seen, and is there to go on with it."""
        if machine in carriage.kept_by and self.alive(machine, carriage.root_of(machine)):
            return True
        return any(self.shares(machine, root) for root in (carriage.root, *map(carriage.root_of, carriage.kept_by)))

    def suits(self, machine: str, carriage: Carriage) -> bool:
        """Whether a machine offers all tags and types that the host's own machine offers, or its carrier did.

        It is of the same image, if that one is of any.
        """
        seen = self.machines.get(machine)
        like = self._begun_by(carriage.host) or self.machines.get(carriage.machine)
        if seen is None or like is None:
            return True
        types = seen.types is None or like.types is None or like.types <= seen.types
        return types and like.tags <= seen.tags and like.image in {"", seen.image}

    def _begun_by(self, host: str) -> MachineSeen | None:
        """The machine that begins with a host; the one of its name, if there is one."""
        others = (seen for _, seen in sorted(self.machines.items()) if host in seen.own_hosts)
        return self.machines.get(host) or next(others, None)

    def report(self, carriage: Carriage) -> HostReport:
        """The carrier's report, if it is on this version."""
        seen = self.machines.get(carriage.machine)
        if seen is None or not self.alive(carriage.machine, carriage.root):
            return HostReport()
        report = seen.hosts.get(carriage.host, HostReport())
        return report if report.version == carriage.version else HostReport()
