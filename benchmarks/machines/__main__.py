"""Machines: how soon a lost one is replaced, what copies cost, and how long a hand-over is felt.

    python -m benchmarks.machines [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.machines.balance import balance
from benchmarks.machines.checkpoint_share import checkpoint_share
from benchmarks.machines.copy_cost import copy_cost
from benchmarks.machines.hand_over import hand_over
from benchmarks.machines.take_over import cold_take_over, warm_take_over
from benchmarks.reconfiguration.__main__ import report


def main(*, quick: bool) -> None:
    """Measure everything; quickly, less often."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as name:
        folder = Path(name)
        warm = {
            jobs: report(
                f"warm take-over, {jobs} jobs", warm_take_over(folder / f"warm-{jobs}", times=times, jobs=jobs)
            )
            for jobs, times in ((1, 2 if quick else 10), (3, 1 if quick else 5))
        }
        cold = {
            jobs: report(
                f"cold take-over, {jobs} jobs", cold_take_over(folder / f"cold-{jobs}", times=times, jobs=jobs)
            )
            for jobs, times in ((1, 1 if quick else 5), (3, 1 if quick else 3))
        }
        given = report("hand-over", hand_over(folder / "given", megabytes=10 if quick else 100))
        sent = report(
            "checkpoints", checkpoint_share(folder / "sent", megabytes=10 if quick else 100, changed=(0.001, 0.01))
        )
        costs = report("copies", copy_cost(folder / "costs", seconds=10.0, whiles=2 if quick else 6))
        evened = report("balance", balance(folder / "balance"))
    counted = [*warm.values(), *cold.values(), given]
    print(
        json.dumps(
            {
                "take_over_s": {
                    kind: {jobs: {"p50": each["p50"], "max": each["max"]} for jobs, each in found.items()}
                    for kind, found in (("warm", warm), ("cold", cold))
                },
                "replication_overhead": {
                    many: {
                        "cpu": each.get("cpu_ratio", 1.0),
                        "latency_ms": each["latency_ms"]["p50"],
                        "more_ms": each.get("more_ms", 0),
                    }
                    for many, each in costs.items()
                },
                "balance": {when: evened[when] for when in ("before", "after")},
                "checkpoint_share": sent["sent"],
                "scale_out_s": given["silence_s"],
                "lost": sum(each["lost"] for each in counted),
                "doubled": sum(each["doubled"] for each in counted),
            }
        )
    )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
