"""Elasticity: what the leading manager changes by itself as load changes: dynamic dataflows, and how many machines."""

from collections.abc import Mapping
from pathlib import Path

from manager.cases.adaptive.adapter import Adapter
from manager.cases.tools import Tools
from manager.event_flow.domain_event_line import DomainEventLine
from manager.fleet.hook import ScaleHook
from manager.fleet.host_processes import HostProcesses
from manager.fleet.scaler import Scaler
from manager.fleet.supply import MachineSupply
from manager.observations.listener import Listener
from manager.process.broker_and_host import BrokerAndHost
from manager.process.regular_looks import RegularLooks
from manager.process.settings import Settings


class Elasticity:
    """Looks from `start` to `stop`, as often as this manager comes to lead."""

    def __init__(self, tools: Tools, listener: Listener, beside: BrokerAndHost, settings: Settings, root: Path) -> None:
        self._adapter = adapter = Adapter(tools, DomainEventLine(beside.connect))
        self._supply = _supply(beside, settings, root)
        scaler = Scaler(
            tools,
            listener.sight,
            self._supply,
            autoscale=settings.autoscale,
            most=settings.added_machines,
            settled_after=settings.settled_after,
        )
        # Apart, because to start or stop a machine may take long.
        self._looks = (
            RegularLooks(adapter.look, every=1.0, otherwise="dynamic dataflows stay as they are", at_end=adapter.stop),
            RegularLooks(scaler.look, every=2.0, otherwise="no machine is added or removed"),
        )

    def latencies(self) -> Mapping[str, float]:
        """The longest time that each dataflow allows, in seconds, by the running graph's ids; from any thread."""
        return self._adapter.latencies()

    def start(self) -> None:
        """Start to look."""
        for each in self._looks:
            each.start()

    def stop(self) -> None:
        """Look no more; idempotent."""
        for each in self._looks:
            each.stop()

    def end(self) -> None:
        """Stop the machines that cannot run without this service."""
        self._supply.end()


def _supply(beside: BrokerAndHost, settings: Settings, root: Path) -> MachineSupply:
    if settings.scale_hook:
        return ScaleHook(settings.scale_hook)
    return HostProcesses(root, lambda: beside.address, master=settings.master, tags=settings.tag)
