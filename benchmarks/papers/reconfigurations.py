"""Paper 002: Fries, which changes running operators soon and consistently."""

from benchmarks.papers.exhibits import (
    ComparedColumn,
    ComparedRow,
    Exhibit,
    Headline,
    MeasuredFigure,
    Paper,
    PaperBenchmark,
    Plot,
    Shown,
    row_of,
)

_PARTS = {
    "delays": ("rows",),
    "consistency": ("invalid_outputs", "surge"),
    "points": ("delay_over_rate", "delay_over_cost"),
    "one job": ("one_job_ms",),
}
"""The parts of the benchmark, of which each is run by itself."""


def _delay(workflow: str, changed: str, *figure: str, over: str = "") -> MeasuredFigure:
    row = ("rows", {"workflow": workflow, "changed": changed})
    return MeasuredFigure("delays", *row, *figure, over=(*row, over) if over else None)


def _delays(place: str, title: str, other: str, rows: dict[tuple[str, str], tuple[float, float]], note: str) -> Exhibit:
    """A row for what is changed of which workflow: by Fries, by the other way, and how many times as soon."""
    names = {"epoch": "by epochs", "unpruned": "without pruning"}
    return Exhibit(
        place=place,
        title=title,
        columns=(
            ComparedColumn("by Fries, ms", ",.0f"),
            ComparedColumn(f"{names[other]}, ms", ",.0f"),
            ComparedColumn("times as soon", ",.1f", is_drawn=False),
        ),
        rows=tuple(
            row_of(
                f"{workflow}: {changed.replace(' ', ', ')}",
                _delay(workflow, changed, "fries_ms"),
                _delay(workflow, changed, f"{other}_ms"),
                _delay(workflow, changed, f"{other}_ms", over="fries_ms"),
                paper=(fries, slower, slower / fries),
            )
            for (workflow, changed), (fries, slower) in rows.items()
        ),
        plot=Plot(kind="bars", up="ms", is_log=True),
        note=note,
    )


_TABLE_4 = _delays(
    "Table 4",
    "Reconfigurations of two workflows of joins",
    "epoch",
    {
        ("W2", "J1"): (46.0, 11_432.0),
        ("W2", "J2"): (44.0, 11_709.0),
        ("W2", "J1 J3"): (1_664.0, 12_339.0),
        ("W2", "J1 J4"): (1_702.0, 12_361.0),
        ("W2", "J3 J4"): (387.0, 13_767.0),
        ("W3", "J5"): (87.0, 4_127.0),
        ("W3", "J5 J6"): (127.0, 8_352.0),
        ("W3", "J5 J6 J7 J8"): (447.0, 19_608.0),
        ("W3", "J5 J6 J7 J9"): (526.0, 19_717.0),
        ("W3", "J7 J8 J9"): (1_340.0, 20_532.0),
    },
    (
        "Joins with a table are tasks that need some milliseconds for each event, a task or two in each job, behind a "
        "backlog of ten seconds or more. A component with a path behind the backlog waits for the older events on it, "
        "and gains little."
    ),
)
_TABLE_5 = _delays(
    "Table 5",
    "A workflow that splits events",
    "epoch",
    {("W4", "F1 U2"): (69.0, 151.0), ("W4", "FD1"): (47_892.0, 131_103.0), ("W4", "F2"): (221_353.0, 236_153.0)},
    "U2 makes many events of one, so a task below it switches together with all that is between the two.",
)
_TABLE_6 = _delays(
    "Table 6",
    "Pruning in a workflow that joins its replicas",
    "unpruned",
    {
        ("W5", "FD4"): (158.0, 450_149.0),
        ("W5", "F3"): (94.0, 383_781.0),
        ("W5", "F4"): (10.0, 446.0),
        ("W5", "FD3 FD4"): (661_892.0, 663_460.0),
        ("W5", "E1"): (85.0, 1_122_686.0),
    },
    "The join is [unique](../consistency.md#between-jobs), so below it one task switches instead of eight.",
)


def _surge(name: str, way: str, *paper: Shown) -> ComparedRow:
    figures = ("worst_latency_s", "good_after_s", "lost")
    return row_of(name, *(MeasuredFigure("consistency", "surge", way, figure) for figure in figures), paper=paper)


_SURGE = Exhibit(
    place="Figure 13",
    title="A surge of events that is too much for a task, until its model is changed for a cheaper one",
    columns=(
        ComparedColumn("longest latency, s", ".1f"),
        ComparedColumn("good again after, s", ".1f"),
        ComparedColumn("events lost", ",.0f"),
    ),
    rows=(
        _surge("nothing is done", "none", "about 70", "never"),
        _surge("by epochs", "epoch", "above 60", "about 15"),
        _surge("by Fries", "fries", None, "at once"),
        _surge("by a restart", "restart"),
    ),
    note="Here a surge lasts as long as it is watched, and a dash behind a latency means that it never became good.",
)


