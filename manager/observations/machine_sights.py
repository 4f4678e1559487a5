"""What was heard of machines, and who carries which host by what the broker retains.

A machine announces its end by a last will at the broker, but a broker that was killed delivers none. So a machine that
was not heard for a while counts as lost, too.
"""

from collections.abc import Mapping
from dataclasses import replace

from manager.observations.machine_messages import MachineStatus, read_machine_status

MACHINE_SILENT_AFTER = 12.0
"""Seconds of silence after which a machine counts as lost; a live one reports at least every five."""


class MachineSights:
    """The listener's; guarded by its lock."""

    def __init__(self) -> None:
        self.carriers: dict[str, bytes] = {}
        """The message that was retained for each host over this connection."""
        self._latest: dict[str, MachineStatus] = {}
        self._heard_at: dict[str, float] = {}

    def take_status(self, machine: str, payload: bytes, now: float) -> bool:
        """Keep the status of a machine, or forget one that is gone; true if it is news. Raises ValueError."""
        before = self._latest.get(machine)
        if not payload:
            self._latest.pop(machine, None)
            return before is not None
        status = read_machine_status(machine, payload)
        if not status.seen.alive and before is not None:
            # A last will says nothing else.
            status = replace(before, seen=replace(before.seen, alive=False))
        self._latest[machine], self._heard_at[machine] = status, now
        return before is None or _news_of(before) != _news_of(status)

    def take_carrier(self, host: str, payload: bytes) -> None:
        """Keep what is retained on who carries a host."""
        if payload:
            self.carriers[host] = payload
        else:
            self.carriers.pop(host, None)

    def seen(self, connected_at: float | None, now: float) -> Mapping[str, MachineStatus]:
        """The latest statuses; machines that were silent for too long while the broker was connected are not alive."""
        return {name: self._with_silence(name, status, connected_at, now) for name, status in self._latest.items()}

    def _with_silence(self, name: str, status: MachineStatus, connected_at: float | None, now: float) -> MachineStatus:
        if connected_at is None or now - max(self._heard_at[name], connected_at) <= MACHINE_SILENT_AFTER:
            return status
        return replace(status, seen=replace(status.seen, alive=False))


def _news_of(status: MachineStatus) -> MachineStatus:
    """The part of a status whose change is news. The bytes that peers do not have yet change all the time."""
    hosts = {host: replace(report, behind_bytes=0) for host, report in status.seen.hosts.items()}
    return replace(status, seen=replace(status.seen, hosts=hosts))
