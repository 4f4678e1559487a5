"""Reconfigurations: how soon they take effect by each scheduler, and what they spare.

    python -m benchmarks.reconfiguration [--quick] [PART ...] [CHECKOUT]

Without names of parts, all are measured. With a checkout of another commit, such as the one before there were
reconfigurations, the CPU of running dataflows is compared with that one. Prints a line per measurement; the last is one
JSON object.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.instruments import Figures, alone, report, scratch_folder
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


def _one_job(folder: Path, *, quick: bool) -> Figures:
    paces = {
        str(pace): report(f"one job, pace {pace} s", one_job(folder / f"{pace}", pace, 10 if quick else 60))
        for pace in (SERVICE_PACE, _QUICK_PACE)
    }
    return {pace: {"p50": delays["p50"], "p99": delays["p99"]} for pace, delays in paces.items()}


def _state(_folder: Path, *, quick: bool) -> float:
    del quick
    return float(alone(state_speed, 0)["mb_per_s"])


def _mixed(folder: Path, *, quick: bool) -> Figures:
    del quick
    return mixed_outputs(folder)


_PARTS: Mapping[str, Callable[..., Any]] = {
    "one_job_ms": _one_job,
    "state_mb_per_s": _state,
    "sections": side_by_side,
    "invalid_outputs": _mixed,
    "surge": surges,
    "delay_over_rate": over_rate,
    "delay_over_cost": over_cost,
    "rows": rows,
}


def main(names: Sequence[str], checkout: Path | None, *, quick: bool) -> None:
    """Measure these parts; quickly, with fewer rows, points and samples."""
    with scratch_folder() as root, installed(root / "types"):
        figures = {
            name: report(name.replace("_", " "), _PARTS[name](root / name.replace("_", "-"), quick=quick))
            for name in names
        }
        if checkout is not None:
            figures["overhead_idle"] = report("overhead", overhead(root / "overhead", checkout, quick=quick))["ratio"]
    print(json.dumps(figures))


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    parts = [argument for argument in arguments if argument in _PARTS]
    others = [Path(argument) for argument in arguments if argument not in _PARTS]
    main(parts or list(_PARTS), next(iter(others), None), quick="--quick" in sys.argv[1:])
