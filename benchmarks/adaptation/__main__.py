"""Dataflows that adapt, simulated: the experiments of a thesis, and this project's bounds.

    python -m benchmarks.adaptation [--quick]

Prints a line per row; the last is one JSON object.
"""

import json
import sys
from collections.abc import Iterable

from benchmarks.adaptation.look_ahead_figures import prediction_errors, published_profit
from benchmarks.adaptation.planning_times import planning_times
from benchmarks.adaptation.road_figures import adaptive_rates, static_deployment, tolerance
from benchmarks.adaptation.rows import Row


def main(*, quick: bool) -> None:
    """Measure everything; quickly, with fewer points."""
    parts: dict[str, Iterable[Row]] = {
        "planning times": planning_times(quick=quick),
        "static deployment": static_deployment(),
        "adaptation by rate": adaptive_rates(quick=quick),
        "prediction errors": prediction_errors(quick=quick),
        "tolerance": tolerance(quick=quick),
        "published graphs": published_profit(quick=quick),
    }
    figures: dict[str, list[Row]] = {name: [] for name in parts}
    for name, rows in parts.items():
        for row in rows:
            print(f"{name}: {row['what']}: {row['ours']}", flush=True)
            figures[name].append(row)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
