"""What was heard of machines, and who carries which host by what the broker retains.

A machine announces its end by a last will at the broker, but a broker that was killed delivers none. So a machine that
was not heard for a while counts as lost, too. Several processes may report under one name, each with a key of its own:
one that came back with an empty disk, or one that has no right to the name.
"""

from collections.abc import Mapping
from dataclasses import replace

from manager.observations.machine_messages import MachineStatus, read_machine_status

MACHINE_SILENT_AFTER = 12.0
"""Seconds of silence after which a machine counts as lost; a live one reports at least every five."""
_MOST_CLAIMS = 8
"""Keys under one name that are remembered."""


class MachineSights:
    """The listener's; guarded by its lock."""

    def __init__(self) -> None:
        self.carriers: dict[str, bytes] = {}
        """The message that was retained for each host over this connection."""
        self._latest: dict[str, dict[str, MachineStatus]] = {}
        """By name and key, in the order in which they were heard."""
        self._heard_at: dict[tuple[str, str], float] = {}

    def take_status(self, machine: str, payload: bytes, now: float) -> bool:
        """Keep the status of a machine, or forget one that is gone; true if it is news. Raises ValueError."""
        if not payload:
            return self._latest.pop(machine, None) is not None
        status = read_machine_status(machine, payload)
        claims = self._latest.setdefault(machine, {})
        before = claims.pop(status.key, None)
        if not status.seen.alive and before is not None:
            # A last will says nothing else.
            status = replace(before, seen=replace(before.seen, alive=False))
        claims[status.key], self._heard_at[machine, status.key] = status, now
        if len(claims) > _MOST_CLAIMS:
            dropped = min(claims, key=lambda key: claims[key].seen.alive)
            del claims[dropped], self._heard_at[machine, dropped]
        return before is None or _news_of(before) != _news_of(status)

    def take_carrier(self, host: str, payload: bytes) -> None:
        """Keep what is retained on who carries a host."""
        if payload:
            self.carriers[host] = payload
        else:
            self.carriers.pop(host, None)

    def seen(self, connected_at: float | None, now: float) -> Mapping[str, tuple[MachineStatus, ...]]:
        """The latest statuses under each name: those that are alive first, and of these the one that was heard last.

        Machines that were silent for too long while the broker was connected are not alive.
        """
        found = {}
        for name, claims in self._latest.items():
            heard = [self._with_silence(name, status, connected_at, now) for status in reversed(claims.values())]
            found[name] = tuple(sorted(heard, key=lambda status: not status.seen.alive))
        return found

    def _with_silence(self, name: str, status: MachineStatus, connected_at: float | None, now: float) -> MachineStatus:
        if connected_at is None or now - max(self._heard_at[name, status.key], connected_at) <= MACHINE_SILENT_AFTER:
            return status
        return replace(status, seen=replace(status.seen, alive=False))


def _news_of(status: MachineStatus) -> MachineStatus:
    """The part of a status whose change is news. What peers do not have yet changes all the time."""
    hosts = {host: replace(report, behind_bytes=0, troubles={}) for host, report in status.seen.hosts.items()}
    return replace(status, seen=replace(status.seen, hosts=hosts, full="full" if status.seen.full else ""))
