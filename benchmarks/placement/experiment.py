"""The paper's experiment on real hosts: how long pipelines take to set up and to run, by how they are cut.

    python -m benchmarks.placement.experiment [--quick]

Setting up ends when the jobs of all groups run; running, when what the generator sent has arrived at the terminator.
Warm hosts have run jobs before; cold ones are started for the run, and only those that the groups need. Groups that
several strategies find are run once for all of them. Prints a table; the last line is one JSON object.
"""

import json
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count, product
from pathlib import Path
from typing import Any

from benchmarks.instruments import extremes, scratch_folder
from benchmarks.placement.baselines import at_random
from benchmarks.placement.image_hosts import SENT_IN_A_RUN, ImageHosts
from benchmarks.placement.pipelines import PaperPipeline
from merge.grouping import GROUPING_STRATEGIES, Effort, Group

_STRATEGIES = ("default", "random", "node", "connection", "hybrid", "optimal")
FINDINGS = (
    "in the paper one line takes least in one group, and by connections nearly as little",
    "in the paper connections count: few of them take least in most cases",
    "in the paper more groups pay off where lines are parallel, but take longer to set up, cold above all",
)
"""What the paper found, beside which the table stands."""
Groups = tuple[Group, ...]
_RUNS = 5
_SECONDS = 1.0
"""For the solver; it needs far less."""


def warm_rows(folder: Path, pipelines: Sequence[PaperPipeline], runs: int) -> Iterator[Mapping[str, Any]]:
    """A row for each pipeline and strategy, on hosts that have run jobs."""
    numbers = count(1)
    with closing(ImageHosts(folder)) as hosts:
        tags = {_host(image.name): image.tags for image in pipelines[0].problem().images}
        hosts.start(tags)
        hosts.ready()
        for image in pipelines[0].problem().images:
            # The first job of each host is not measured.
            whole = (Group(image=image.name, tasks=tuple(range(14))),)
            _run(hosts, pipelines[0], whole, next(numbers))
        for pipeline in pipelines:
            for strategies, drawn in _by_groups(pipeline, runs):
                taken = [_run(hosts, pipeline, groups, next(numbers)) for groups in drawn]
                yield from _rows(pipeline, "warm", strategies, drawn, taken)


def cold_rows(
    folder: Path, pipelines: Sequence[PaperPipeline], runs: int, strategies: Collection[str] = _STRATEGIES
) -> Iterator[Mapping[str, Any]]:
    """A row for each pipeline and strategy, on hosts that are started for it."""
    numbers = count(1)
    with closing(ImageHosts(folder)) as hosts:
        for pipeline in pipelines:
            tags = {image.name: image.tags for image in pipeline.problem().images}
            for names, drawn in _by_groups(pipeline, runs):
                if not set(names) & set(strategies):
                    continue
                taken = []
                for groups in drawn:
                    begun = time.perf_counter()
                    hosts.start({_host(name): tags[name] for name in {group.image for group in groups}})
                    taken.append(_run(hosts, pipeline, groups, next(numbers), begun))
                    hosts.stop()
                yield from _rows(pipeline, "cold", names, drawn, taken)


def _by_groups(pipeline: PaperPipeline, runs: int) -> Iterator[tuple[list[str], list[Groups]]]:
    """The strategies that cut a pipeline alike, and how in each run; random ones in each run anew."""
    problem = pipeline.problem()
    ways: dict[Groups, list[str]] = {}
    for name in _STRATEGIES:
        if name == "default":
            groups: Groups = (Group(image=problem.images[0].name, tasks=tuple(range(14))),)
        elif name == "random":
            continue
        else:
            groups = GROUPING_STRATEGIES[name](problem, Effort(seconds=_SECONDS)).groups
        ways.setdefault(groups, []).append(name)
    yield from ((names, [groups] * runs) for groups, names in ways.items())
    random = (at_random(problem, seed).groups for seed in range(1, runs + 1))
    yield ["random"], list(random)


def _run(
    hosts: ImageHosts, pipeline: PaperPipeline, groups: Groups, number: int, begun: float | None = None
) -> tuple[float, float]:
    plans = pipeline.plans(groups, number)
    begun = time.perf_counter() if begun is None else begun
    hosts.set_up(plans)
    ready = time.perf_counter()
    hosts.execute(number, SENT_IN_A_RUN * pipeline.lines)
    done = time.perf_counter()
    hosts.end(plans)
    return ready - begun, done - ready


def _rows(
    pipeline: PaperPipeline, state: str, strategies: list[str], drawn: list[Groups], taken: list[tuple[float, float]]
) -> Iterator[Mapping[str, Any]]:
    bridges = [_bridges(pipeline, groups) for groups in drawn]
    for name in strategies:
        yield {
            "pipeline": pipeline.name,
            "hosts": state,
            "strategy": name,
            "groups": statistics.median(len(groups) for groups in drawn),
            "bridges": statistics.median(bridges),
            "setup_s": extremes([setup for setup, _ in taken], 2),
            "run_s": extremes([run for _, run in taken], 2),
            "total_s": extremes([setup + run for setup, run in taken], 2),
        }


def _bridges(pipeline: PaperPipeline, groups: Groups) -> int:
    place = {task: at for at, group in enumerate(groups) for task in group.tasks}
    return sum(not stream.raw and place[stream.parent] != place[stream.child] for stream in pipeline.problem().streams)


def _host(image: str) -> str:
    return image.replace(" ", "-")


def experiment(*, quick: bool) -> Mapping[str, Any]:
    """All rows; quickly, one run of few pipelines."""
    busy = [PaperPipeline(lines=lines, special=2, seconds=0.03) for lines in (1, 3)]
    if quick:
        warm = [PaperPipeline(lines=1, special=4, step=3), PaperPipeline(lines=3, special=4), busy[1]]
    else:
        cases = product((1, 3), (2, 4), (1, 2, 3))
        warm = [PaperPipeline(lines=lines, special=special, step=step) for lines, special, step in cases] + busy
    cold = [PaperPipeline(lines=3, special=2)]
    runs = 1 if quick else _RUNS
    rows: list[Mapping[str, Any]] = []
    with scratch_folder() as folder:
        for measured in (
            warm_rows(folder / "warm", warm, runs),
            # Each start of hosts takes longer than everything else.
            cold_rows(folder / "cold", cold, runs, ("default", "optimal") if quick else _STRATEGIES),
        ):
            for row in measured:
                rows.append(row)
                print(_line(row), flush=True)
    for finding in FINDINGS:
        print(finding)
    return {"runs": runs, "rows": rows}


def _line(row: Mapping[str, Any]) -> str:
    times = (f"{row[name]['median']:6.2f} ({row[name]['least']:.2f} to {row[name]['most']:.2f})" for name in _TIMES)
    return (
        f"{row['pipeline']:32} {row['hosts']} {row['strategy']:10} {row['groups']:4g} groups "
        f"{row['bridges']:4g} bridges; setup, run, total: {', '.join(times)} s"
    )


_TIMES = ("setup_s", "run_s", "total_s")


if __name__ == "__main__":
    print(json.dumps({"experiment": experiment(quick="--quick" in sys.argv[1:])}))
