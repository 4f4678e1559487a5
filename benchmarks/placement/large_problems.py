"""How long heuristics take for thousands of tasks, and how often planted groups are found.

    python -m benchmarks.placement.large_problems [--quick]

Prints a line per measurement; the last is one JSON object. Times are CPU seconds, since the machine may be busy; what
grows is also said as a ratio within the run.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.placement.baselines import at_random
from benchmarks.placement.drawn_problems import drawn_problem
from merge.grouping import GROUPING_STRATEGIES, Effort, NoGrouping
from tests.merge.grouping.planted import planted_problem

_IMAGES = 20
_SECONDS = 2.0
_LARGE = (2_000, 10_000)


def large_rows() -> Iterator[Mapping[str, Any]]:
    """A row for each strategy: CPU seconds by tasks, and by how much more five times as many take."""
    problems = {count: drawn_problem(count, _IMAGES, seed=0) for count in _LARGE}
    for name in ("connection", "node", "hybrid", "plan"):
        row: dict[str, Any] = {"strategy": name, "effort": _SECONDS}
        for count, problem in problems.items():
            begin = time.process_time()
            groups = GROUPING_STRATEGIES[name](problem, Effort(seconds=_SECONDS)).groups
            row[f"{count} tasks"] = {"cpu": round(time.process_time() - begin, 2), "groups": len(groups)}
        least, most = (row[f"{count} tasks"]["cpu"] for count in _LARGE)
        yield row | {"ratio": round(most / least, 1)}


def planted_row(*, quick: bool) -> Mapping[str, Any]:
    """What came of planted problems of twenty tasks whose images have no cores to spare."""
    row: dict[str, Any] = {"problems": 5 if quick else 40}
    for name in ("plan", "hybrid", "node", "connection", "random"):
        counts: Counter[str] = Counter()
        for seed in range(row["problems"]):
            try:
                problem = planted_problem(20, seed).problem
                if name == "random":
                    at_random(problem, seconds=_SECONDS)
                else:
                    GROUPING_STRATEGIES[name](problem, Effort(seconds=_SECONDS))
            except NoGrouping as none:
                counts[type(none).__name__] += 1
            else:
                counts["found"] += 1
        row[name] = dict(counts)
    return row


def measured(*, quick: bool) -> Mapping[str, Any]:
    """Measure everything, and print a line for each row."""
    rows = []
    for row in large_rows():
        rows.append(row)
        print(row, flush=True)
    planted = planted_row(quick=quick)
    print(planted, flush=True)
    return {"large": rows, "planted": planted}


if __name__ == "__main__":
    print(json.dumps(measured(quick="--quick" in sys.argv[1:])))
