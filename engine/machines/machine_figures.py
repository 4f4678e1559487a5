"""The figures of a machine as its hosts report them: its CPU once, and its cores in equal parts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from engine.host.cpu_meter import CpuMeter


def own_hosts(machine: str, count: int) -> tuple[str, ...]:
    """The names of so many hosts of a machine's own.

    >>> own_hosts("ash", 3)
    ('ash', 'ash.2', 'ash.3')
    """
    return (machine, *(f"{machine}.{number}" for number in range(2, count + 1)))


class MachineFigures:
    """One machine's; any thread may ask."""

    def __init__(self, machine: str, own: Sequence[str], count_cores: Callable[[], int]) -> None:
        self._machine = machine
        self._own = own
        self._count_cores = count_cores
        self._meter = CpuMeter()

    def of(self, host: str, carried: Collection[str]) -> Mapping[str, Any]:
        """What one of the carried hosts reports; the first of the machine's own reports the CPU of all."""
        # A host begins before it is noted as carried.
        carried = {host, *carried}
        first = next((each for each in self._own if each in carried), None)
        return {
            "machine": self._machine,
            "cpu": self._meter.cpu() if host == first else {},
            "cores": self._count_cores() / len(carried),
        }
