"""Dataflows that adapt, simulated: the experiments of a thesis, and this project's bounds.

    python -m benchmarks.adaptation [--quick] [PART ...]

Without names of parts, all are simulated. Prints a line per row; the last is one JSON object.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.adaptation.look_ahead_figures import prediction_errors, published_profit
from benchmarks.adaptation.planning_times import planning_times
from benchmarks.adaptation.road_figures import adaptive_rates, static_deployment, tolerance
from benchmarks.adaptation.rows import Row
from benchmarks.instruments import named_parts


def _static(*, quick: bool) -> Iterable[Row]:
    del quick
    return static_deployment()


_PARTS: Mapping[str, Callable[..., Iterable[Row]]] = {
    "planning-times": planning_times,
    "static-deployment": _static,
    "adaptation-by-rate": adaptive_rates,
    "prediction-errors": prediction_errors,
    "tolerance": tolerance,
    "published-graphs": published_profit,
}


def main(arguments: Sequence[str]) -> None:
    """Simulate the named parts; quickly, with fewer points."""
    figures: dict[str, list[Row]] = {}
    for name, part in named_parts(_PARTS, arguments).items():
        figures[name] = []
        for row in part(quick="--quick" in arguments):
            print(f"{name}: {row['what']}: {row['ours']}", flush=True)
            figures[name].append(row)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
