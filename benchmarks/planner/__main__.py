"""The planner: how long it takes, what planning for reuse saves, and what planned pipelines and new plans cost.

    python -m benchmarks.planner [--quick] [PART ...]

Without names of parts, all are measured. Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.instruments import Figures, named_parts, report
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


def main(arguments: Sequence[str]) -> None:
    """Measure the named parts; quickly, with fewer points."""
    quick, parts = "--quick" in arguments, named_parts(_PARTS, arguments)
    print(json.dumps({name: report(name.replace("_", " "), part(quick=quick)) for name, part in parts.items()}))


if __name__ == "__main__":
    main(sys.argv[1:])
