"""A host with much state that is handed over to another machine: how long its outputs are silent."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.machines.fleet import COUNTS, fleet

_PER_SECOND = 50.0
_PACE = 0.5
_BYTES_OF_KEY = 60
"""About the bytes that the state keeps for a key, and its record."""
_AT_ONCE = 1_000


def hand_over(folder: Path, *, megabytes: float) -> dict[str, Any]:
    """Seconds from the request until another machine carries the host, and the longest silence of its output."""
    with fleet(folder, "m0", "m1", replicas=1, pace=_PACE) as machines:
        machines.submit(machines.service.admit("ann"), COUNTS)
        keys = int(megabytes * 1_000_000 / _BYTES_OF_KEY)
        host = machines.host()
        for first in range(0, keys, _AT_ONCE):
            machines.publish([{"n": -1, "k": f"key {number}"} for number in range(first, first + _AT_ONCE)])
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
