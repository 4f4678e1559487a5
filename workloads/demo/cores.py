"""How many cores the host of the demo takes, measured while its outputs are shown."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from manager.answers import HostAnswer
from manager.client import Client
from workloads.demo.stage import Sums
from workloads.service import RunFailed

_LOOKING = 0.5
_PATIENCE = 60.0
"""Seconds within which a host has to say something new of its CPU; it does so every 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured between two moments at which the host told its CPU; made by `measure`."""

    sums: Sums
    """What ran meanwhile."""
    seconds: float
    cores: Mapping[str, float]
    """Cores by the part of the host that takes them: driver, jvm, worker."""
    events: float
    """Events a second that reached the outputs."""


def measure(client: Client, seconds: float, events: Callable[[], int], sums: Sums) -> Measured:
    """Measure for so many seconds at least; `events` says how many have come by now."""
    begun, came = _told_anew(client, _host(client).cpu, events)
    ended, come = begun, came
    while _between(begun, ended) < seconds:
        ended, come = _told_anew(client, ended.cpu, events)
    took = _between(begun, ended)
    cores = {part: (used - begun.cpu.get(part, 0.0)) / took for part, used in ended.cpu.items()}
    return Measured(sums=sums, seconds=took, cores=cores, events=(come - came) / took)


def _told_anew(client: Client, before: Mapping[str, float], events: Callable[[], int]) -> tuple[HostAnswer, int]:
    """The host as soon as it tells other CPU than before, and how many events had come."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        host, count = _host(client), events()
        if host.cpu and host.cpu != before and host.seen is not None:
            return host, count
        if time.monotonic() > deadline:
            raise RunFailed(f"the host said nothing new of its CPU for {_PATIENCE:g} s")
        time.sleep(_LOOKING)


def _host(client: Client) -> HostAnswer:
    return next(iter(client.hosts()))


def _between(begun: HostAnswer, ended: HostAnswer) -> float:
    return (_moment(ended) - _moment(begun)).total_seconds()


def _moment(host: HostAnswer) -> datetime:
    if host.seen is None:
        raise RunFailed(f"the host {host.name} was not seen any more")
    return host.seen
