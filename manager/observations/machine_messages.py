"""The statuses of machines, parsed into records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from engine.machines.machine_key import signed_content
from ring.carriage import HostReport, MachineSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """A machine by its latest status, with what nobody but the carriers of hosts may know."""

    seen: MachineSeen
    boot: str = ""
    """The id of its process."""
    key: str = ""
    """The public key with which it signed the status; empty if it did not."""
    secret: str = field(default="", repr=False)
    """The token with which carriers that send it copies authenticate."""


@dataclass(slots=True, kw_only=True)
class _Status:
    alive: bool
    boot: str = ""
    key: str = ""
    zone: str = ""
    tags: frozenset[str] = frozenset()
    image: str = ""
    types: frozenset[str] | None = None
    root: str = ""
    at: str = ""
    full: str = ""
    secret: str = ""
    cores: float = 1.0
    own: tuple[str, ...] = ()
    hosts: Mapping[str, HostReport] = field(default_factory=dict)
    restores: str = ""
    accepts_loss: bool = False


_STATUS = TypeAdapter(_Status)


def read_machine_status(machine: str, payload: bytes) -> MachineStatus:
    """Parse the status of a machine; raises ValueError, also if another one has signed it."""
    status = _STATUS.validate_json(payload)
    if status.key:
        status = _STATUS.validate_python(signed_content(payload))
    seen = MachineSeen(
        name=machine,
        alive=status.alive,
        zone=status.zone,
        tags=status.tags,
        image=status.image,
        types=status.types,
        root=status.root,
        at=status.at,
        full=status.full,
        cores=status.cores,
        own=status.own,
        hosts=status.hosts,
        restores=status.restores,
        accepts_loss=status.accepts_loss,
    )
    return MachineStatus(seen=seen, boot=status.boot, key=status.key, secret=status.secret)
