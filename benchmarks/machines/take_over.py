"""A machine that is killed with its disk: how long outputs are missing, and whether any is lost or doubled."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machines.fleet import FleetBed, fleet

_PER_SECOND = 50.0
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
