"""The reporter of a machine: publishes what it is and which hosts it carries, when that changes and now and then."""

import dataclasses
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.machines.carrier_watch import CarrierWatch
from ring.fleet import HostReport

_REPEAT = 5.0
"""Seconds after which a status is published even if nothing has changed."""


class MachineReporter:
    """One machine's; called from its main thread."""

    def __init__(
        self, machine: str, own: Sequence[str], watch: CarrierWatch, count_cores: Callable[[], int], **offers: Any
    ) -> None:
        """`own` are its own hosts, and `offers` what does not change while it runs."""
        self._about = {"machine": machine, "alive": True, "own": list(own), "boot": uuid.uuid4().hex, **offers}
        self._watch = watch
        self._count_cores = count_cores
        self._published_at, self._cores = -_REPEAT, 0

    def publish(self, hosts: Mapping[str, HostReport], **changing: Any) -> None:
        """Publish what there is to say now: of each carried host, and whatever else changes."""
        if time.monotonic() - self._published_at >= _REPEAT:
            self._watch.repeat()
            self._published_at, self._cores = time.monotonic(), self._count_cores()
        written = {host: _written(report) for host, report in hosts.items()}
        self._watch.publish({**self._about, **changing, "cores": self._cores, "hosts": written})


def _written(report: HostReport) -> dict[str, Any]:
    fields = dataclasses.asdict(report)
    return {key: sorted(each) if isinstance(each, frozenset) else each for key, each in fields.items()}
