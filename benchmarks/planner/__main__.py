"""The planner: how long it takes, what planning for reuse saves, and what planned pipelines and new plans cost.

    python -m benchmarks.planner [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys

from benchmarks.instruments import report
from benchmarks.planner.long_pipelines import long_pipelines
from benchmarks.planner.new_plans import new_plans
from benchmarks.planner.planning_time import planning_time
from benchmarks.planner.reuse import reuse
from benchmarks.planner.scenarios import scenarios


def main(*, quick: bool) -> None:
    """Measure everything; quickly, with fewer points."""
    figures = {
        "planning": report("planning time", planning_time(quick=quick)),
        "long_pipelines": report("long pipelines", long_pipelines(quick=quick)),
        "reuse": report("planning for reuse", reuse(quick=quick)),
        "scenarios": report("scenarios", scenarios(quick=quick)),
        "new_plans": report("new plans", new_plans(quick=quick)),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
