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


def main(names: Sequence[str], *, quick: bool) -> None:
    """Simulate these parts; quickly, with fewer points."""
    figures: dict[str, list[Row]] = {name: [] for name in names}
    for name, rows in figures.items():
        for row in _PARTS[name](quick=quick):
            print(f"{name}: {row['what']}: {row['ours']}", flush=True)
            rows.append(row)
    print(json.dumps(figures))


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if argument != "--quick"]
    if unknown := [name for name in chosen if name not in _PARTS]:
        raise SystemExit(f"there is no part {unknown[0]}; choose from {', '.join(_PARTS)}")
    main(chosen or list(_PARTS), quick="--quick" in sys.argv[1:])
