"""Two published graphs as dynamic dataflows, with so many cores of work for a task as wanted.

One has ten tasks: the graph by which Topcuoglu, Hariri and Wu explain HEFT (IEEE TPDS 13(3), 2002). The other has
fifty: CyberShake, as the Pegasus project characterised it, with the seconds of each task. What a task costs for an
event is in proportion to these. Alternates are drawn, as they are not published.
"""

import random

from benchmarks.adaptation.staged_dataflow import drawn_alternates, staged_rates
from provisioning.figures import DataflowFigures, TaskFigures, needs

Graph = tuple[tuple[float, tuple[int, ...]], ...]
"""Of each task what it costs, and whose events it takes."""

HEFT: Graph = (
    (14, ()), (13, (0,)), (11, (0,)), (13, (0,)), (12, (0,)), (13, (0,)),
    (7, (2,)), (5, (1, 3, 5)), (18, (1, 3, 4)), (21, (6, 7, 8)),
)  # fmt: skip

_EXTRACTIONS = (73.14, 124.68, 90.56, 185.98)
_SYNTHESES = (
    (0, 39.9, 1.01), (0, 59.57, 1.4), (0, 64.21, 1.32), (1, 57.97, 1.36), (2, 64.06, 1.28), (1, 44.4, 1.25),
    (2, 41.72, 0.68), (3, 36.65, 1.56), (2, 54.24, 1.31), (3, 49.37, 0.88), (1, 37.83, 1.54), (0, 61.21, 0.99),
    (2, 42.76, 1.03), (3, 55.11, 1.57), (2, 29.64, 0.77), (3, 41.4, 1.3), (2, 39.3, 1.38), (1, 39.7, 1.29),
    (1, 43.73, 1.37), (1, 46.22, 1.21), (1, 23.13, 0.77), (3, 50.96, 1.44),
)  # fmt: skip
"""Of each seismogram the extraction before it, its own seconds, and those of the peaks after it."""


def _cybershake() -> Graph:
    tasks: list[tuple[float, tuple[int, ...]]] = [(seconds, ()) for seconds in _EXTRACTIONS]
    seismograms, peaks = [], []
    for extraction, seconds, peak in _SYNTHESES:
        seismograms.append(len(tasks))
        tasks.append((seconds, (extraction,)))
        peaks.append(len(tasks))
        tasks.append((peak, (seismograms[-1],)))
    return (*tasks, (0.17, tuple(seismograms)), (0.24, tuple(peaks)))


CYBERSHAKE = _cybershake()
PUBLISHED_GRAPHS = {"HEFT, 10 tasks": HEFT, "CyberShake, 50 tasks": CYBERSHAKE}
_LEAST_COST = 0.05
"""Of the mean, so that no task is for nothing."""


def published_dataflow(graph: Graph, seed: int) -> DataflowFigures:
    """A graph with drawn alternates; a task that takes from several gives as much as one of them on average."""
    draws = random.Random(seed)
    mean = sum(cost for cost, _ in graph) / len(graph)
    return DataflowFigures(
        tasks=tuple(
            TaskFigures(
                name=f"t{at}",
                alternates=drawn_alternates(draws, max(_LEAST_COST, cost / mean), 1.0 / max(1, len(inputs))),
                inputs=tuple(f"t{parent}" for parent in inputs),
            )
            for at, (cost, inputs) in enumerate(graph)
        )
    )


def rate_for(dataflow: DataflowFigures, cores: float) -> float:
    """The rate of all sources together at which the best alternates need so many cores for a task on average."""
    needed = needs(dataflow, dataflow.best(), staged_rates(dataflow, 1.0))
    return cores * len(dataflow.tasks) / sum(needed)
