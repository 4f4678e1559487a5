"""A machine that has all there is to do, and one that joins: how even the load is before and after hosts have moved."""

import time
from pathlib import Path

from benchmarks.documents import rate_source, row_document
from benchmarks.instruments import Figures, awaited
from benchmarks.machines.fleet import FleetBed
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from manager.client import Client

_HOSTS = 4
_PACE = 0.25
_PER_SECOND = 50.0
_WHILE = 20.0
"""Seconds over which the CPU of the machines is measured."""
_SETTLED_AFTER = 10.0
_CALM = 3 * _SETTLED_AFTER
"""Seconds without another hand-over after which all have moved that will."""


def balance(folder: Path) -> Figures:
    """The highest CPU of a machine over the mean of both, when the second has just begun, and once hosts have moved.

    The first one runs a job on each of four hosts.
    """
    with FleetBed(folder, replicas=1, pace=_PACE, settings={"BRAID_SETTLED_AFTER": str(_SETTLED_AFTER)}) as bed:
        bed.begin()
        bed.add("m0", hosts=_HOSTS)
        hosts = ["m0", *(f"m0.{number}" for number in range(2, _HOSTS + 1))]
        bed.wait(lambda: all(bed.carrier(host) == "m0" for host in hosts), "all hosts")
        with bed.service.operator() as operator:
            awaited(lambda: sum(host.alive for host in operator.hosts()) == _HOSTS, "all hosts", every=0.1)
        _submit(bed.service.url, bed.service.admit("ann"))
        bed.add("m1")
        bed.wait(lambda: bed.carrier("m1") == "m1", "the second machine")
        time.sleep(_SETTLED_AFTER / 2)
        before = {host: bed.carrier(host) for host in hosts}
        skewed = _skew(bed, seconds=min(_WHILE, _SETTLED_AFTER))
        begun = changed = time.monotonic()
        while time.monotonic() - changed < _CALM:
            time.sleep(0.1)
            now = {host: bed.carrier(host) for host in hosts}
            if now != before:
                before, changed = now, time.monotonic()
        return {
            "before": skewed,
            "after": _skew(bed, seconds=_WHILE),
            "moved": sum(machine != "m0" for machine in before.values()),
            "took_s": round(changed - begun, 1),
        }


def _skew(bed: FleetBed, *, seconds: float) -> float:
    """The highest CPU of a machine over the mean."""
    before = {name: bed.cpu(name) for name in bed.machines}
    time.sleep(seconds)
    spent = [bed.cpu(name) - before[name] for name in bed.machines]
    return round(max(spent) * len(spent) / sum(spent), 2)


def _submit(url: str, key: str) -> None:
    """A job for each host, with a generated source of its own: the same source would bring all to one host."""
    with Client(url, key) as tenant:
        flows = []
        for number in range(_HOSTS):
            name = f"numbers-{number}"
            tenant.register_source(rate_source(name, _PER_SECOND))
            flows.append(tenant.submit(row_document(name, name, {"count": {"type": "count", "config": {}}})).id)
        for flow in flows:
            wait_until_runs(tenant, flow)
