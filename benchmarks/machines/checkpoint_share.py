"""What is sent to a peer while a part of the state changes, against the whole state sent once."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machines.fleet import fleet

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
