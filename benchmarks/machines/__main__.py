"""Machines: how soon a lost one is replaced, what copies cost, and how long a hand-over is felt.

    python -m benchmarks.machines [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys

from benchmarks.instruments import report, scratch_folder
from benchmarks.machines.measurements import (
    balance,
    checkpoint_share,
    cold_take_over,
    copy_cost,
    hand_over,
    warm_take_over,
)


def main(*, quick: bool) -> None:
    """Measure everything; quickly, less often."""
    with scratch_folder() as folder:
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
    result = {
        "take_over_s": {
            kind: {jobs: {"p50": seconds["p50"], "max": seconds["max"]} for jobs, seconds in by_jobs.items()}
            for kind, by_jobs in (("warm", warm), ("cold", cold))
        },
        "replication_overhead": {
            copies: {
                "cpu": cost.get("cpu_ratio", 1.0),
                "latency_ms": cost["latency_ms"]["p50"],
                "more_ms": cost.get("more_ms", 0),
            }
            for copies, cost in costs.items()
        },
        "balance": {when: evened[when] for when in ("before", "after")},
        "checkpoint_share": sent["sent"],
        "scale_out_s": given["silence_s"],
        "lost": sum(run["lost"] for run in counted),
        "doubled": sum(run["doubled"] for run in counted),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
