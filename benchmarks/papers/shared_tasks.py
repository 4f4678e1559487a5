"""Paper 004: the reuse of running tasks by several dataflows, over traces of two workloads."""

from benchmarks.papers.exhibits import (
    ComparedColumn,
    Exhibit,
    Headline,
    MeasuredFigure,
    Paper,
    PaperBenchmark,
    PaperRange,
    Plot,
    Shown,
    row_of,
)
from benchmarks.papers.page import written
from workloads.report.summary import CLAIMS
from workloads.traces import DEFRAGMENTED, REUSE, REUSE_PACKED, Way

_LIGHT, _HEAVY = "light tasks", "heavy tasks"
_WORKLOADS = {"OPMW": "opmw", "RIoTBench": "riotbench"}
_TRACES = ("SEQ", "RW1", "RW2")


def _claimed(quantity: str, publication: str = "paper") -> PaperRange:
    """The range of savings that a publication names for all of its traces."""
    (claim,) = (claim for claim in CLAIMS if (claim.quantity, claim.publication) == (quantity, publication))
    return PaperRange(claim.low, claim.high)


def _between(quantity: str, publication: str = "paper") -> str:
    return written(_claimed(quantity, publication), ".0%")


def _in_journal(quantity: str) -> str:
    return f"the journal version says {_between(quantity, 'journal version')}"


def _saved(benchmark: str, workload: str, trace: str, way: Way, figure: str) -> MeasuredFigure:
    name = f"{workload}-alike" if benchmark == _HEAVY else workload
    return MeasuredFigure(benchmark, name, trace, way.name, figure, has_bounds=figure == "cores_saved")


def _exhibit(  # noqa: PLR0913 - the fields of an exhibit, and what its cells are
    place: str,
    title: str,
    paper: Shown,
    columns: tuple[tuple[str, str, Way, str], ...],
    *,
    plotted: str = "",
    note: str = "",
) -> Exhibit:
    """A row for each trace; a column is its title, its benchmark, its way and the field of the summary."""
    return Exhibit(
        place=place,
        title=title,
        columns=tuple(ComparedColumn(name, ".1%") for name, *_ in columns),
        rows=tuple(
            row_of(
                f"{name}, {trace}",
                *(_saved(benchmark, workload, trace, way, figure) for _, benchmark, way, figure in columns),
                paper=(paper,),
            )
            for name, workload in _WORKLOADS.items()
            for trace in _TRACES
        ),
        plot=Plot(kind="bars", up=plotted) if plotted else None,
        note=note,
    )


def _picture(place: str, title: str, name: str, note: str) -> Exhibit:
    return Exhibit(place=place, title=title, columns=(), rows=(), picture=f"light-tasks/{name}.svg", note=note)


_TASKS = _exhibit(
    "Section 5",
    "Running tasks that sharing saves",
    _claimed("running tasks"),
    (
        ("all tasks", _LIGHT, REUSE, "tasks_saved"),
        ("steps alone", _LIGHT, REUSE, "steps_saved"),
        ("with a step behind each source", _HEAVY, REUSE, "tasks_saved"),
    ),
    plotted="part saved",
    note=(
        f"With more dataflows of OPMW, {_in_journal('running tasks')}. What can be saved depends on what dataflows "
        "have in common; of the paper's, the structures are public and the selection is not."
    ),
)
_HEAVY_CORES = _exhibit(
    "Section 5",
    "Cores that sharing saves where tasks are most of the work",
    _claimed("CPU"),
    (
        ("launched", _HEAVY, REUSE, "cores_saved"),
        ("work of the same steps", _HEAVY, REUSE, "work_saved_where_measured"),
        ("packed", _HEAVY, REUSE_PACKED, "cores_saved"),
    ),
    note=(
        f"The paper's own regime: [all tasks compute pi](heavy-tasks/README.md). Of the CPU, "
        f"{_in_journal('CPU')}. In brackets are 95 % intervals. Cores follow the "
        "work, and work is saved less than tasks, because sources and outputs are tasks that do little."
    ),
)
_LIGHT_CORES = _exhibit(
    "Section 5",
    "Cores that sharing saves where batches are most of the work",
    _claimed("CPU"),
    (
        ("launched", _LIGHT, REUSE, "cores_saved"),
        ("defragmented", _LIGHT, DEFRAGMENTED, "cores_saved"),
        ("packed", _LIGHT, REUSE_PACKED, "cores_saved"),
    ),
    note=(
        "Here [tasks have little to do](light-tasks/README.md), and a batch of each job has a price of its own, which "
        "a thread of Storm has not. So cores follow the number of jobs, and defragmentation saves what sharing does "
        f"not; of that, {_in_journal('cost with defragmentation')}."
    ),
)

SHARED_TASKS = Paper(
    number="004",
    title="Collaborative reuse of streaming dataflows in IoT applications",
    source="The paper on which Braid is founded",
    about=(
        "It runs 35 dataflows of OPMW and 21 of RIoTBench on Storm, a thread for each task, on a cluster. Here the "
        "same traces (all submitted and removed one by one, SEQ; two random walks, RW1 and RW2) run on Spark on two "
        "cores. Where its text has lost its numbers, the ranges are those of its summary."
    ),
    benchmarks=(
        PaperBenchmark(
            name=_LIGHT,
            module="workloads.evidence",
            quick=(),
            full=("--full",),
            written="light-tasks/summary.json",
        ),
        PaperBenchmark(
            name=_HEAVY,
            module="workloads.evidence",
            quick=None,
            full=("--work",),
            written="heavy-tasks/summary.json",
        ),
    ),
    exhibits=(
        _TASKS,
        _picture(
            "Figure 2",
            "Running tasks after each step",
            "tasks-per-step",
            "The paper's shapes: a mountain and two plateaus.",
        ),
        _HEAVY_CORES,
        _LIGHT_CORES,
        _picture("Figure 3", "Cores at each measured step", "cores-per-step", "With 95 % intervals."),
        _picture(
            "Figure 4",
            "The part of the running tasks that several dataflows use",
            "reuse-histogram",
            "Weighted by time, as in the paper.",
        ),
        _picture(
            "Section 5.3",
            "Jobs and paused tasks, with and without defragmentation",
            "defragmentation",
            "The paper asks for it, because paused tasks still cost something at the end of a trace.",
        ),
    ),
    missing={
        "the 35 workflows of OPMW": "which of the 74 they are is not said; the drawn ones are alike",
        "Figure 3: cores at every step": (
            "measured at some steps of each trace, at all with `FULL=1` where batches are most of the work"
        ),
        "nodes with eight cores, up to a whole cluster": "there are two cores",
    },
    headline=Headline(
        text=(
            "Sharing saves {0:.0%} of the running tasks of OPMW and {1:.0%} of RIoTBench, when all are submitted and "
            f"removed one by one; in the paper {_between('running tasks')}. Where tasks are most of the work and run "
            "packed, it saves {2:.0%} and {3:.0%} of the cores; in the paper "
            f"{_between('CPU')} of the CPU."
        ),
        readings=(
            *(_saved(_LIGHT, workload, "SEQ", REUSE, "tasks_saved") for workload in _WORKLOADS.values()),
            *(_saved(_HEAVY, workload, "SEQ", REUSE_PACKED, "cores_saved") for workload in _WORKLOADS.values()),
        ),
        exhibit=_TASKS.heading,
    ),
)
