"""How long groups take to plan, and how near they are to the cheapest.

    python -m benchmarks.placement.planning [--quick]

Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import kairos

from benchmarks.placement.baselines import at_random, first_fit
from benchmarks.placement.drawn_problems import drawn_problem, lines
from merge.grouping import GROUPING_STRATEGIES, Effort, Grouping, GroupingProblem, problems_of
from merge.grouping.pddl import exported, model_weights, planned_grouping

_IMAGES = (4, 20, 60)
_SEEDS = {14: 3, 50: 3, 200: 5, 1000: 1}
"""How many problems are drawn of each number of tasks."""
_SECONDS = 1.2
"""For the solver; heuristics and the bound take the rest of two seconds, for 200 tasks."""
_ENGINE_SECONDS = 10


def planning(*, quick: bool) -> Iterator[Mapping[str, Any]]:
    """A row for each problem."""
    for name, problem in _problems(quick=quick):
        row: dict[str, Any] = {"problem": name}
        best = _measured(row, "optimal", partial(_by, "optimal", problem))
        row |= {"bound": _rounded(best.bound or 0.0), "gap": _rounded(best.gap or 0.0), "groups": len(best.groups)}
        ways: dict[str, Callable[[], Grouping]] = {
            name: partial(_by, name, problem) for name in ("hybrid", "connection", "node")
        }
        ways |= {"random": partial(at_random, problem, seconds=_SECONDS), "first fit": partial(first_fit, problem)}
        for way, planned in ways.items():
            cost = _measured(row, way, planned).cost
            row[way] |= {
                "of optimal": _rounded(cost.total / best.cost.total),
                "of bound": _rounded(cost.total / (best.bound or best.cost.total)),
            }
        if len(problem.tasks) <= 14:  # noqa: PLR2004 - the small ones
            row["kairos"] = _by_engine(problem, best)
        yield row


def _problems(*, quick: bool) -> Iterator[tuple[str, GroupingProblem]]:
    for count in (1, 3):
        for special in (2, 4):
            yield f"{count} lines, {special} special", lines(count, special, seed=1)
    for tasks, images in product((14, 50) if quick else _SEEDS, _IMAGES):
        for seed in range(1 if quick else _SEEDS[tasks]):
            yield f"{tasks} tasks, {images} images, seed {seed}", drawn_problem(tasks, images, seed)


def _by(name: str, problem: GroupingProblem) -> Grouping:
    return GROUPING_STRATEGIES[name](problem, Effort(seconds=_SECONDS))


def _measured(row: dict[str, Any], name: str, planned: Callable[[], Grouping]) -> Grouping:
    begin, used = time.perf_counter(), time.process_time()
    grouping = planned()
    row[name] = {
        "seconds": _rounded(time.perf_counter() - begin),
        "cpu": _rounded(time.process_time() - used),
        "cost": _rounded(grouping.cost.total),
    }
    return grouping


def _by_engine(problem: GroupingProblem, best: Grouping) -> Mapping[str, Any]:
    """What Kairos finds in ten seconds, with as many groups as the optimal grouping has."""
    weights = model_weights(problem)
    texts = exported(problem, weights, len(best.groups))
    task = kairos.parse_problem(texts.problem, kairos.parse_domain(texts.domain, "domain"), "problem")
    options = kairos.SearchOptions()
    options.timeout = _ENGINE_SECONDS
    begin = time.perf_counter()
    solution = kairos.Planner().solve(task, options)  # type: ignore[no-untyped-call]  # the library leaves it out
    seconds = _rounded(time.perf_counter() - begin)
    if solution.status is not kairos.Status.SOLVED:
        return {"seconds": seconds, "status": str(solution.status)}
    grouping = planned_grouping(problem, weights, str(solution.plan))
    if wrong := problems_of(problem, grouping.groups):
        raise RuntimeError(f"a plan of another engine became no valid groups: {wrong}")
    ratio = _rounded(grouping.cost.total / best.cost.total) if best.cost.total else 1.0
    return {"seconds": seconds, "cost": _rounded(grouping.cost.total), "of optimal": ratio}


def _rounded(figure: float) -> float:
    return float(f"{figure:.3g}")


def planned_rows(*, quick: bool) -> list[Mapping[str, Any]]:
    """Measure everything, and print a line for each problem; quickly, with fewer problems."""
    rows = []
    for row in planning(quick=quick):
        rows.append(row)
        optimal = row["optimal"]
        print(
            f"{row['problem']}: {row['groups']} groups, {optimal['seconds']} s ({optimal['cpu']} s CPU), "
            f"gap {row['gap']:.1%}; of the bound: "
            + ", ".join(
                f"{way} {row[way]['of bound']}" for way in ("hybrid", "connection", "node", "random", "first fit")
            )
            + (f"; kairos {row['kairos']}" if "kairos" in row else ""),
            flush=True,
        )
    return rows


if __name__ == "__main__":
    print(json.dumps({"planning": planned_rows(quick="--quick" in sys.argv[1:])}))
