"""Paper 000: pipelines that are planned, and changed while they run."""

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

_PLANNER, _CHANGES = "planner", "changes"
_PARTS = ("planning", "reuse", "scenarios")
_SCENARIOS = {"house": "simple: a house", "highway": "middle: a highway", "patients": "complex: patients"}


def _times(place: str, title: str, across: str, series: dict[str, str], points: tuple[int, ...]) -> Exhibit:
    """Milliseconds of planning by the size of a pipeline; each series with its name in the results."""
    return Exhibit(
        place=place,
        title=title,
        columns=tuple(ComparedColumn(name, ",.1f") for name in series),
        rows=tuple(
            row_of(f"{many}", *(MeasuredFigure(_PLANNER, "planning", key, f"{many}") for key in series.values()))
            for many in points
        ),
        plot=Plot(kind="lines", up="ms", across=across, is_log=True),
    )


_GROWTH = Exhibit(
    place="Figure 6",
    title="How planning grows: the power of the size",
    columns=(ComparedColumn("", ".1f"),),
    rows=tuple(
        row_of(name, MeasuredFigure(_PLANNER, "planning", "growth", key), paper=(paper,))
        for name, key, paper in (
            ("steps in a row", "steps_ms", "exponential"),
            ("joins that want both alike", "joins_equal_ms", "exponential, faster than steps"),
            ("joins that take either", "joins_either_ms", "exponential, fastest"),
        )
    ),
    note="The paper plans up to 16 steps as a problem of constraints. Its figure's numbers are lost.",
)


_OVERHEAD = Exhibit(
    place="Table 4",
    title="What a pipeline takes, in multiples of the static one",
    columns=(
        ComparedColumn("with variation points"),
        ComparedColumn("planned"),
        ComparedColumn("ms to plan", ".0f", is_drawn=False),
    ),
    rows=tuple(
        row_of(
            title,
            None,
            MeasuredFigure(_PLANNER, "scenarios", name, "ratio"),
            MeasuredFigure(_PLANNER, "scenarios", name, "planning_ms"),
            paper=paper,
        )
        for (name, title), paper in zip(_SCENARIOS.items(), ((1.13, 1.46), (1.11, 1.27), (1.10, 1.31)), strict=True)
    ),
    plot=Plot(kind="bars", up="times the static one"),
    note=(
        "The paper's library casts and looks up what runs for each record. Here a planned pipeline becomes the same "
        "tasks as the static one, so this is a check and not much of an experiment."
    ),
)

_WAYS = {"planned again": "replanned_s", "query restarted": "query_s", "program restarted": "program_s"}
_RESTARTS = Exhibit(
    place="Figure 10",
    title="A data set in sections, with another plan before each but the first",
    columns=tuple(ComparedColumn(f"{name}, s", ",.0f") for name in _WAYS),
    rows=tuple(
        row_of(
            f"{sections}",
            *(MeasuredFigure(_CHANGES, "new_plans", "seconds", f"{sections}", key) for key in _WAYS.values()),
        )
        for sections in (1, 2, 4, 8, 20, 80)
    ),
    plot=Plot(kind="lines", up="s", across="sections", is_log=True),
    note=(
        "The pipeline of the house, and a count below it. The time of a program that is restarted more often than four "
        "times is estimated from what each start adds. The outputs are equal, event for event."
    ),
)


def _less(name: str, paper: Shown, *path: str) -> ComparedRow:
    return row_of(name, MeasuredFigure(_CHANGES, "new_plans", *path), paper=(paper,))


_LESS = Exhibit(
    place="Table 5",
    title="How much less time the most sections take if they are planned again",
    columns=(ComparedColumn("", ".0%"),),
    rows=(
        _less("than with a restarted program", 0.9, "whole_less", "program_s"),
        _less("than with a restarted query", None, "whole_less", "query_s"),
        _less("than with a restarted program, what is beyond one section", None, "changes_less", "program_s"),
        _less("than with a restarted query, what is beyond one section", None, "changes_less", "query_s"),
    ),
    note="In the paper of 80 sections, of all three scenarios; a quick run here has four.",
)
_REUSE = Exhibit(
    place="",
    title="Planning for reuse: tasks that run, of those when each is planned alone",
    columns=(ComparedColumn("all tasks"), ComparedColumn("between sources and outputs")),
    rows=tuple(
        row_of(name, *(MeasuredFigure(_PLANNER, "reuse", key, figure) for figure in ("ratio", "between_ratio")))
        for key, name in (("narrow", "places allow three of six modules"), ("open", "places allow any module"))
    ),
)

PLANNED_PIPELINES = Paper(
    number="000",
    title="Adaptive on-the-fly changes in distributed processing pipelines",
    source="Frontiers in Big Data, 2021",
    about=(
        "The paper plans pipelines of Spark by constraints on a cluster of six machines. Here it is one machine with "
        "two cores. The values of its tables 4 and 5 and of its figures are pictures, so only its text can be compared."
    ),
    benchmarks=(
        PaperBenchmark(name=_PLANNER, module="benchmarks.planner", quick=("--quick", *_PARTS), full=_PARTS),
        PaperBenchmark(name=_CHANGES, module="benchmarks.planner", quick=("--quick", "new_plans"), full=("new_plans",)),
    ),
    exhibits=(
        _GROWTH,
        _times("Figure 6 a", "Steps in a row", "steps", {"steps": "steps_ms"}, (1, 2, 4, 8, 16, 32, 64, 100, 200)),
        _times(
            "Figure 6 b",
            "Alternatives for each of four steps",
            "alternatives",
            {"alternatives": "alternatives_ms"},
            (1, 2, 5, 10, 20, 35, 50),
        ),
        _times(
            "Figure 6 c",
            "Joins",
            "joins",
            {"both alike": "joins_equal_ms", "either": "joins_either_ms"},
            (1, 2, 4, 8, 16, 32, 50),
        ),
        _OVERHEAD,
        _RESTARTS,
        _LESS,
        _REUSE,
    ),
    missing={
        "Table 4 and figure 8: overhead in iterations on Spark, over 240 iterations": (
            "measured without Spark; pipelines that are not canonically equal were not measured"
        ),
        "Figure 10: the highway and the patients": "only the house has a plain program",
        "Figure 10: a program restarted up to 80 times": "estimated beyond four",
        "the library with variation points alone": "Braid has no such way",
    },
    headline=Headline(
        text=(
            "A data set whose pipeline is planned again between its sections takes {0:.0%} less time than with a "
            "program that is restarted, in the paper about nine tenths. A planned pipeline takes {1:.2f}, {2:.2f} and "
            "{3:.2f} times what a static one takes, in the paper 1.46, 1.27 and 1.31 times. The time to plan grows "
            "with the power {4:.1f} of the steps, in the paper exponentially."
        ),
        readings=(
            MeasuredFigure(_CHANGES, "new_plans", "whole_less", "program_s"),
            *(MeasuredFigure(_PLANNER, "scenarios", name, "ratio") for name in _SCENARIOS),
            MeasuredFigure(_PLANNER, "planning", "growth", "steps_ms"),
        ),
        exhibit=_OVERHEAD.heading,
    ),
)
