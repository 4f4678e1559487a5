"""Machines: how soon a lost one is replaced, what copies cost, and how long a hand-over is felt.

    python -m benchmarks.machines [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.machines.balance import balance
from benchmarks.machines.copy_cost import copy_cost
from benchmarks.machines.hand_over import hand_over
from benchmarks.machines.take_over import cold_take_over, warm_take_over
from benchmarks.reconfiguration.__main__ import report


def main(*, quick: bool) -> None:
    """Measure everything; quickly, less often."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as name:
        folder = Path(name)
        warm = report("warm take-over", warm_take_over(folder / "warm", times=3 if quick else 10))
        cold = report("cold take-over", cold_take_over(folder / "cold", times=1 if quick else 5))
        given = report("hand-over", hand_over(folder / "given", megabytes=10 if quick else 100))
        costs = report("copies", copy_cost(folder / "costs", seconds=10.0, whiles=2 if quick else 6))
        evened = report("balance", balance(folder / "balance"))
    print(
        json.dumps(
            {
                "take_over_s": {
                    kind: {"p50": each["p50"], "max": each["max"]} for kind, each in (("warm", warm), ("cold", cold))
                },
                "replication_overhead": {
                    many: {"cpu": costs[many]["cpu_ratio"], "more_ms": costs[many]["more_ms"]} for many in ("1", "2")
                },
                "balance": {when: evened[when] for when in ("before", "after")},
                "scale_out_s": given["silence_s"],
                "lost": warm["lost"] + cold["lost"] + given["lost"],
                "doubled": warm["doubled"] + cold["doubled"] + given["doubled"],
            }
        )
    )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
