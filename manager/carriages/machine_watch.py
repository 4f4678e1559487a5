"""Since when machines are lost, or alive."""

from collections.abc import Iterable, Mapping

from manager.carriages.decision import MachinesSeen
from manager.observations.machine_messages import MachineStatus
from manager.observations.machine_sights import MACHINE_SILENT_AFTER
from ring.carriage import MachineSeen

RECONNECTED_WITHIN = 6.0
"""Seconds after a reconnection in which no machine counts as lost. The broker was away, so others come back as well."""


class MachineWatch:
    """Remembers from sight to sight; one thread's."""

    def __init__(self) -> None:
        self._connection: int | None = None
        self._silent_until = self._back_until = 0.0
        self._lost_since: dict[str, float] = {}
        self._alive_since: dict[str, float] = {}

    def take(
        self, admitted: Mapping[str, MachineStatus], connection: int, named: Iterable[str], now: float
    ) -> MachinesSeen:
        """Take the machines of a complete sight. Those that are named but were never heard are lost after a while."""
        if connection != self._connection:
            self._silent_until = now + MACHINE_SILENT_AFTER
            self._back_until = now if self._connection is None else now + RECONNECTED_WITHIN
            self._connection = connection
            self._lost_since.clear()
        machines = {name: status.seen for name, status in admitted.items()}
        unheard = {name: MachineSeen(name=name, alive=False) for name in named if name not in machines}
        alive = {name for name, machine in machines.items() if machine.alive}
        self._alive_since = {name: self._alive_since.get(name, now) for name in sorted(alive)}
        lost = dict.fromkeys(machines.keys() - alive, max(now, self._back_until))
        lost |= dict.fromkeys(unheard, self._silent_until)
        self._lost_since = {name: self._lost_since.get(name, since) for name, since in sorted(lost.items())}
        return MachinesSeen(
            now=now,
            machines=machines | unheard,
            lost_since=dict(self._lost_since),
            alive_since=dict(self._alive_since),
        )
