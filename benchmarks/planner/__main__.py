"""The planner: how long it takes, what planning for reuse saves, and what planned pipelines and new plans cost.

    python -m benchmarks.planner [--quick] [PART ...]

Without names of parts, all are measured. Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.instruments import Figures, report
from benchmarks.planner.long_pipelines import long_pipelines
from benchmarks.planner.new_plans import new_plans
from benchmarks.planner.planning_time import planning_time
from benchmarks.planner.reuse import reuse
from benchmarks.planner.scenarios import scenarios

_PARTS: Mapping[str, Callable[..., Figures]] = {
    "planning": planning_time,
    "long_pipelines": long_pipelines,
    "reuse": reuse,
    "scenarios": scenarios,
    "new_plans": new_plans,
}


def main(names: Sequence[str], *, quick: bool) -> None:
    """Measure these parts; quickly, with fewer points."""
    print(json.dumps({name: report(name.replace("_", " "), _PARTS[name](quick=quick)) for name in names}))


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if argument != "--quick"]
    main(chosen or list(_PARTS), quick="--quick" in sys.argv[1:])
