"""Reconfigurations: how soon they take effect by each scheduler, and what they spare.

    python -m benchmarks.reconfiguration [--quick] [CHECKOUT]

With a checkout of another commit, such as the one before there were reconfigurations, the CPU of running dataflows is
compared with that one. Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
from pathlib import Path

from benchmarks.instruments import alone, report, scratch_folder
from benchmarks.manager_test_bed import SERVICE_PACE
from benchmarks.reconfiguration.delays import over_cost, over_rate, rows
from benchmarks.reconfiguration.installation import installed
from benchmarks.reconfiguration.mixed_outputs import mixed_outputs
from benchmarks.reconfiguration.one_job import one_job
from benchmarks.reconfiguration.overhead import overhead
from benchmarks.reconfiguration.sections import side_by_side
from benchmarks.reconfiguration.state_speed import state_speed
from benchmarks.reconfiguration.surge import surges

_QUICK_PACE = 0.2


def main(checkout: Path | None, *, quick: bool) -> None:
    """Measure everything; quickly, with fewer rows, points and samples."""
    with scratch_folder() as root, installed(root / "types"):
        paces = {
            str(pace): report(f"one job, pace {pace} s", one_job(root / f"one-{pace}", pace, 10 if quick else 60))
            for pace in (SERVICE_PACE, _QUICK_PACE)
        }
        figures = {
            "one_job_ms": {pace: {"p50": delays["p50"], "p99": delays["p99"]} for pace, delays in paces.items()},
            "state_mb_per_s": report("state", alone(state_speed, 0))["mb_per_s"],
            "sections": report("sections", side_by_side(root, quick=quick)),
            "invalid_outputs": report("invalid outputs", mixed_outputs(root / "mixed")),
            "surge": report("surge", surges(root / "surge", quick=quick)),
            "delay_over_rate": report("delay over rate", over_rate(root / "over", quick=quick)),
            "delay_over_cost": report("delay over cost", over_cost(root / "over", quick=quick)),
            "rows": rows(root / "rows", quick=quick),
        }
        if checkout is not None:
            figures["overhead_idle"] = report("overhead", overhead(root / "overhead", checkout, quick=quick))["ratio"]
    print(json.dumps(figures))


if __name__ == "__main__":
    others = [Path(argument) for argument in sys.argv[1:] if argument != "--quick"]
    main(next(iter(others), None), quick="--quick" in sys.argv[1:])