def _mixed(name: str, way: str) -> ComparedRow:
    kinds = ("mixed", "outputs")
    return row_of(name, *(MeasuredFigure("consistency", "invalid_outputs", way, kind) for kind in kinds))


_INVALID = Exhibit(
    place="Figure 14",
    title="Invalid outputs",
    columns=(ComparedColumn("invalid", ",.0f"), ComparedColumn("of all outputs", ",.0f")),
    rows=(
        row_of("nothing is done", None, None, paper=(302_000.0,)),
        row_of("by epochs", None, None, paper=(176_000.0,)),
        row_of("by Fries", None, None, paper=(67_000.0,)),
        _mixed("each job switches by itself", "naive"),
        _mixed("with markers, as the service does", "fries"),
    ),
    note=(
        "The paper counts in 300 s what comes between a change of the data and that of the task; that is the delay "
        "times the rate. Here it is outputs of events that met one task before a change and another one after it."
    ),
)


def _behind(name: str, series: str, key: dict[str, float]) -> ComparedRow:
    return row_of(name, *(MeasuredFigure("points", series, key, figure) for figure in ("fries_ms", "epoch_ms")))


def _delays_by(place: str, title: str, rows: tuple[ComparedRow, ...], across: str) -> Exhibit:
    return Exhibit(
        place=place,
        title=title,
        columns=(ComparedColumn("by Fries, ms", ",.0f"), ComparedColumn("by epochs, ms", ",.0f")),
        rows=rows,
        plot=Plot(kind="lines", up="ms", across=across, is_log=True),
        note="The paper's text has no numbers: delays of epochs grow with both, those of Fries much slower.",
    )


_BY_RATE = _delays_by(
    "Figure 15",
    "Delays by the rate of events",
    tuple(_behind(f"{rate}", "delay_over_rate", {"per_second": rate}) for rate in (50, 150, 250)),
    "events a second, of at most 200 that the task can take",
)
_BY_COST = _delays_by(
    "Figure 16",
    "Delays by what the task takes for an event",
    tuple(_behind(f"{cost:g}", "delay_over_cost", {"ms_per_event": cost}) for cost in (5.0, 15.0, 25.0)),
    "ms for an event",
)
_OWN = Exhibit(
    place="",
    title="One job: from the request to the first event of the new config",
    columns=(ComparedColumn("median, ms", ".0f"), ComparedColumn("99th percentile, ms", ".0f")),
    rows=tuple(
        row_of(
            f"a pace of {pace} s",
            *(MeasuredFigure("one job", "one_job_ms", pace, figure) for figure in ("p50", "p99")),
        )
        for pace in ("1.0", "0.2")
    ),
    needs_quiet=True,
)

RECONFIGURATIONS = Paper(
    number="002",
    title="Fries: fast and consistent runtime reconfiguration",
    source="Wang, Ni, Kumar and Li, VLDB 2022",
    about=(
        "The paper runs five workflows on Flink, on eleven machines with forty workers for each operator. Here "
        "analogues of them run on Spark on two cores, without data sets and models: where a task is slow in the paper, "
        "it is busy for some milliseconds. So ratios can be compared, and milliseconds cannot."
    ),
    benchmarks=tuple(
        PaperBenchmark(name=name, module="benchmarks.reconfiguration", quick=("--quick", *parts), full=parts)
        for name, parts in _PARTS.items()
    ),
    exhibits=(_SURGE, _INVALID, _BY_RATE, _BY_COST, _TABLE_4, _TABLE_5, _TABLE_6, _OWN),
    missing={
        "Figure 12: choke points, the delay between each two operators": (
            "delays of whole reconfigurations are measured alone"
        ),
        "the three data sets, and inference by LSTM": (
            "tasks are busy in place of models; the data sets have hundreds of millions of rows"
        ),
        "Figure 17 and table 7: 1 to 40 workers for an operator": (
            "two cores; a job's shards switch together, as one task"
        ),
        "the scheduler that stops and restarts": "it is in figure 13 alone",
    },
    headline=Headline(
        text=(
            "Behind a backlog, a change of the first of four joins takes effect {0:.0f} times as soon as by epochs, in "
            "the paper about 250 times. Where a change concerns tasks in two jobs, {1:.0f} of {2:,.0f} outputs are of "
            "mixed versions, and {3:.0f} if each job switches by itself. A cheaper model in a surge that is too much "
            "for a task loses {4:,.0f} events, and a restart {5:,.0f}."
        ),
        readings=(
            _delay("W2", "J1", "epoch_ms", over="fries_ms"),
            MeasuredFigure("consistency", "invalid_outputs", "fries", "mixed"),
            MeasuredFigure("consistency", "invalid_outputs", "fries", "outputs"),
            MeasuredFigure("consistency", "invalid_outputs", "naive", "mixed"),
            MeasuredFigure("consistency", "surge", "fries", "lost"),
            MeasuredFigure("consistency", "surge", "restart", "lost"),
        ),
        exhibit=_TABLE_4.heading,
    ),
)
