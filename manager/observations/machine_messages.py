"""The statuses of machines, parsed into records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from ring.carriage import HostReport, MachineSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """A machine by its latest status, with what nobody but the carriers of hosts may know."""

    seen: MachineSeen
    boot: str = ""
    """The id of its process."""
    secret: str = field(default="", repr=False)
    """The token with which carriers that send it copies authenticate."""


@dataclass(slots=True, kw_only=True)
class _Status:
    alive: bool
    boot: str = ""
    zone: str = ""
    tags: frozenset[str] = frozenset()
    types: frozenset[str] | None = None
    root: str = ""
    at: str = ""
    secret: str = ""
    cores: float = 1.0
    own: tuple[str, ...] = ()
    hosts: Mapping[str, HostReport] = field(default_factory=dict)


_STATUS = TypeAdapter(_Status)


def read_machine_status(machine: str, payload: bytes) -> MachineStatus:
    """Parse the status of a machine; raises ValueError."""
    status = _STATUS.validate_json(payload)
    seen = MachineSeen(
        name=machine,
        alive=status.alive,
        zone=status.zone,
        tags=status.tags,
        types=status.types,
        root=status.root,
        at=status.at,
        cores=status.cores,
        own=status.own,
        hosts=status.hosts,
    )
    return MachineStatus(seen=seen, boot=status.boot, secret=status.secret)
