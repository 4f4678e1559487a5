"""What is measured of machines: copies, hand-overs, take-overs, and how even the load is."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.documents import rate_source, row_document
from benchmarks.instruments import Figures, awaited, percentiles
from benchmarks.machines.fleet import FleetBed, fleet
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from braid_client import Client

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


_PERIOD = 2.0
"""Seconds of changes that are compared with the whole state."""
_BEATS = 10
"""Messages in a period."""
_PERIODS = 10


def checkpoint_share(folder: Path, *, megabytes: float, changed: Sequence[float]) -> dict[str, Any]:
    """The bytes that a peer is sent in a period, as shares of its first copy, by how many of the keys change in it."""
    with fleet(folder, "m0", replicas=1) as machines:
        host = machines.submit()
        keys = machines.fill(megabytes)
        # Outputs come in order, so all keys are in the state by then.
        machines.send(50.0)
        machines.first_output_after(time.time())
        machines.quiet()
        machines.add("m1", counted=True)
        machines.wait(lambda: machines.has_copies(host, 1), "a copy")
        way = machines.ways["m1"]
        whole, at, shares = way.passed, 0, {}
        for share in changed:
            many, before = int(keys * share / _BEATS), way.passed
            for _ in range(_PERIODS * _BEATS):
                machines.publish([{"n": -1, "k": f"key {number % keys}"} for number in range(at, at + many)])
                at += many
                time.sleep(_PERIOD / _BEATS)
            machines.send(50.0)
            machines.first_output_after(time.time())
            machines.quiet()
            shares[str(share)] = round((way.passed - before) / _PERIODS / whole, 4)
        return {"state_mb": megabytes, "whole_mb": round(whole / 1_000_000, 1), "sent": shares}


def copy_cost(folder: Path, *, seconds: float, whiles: int) -> Figures:
    """CPU and latency of a dataflow whose host has 0, 1 and 2 copies; three fleets run at once."""
    figures: Figures = {}
    names = ("m0", "m1", "m2")
    with (
        fleet(folder / "0", *names, replicas=0) as none,
        fleet(folder / "1", *names, replicas=1) as one,
        fleet(folder / "2", *names, replicas=2) as two,
    ):
        fleets = {"0": none, "1": one, "2": two}
        for many, machines in fleets.items():
            host = machines.submit()
            machines.send(_PER_SECOND)
            machines.first_output_after(0.0)
            machines.wait(lambda m=machines, h=host, n=int(many): m.has_copies(h, n), "copies")  # type: ignore[misc]
        # A JVM becomes faster over its first hundreds of batches.
        time.sleep(seconds)
        begun = time.time()
        spent: dict[str, list[float]] = {many: [] for many in fleets}
        for _ in range(whiles):
            before = {many: machines.cpu() for many, machines in fleets.items()}
            time.sleep(seconds)
            for many, machines in fleets.items():
                spent[many].append((machines.cpu() - before[many]) / seconds)
        for many, machines in fleets.items():
            cores = round(statistics.median(spent[many]), 3)
            figures[many] = {"cores": cores, "latency_ms": percentiles(machines.latencies(begun))}
        for many in ("1", "2"):
            ratios = [mine / alone for mine, alone in zip(spent[many], spent["0"], strict=True)]
            figures[many]["cpu_ratio"] = round(statistics.median(ratios), 3)
            figures[many]["more_ms"] = figures[many]["latency_ms"]["p50"] - figures["0"]["latency_ms"]["p50"]
    return figures


def hand_over(folder: Path, *, megabytes: float) -> dict[str, Any]:
    """Seconds from the request until another machine carries the host, and the longest silence of its output."""
    with fleet(folder, "m0", "m1", replicas=1) as machines:
        host = machines.submit()
        machines.fill(megabytes)
        machines.send(_PER_SECOND)
        machines.first_output_after(time.time())
        machines.wait(lambda: machines.has_copies(host, 1), "a copy")
        time.sleep(5.0)
        carrier = machines.carrier(host)
        begun = time.time()
        with machines.service.operator() as operator:
            operator.drain_machine(carrier)
        machines.wait(lambda: machines.carrier(host) != carrier, "the hand-over")
        took = time.time() - begun
        machines.first_output_after(time.time())
        time.sleep(3.0)
        machines.quiet()
        came = sorted(at for at in machines.came_at.values() if at > begun)
        return {
            "state_mb": megabytes,
            "ordered_s": round(took, 2),
            "silence_s": round(max(two - one for one, two in pairwise([begun, *came])), 2),
            "lost": len(machines.sent_at) - len(machines.came_at),
            "doubled": machines.doubled,
        }


_QUIET = 5.0


def warm_take_over(folder: Path, *, times: int, jobs: int) -> dict[str, Any]:
    """Seconds from the kill to the first output of each job from elsewhere, on machines that run already, in turn."""
    seconds = []
    with _counting(folder, jobs) as (machines, host):
        for number in range(times):
            machines.wait(lambda: machines.has_copies(host, 1), "a copy")
            carrier = machines.carrier(host)
            # Until the other one is warm, it starts cold.
            machines.rest(*(set(machines.machines) - {carrier}))
            at = machines.kill(carrier, with_disk=True)
            seconds.append(machines.first_output_after(at) - at)
            machines.add(f"m{number + 2}")
        return _outcome(machines, seconds)


def cold_take_over(folder: Path, *, times: int, jobs: int) -> dict[str, Any]:
    """The same where the machine with the copy does not run yet, so that a JVM has to start."""
    seconds = []
    with _counting(folder, jobs) as (machines, host):
        for _ in range(times):
            machines.wait(lambda: machines.has_copies(host, 1), "a copy")
            time.sleep(_QUIET)
            carrier = machines.carrier(host)
            (other,) = set(machines.machines) - {carrier}
            machines.kill(carrier)
            machines.kill(other)
            at = time.time()
            machines.add(other)
            seconds.append(machines.first_output_after(at) - at)
            machines.add(carrier)
        return _outcome(machines, seconds)


@contextmanager
def _counting(folder: Path, jobs: int) -> Iterator[tuple[FleetBed, str]]:
    """Two machines, one with jobs that get events, and the host of these jobs."""
    with fleet(folder, "m0", replicas=1) as machines:
        host = machines.submit(jobs)
        machines.add("m1")
        machines.send(_PER_SECOND)
        machines.first_output_after(0.0)
        yield machines, host


def _outcome(machines: FleetBed, seconds: list[float]) -> dict[str, Any]:
    machines.quiet()
    events = len(machines.sent_at)
    return {
        "p50": round(statistics.median(seconds), 2),
        "max": round(max(seconds), 2),
        "all": [round(taken, 2) for taken in seconds],
        "events": events,
        "lost": events - len(machines.came_at),
        "doubled": machines.doubled,
    }
