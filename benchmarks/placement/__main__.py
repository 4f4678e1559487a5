"""Placement: how groups are planned, what they cost on hosts, and what they cost in a whole service.

    python -m benchmarks.placement [--quick]

Prints a line per measurement; the last is one JSON object. Each part also runs alone, by its module: `planning`,
`large_problems`, `experiment`, `service`.
"""

import json
import sys

from benchmarks.placement.experiment import experiment
from benchmarks.placement.large_problems import measured
from benchmarks.placement.planning import planned_rows
from benchmarks.placement.service import service

if __name__ == "__main__":
    quick = "--quick" in sys.argv[1:]
    print(
        json.dumps(
            {
                "planning": planned_rows(quick=quick),
                "large": measured(quick=quick),
                "experiment": experiment(quick=quick),
                "service": service(quick=quick),
            }
        )
    )
