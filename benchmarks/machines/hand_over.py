"""A host with much state that is handed over to another machine: how long its outputs are silent."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.machines.fleet import fleet

_PER_SECOND = 50.0


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
