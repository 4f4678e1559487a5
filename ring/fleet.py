"""What a decision about carriages considers: machines as they were last seen, and what an operator asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ring.carriage import Carriage, HostReport, MachineSeen
from ring.tokens import Ring

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

    def followed(self, carriage: Carriage) -> bool:
        """Whether the carrier is known to act upon this version."""
        return self.report(carriage).version == carriage.version

    def report(self, carriage: Carriage) -> HostReport:
        """The carrier's report, if it is on this version."""
        seen = self.machines.get(carriage.machine)
        if seen is None or not self.alive(carriage.machine, carriage.root):
            return HostReport()
        report = seen.hosts.get(carriage.host, HostReport())
        return report if report.version == carriage.version else HostReport()
