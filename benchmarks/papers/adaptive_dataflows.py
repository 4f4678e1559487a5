"""Paper 003: a thesis on dataflows that adapt to rates and machines, and whose state survives lost machines."""

from collections.abc import Mapping, Sequence

from benchmarks.papers.exhibits import (
    ComparedColumn,
    ComparedRow,
    Exhibit,
    Headline,
    MeasuredFigure,
    Paper,
    PaperBenchmark,
    PaperRange,
    Plot,
    Shown,
    Step,
    row_of,
)
from benchmarks.papers.page import spaced

_LIVE, _MACHINES = "adaptation live", "machines"
_SIMULATED = (
    "planning-times",
    "static-deployment",
    "adaptation-by-rate",
    "prediction-errors",
    "tolerance",
    "published-graphs",
)
"""The parts of the simulation, of which each is run by itself."""


def _simulated(part: str, what: str, *keys: Step) -> MeasuredFigure:
    return MeasuredFigure(part, part, {"what": what}, "ours", *keys)


_TABLE: dict[str, tuple[Shown, ...]] = {
    "BR": (0.67, 0.80, 0.68, 0.59, 0.44),
    "GA": (0.65, 0.79, 0.67, 0.48, 0.37),
    "SH": (0.45, 0.81, 0.60, 0.40, 0.29),
    "CE": (0.58, 0.81, 0.66, 0.42, 0.31),
    "own": (),
}
_VARIES = {"neither": "nothing varies", "machines": "machines vary", "rates": "rates vary", "both": "both vary"}
_STATIC = Exhibit(
    place="Table 4.2",
    title="Linear Road at 50 events a second, deployed once",
    columns=(
        ComparedColumn("profit"),
        *(ComparedColumn(f"Omega, {varies}") for varies in _VARIES.values()),
        ComparedColumn("of all that waits, rates vary"),
    ),
    rows=tuple(
        row_of(
            name,
            _simulated("static-deployment", f"profit at 50 events/s, {name}"),
            *(
                _simulated("static-deployment", f"Omega of static {name}, varying: {varies}", "arriving")
                for varies in _VARIES
            ),
            _simulated("static-deployment", f"Omega of static {name}, varying: rates", "with backlog"),
            paper=paper,
        )
        for name, paper in _TABLE.items()
    ),
    plot=Plot(kind="bars", up="profit, Omega"),
    note=(
        "The thesis gives neither the unit of its costs nor the costs of six tasks. These two numbers were chosen, "
        "among about ten pairs, so that rank and profit of the four deployments fit: the profits are partly fitted. "
        "**Not reproduced** is Omega while rates vary: a walk of 50 % around its mean leaves 0.8 of the capacity idle "
        "as often as short, and the thesis is between what leaves of what arrives and what leaves of all that waits."
    ),
)

_RATES = ("10", "20", "50", "100", "500", "2000")


def _rate_exhibit(
    place: str,
    title: str,
    *columns: tuple[str, str, Mapping[str, Shown]],
    up: str = "",
    note: str = "",
    rates: Sequence[str] = _RATES,
) -> Exhibit:
    """A column for each series: its title, its row in the results, and what the thesis says by rate."""
    return Exhibit(
        place=place,
        title=title,
        columns=tuple(ComparedColumn(name) for name, *_ in columns),
        rows=tuple(
            row_of(
                rate,
                *(_simulated("adaptation-by-rate", what, rate) for _, what, _ in columns),
                paper=tuple(paper.get(rate) for *_, paper in columns),
            )
            for rate in rates
        ),
        plot=Plot(kind="lines", up=up, across="events a second") if up else None,
        note=note,
    )


_GOAL = dict.fromkeys(_RATES, PaperRange(0.8))
_BY_RATE = (
    _rate_exhibit(
        "Figure 4.6 a and b",
        "Omega by rate while rates and machines vary",
        ("CE, deployed once", "Omega by rate, static CE", {"50": 0.31}),
        ("CE", "Omega by rate, CE", _GOAL),
        ("SH", "Omega by rate, SH", _GOAL),
        ("own", "Omega by rate, own", {}),
        up="Omega",
    ),
    _rate_exhibit(
        "Figure 4.6 c",
        "Profit by rate",
        ("CE", "profit by rate, CE", {"50": 0.29}),
        ("SH", "profit by rate, SH", {}),
        ("GA", "profit by rate, GA", {"50": 0.34}),
        ("own", "profit by rate, own", {}),
        up="profit (Theta)",
        note="GA takes too long here from 100 events a second on, in the thesis from 500 on.",
    ),
    _rate_exhibit(
        "Figure 4.6 c",
        "Profit of CE as a part of GA's",
        ("CE by GA", "profit of CE as a part of GA's", dict.fromkeys(_RATES, PaperRange(0.6, 0.8))),
        rates=("20", "50"),
    ),
    _rate_exhibit(
        "Figure 4.7 c",
        "The part of the cost that alternates save",
        ("CE", "cost that alternates save, CE", dict.fromkeys(_RATES, PaperRange(0.069, 0.275))),
        ("own", "cost that alternates save, own", {}),
        up="part saved",
        note="Braid's own algorithm keeps the best alternates while they are worth what they cost.",
    ),
)


def _planned(name: str, what: str, paper: Shown, *keys: Step) -> ComparedRow:
    return row_of(name, _simulated("planning-times", what, *keys), paper=(paper,))


_TIMES = Exhibit(
    place="Figure 4.7 a",
    title="Seconds of CPU to decide",
    columns=(ComparedColumn("", ",.3g"),),
    rows=(
        _planned("BR, Linear Road at 50 events/s", "seconds to deploy Linear Road at 50 events/s, BR", "over 10,000"),
        _planned("GA, Linear Road at 50 events/s", "seconds to deploy Linear Road at 50 events/s, GA", None),
        *(
            _planned(f"{name}, {what} at 8,000 events/s", f"seconds to deploy at 8,000 events/s, {name}", paper, what)
            for name in ("CE", "SH")
            for what, paper in (("Linear Road", 2.5), ("99 tasks", None))
        ),
        _planned("own, 99 tasks, to adapt", "seconds to adapt 99 tasks at 8,000 events/s, own", None),
        *(
            _planned(f"own, {many}, to deploy", "seconds to deploy many tasks, own", None, many)
            for many in ("801 tasks", "3,000 tasks", "10,002 tasks")
        ),
        *(
            _planned(
                f"own, {many} dataflows that share tasks",
                f"seconds to plan {many} dataflows that share tasks, own",
                None,
            )
            for many in ("1,000", "10,000")
        ),
    ),
)

_CORES = Exhibit(
    place="Figure 4.7 b",
    title="Cores to deploy Linear Road by rate",
    columns=tuple(ComparedColumn(name, ",.0f") for name in ("CE", "SH", "own")),
    rows=tuple(
        row_of(
            rate,
            *(
                _simulated("planning-times", f"cores to deploy Linear Road by rate, {name}", rate)
                for name in ("CE", "SH", "own")
            ),
        )
        for rate in ("10", "100", "1000", "4000", "8000")
    ),
    plot=Plot(kind="lines", up="cores", across="events a second", is_log=True),
    note="In the thesis SH wastes more the higher the rate, and CE grows with it.",
)

_ALGORITHMS = ("CAF", "WAAF", "WPA", "WPO", "WPP", "PLAStiCC", "own")
_AHEAD = "prediction-errors"
_ERRORS = ("0%", "5%", "10%", "15%", "20%")
_LOOK_AHEAD = (
    Exhibit(
        place="Figure 5.3",
        title="Perfect predictions of 20 minutes",
        columns=(
            ComparedColumn("Omega"),
            ComparedColumn("profit"),
            ComparedColumn("intervals off the tolerance, of 144", ".0f"),
        ),
        rows=tuple(
            row_of(
                name,
                _simulated(_AHEAD, "Omega with perfect predictions of 20 minutes", name),
                _simulated(_AHEAD, "profit with perfect predictions of 20 minutes", name),
                _simulated(_AHEAD, "intervals off the goal's tolerance", name),
                paper=() if name == "own" else (PaperRange(0.8),),
            )
            for name in _ALGORITHMS
        ),
        note="Profit is that of chapter 5, Gamma - sigma * cost.",
    ),
    Exhibit(
        place="Figures 5.3 b and 5.4",
        title="Profit of PLAStiCC by how far it looks ahead, and by the error of predictions",
        columns=tuple(ComparedColumn(spaced(error)) for error in _ERRORS),
        rows=tuple(
            row_of(
                f"{minutes} min",
                *(
                    _simulated(_AHEAD, f"profit of PLAStiCC by horizon, errors of {error}", f"{minutes} min")
                    for error in _ERRORS
                ),
                paper=(paper,),
            )
            for minutes, paper in ((10, 0.6), (20, None), (30, None), (60, 0.7))
        ),
        plot=Plot(kind="lines", up="profit"),
        note=(
            "**Not reproduced** is that profit grows with the horizon of perfect predictions: the throughput over a "
            "horizon lets a shortage now be made up for later, so steps come late."
        ),
    ),
    Exhibit(
        place="Section 5.4",
        title="Profit gained over reaction (CAF) by the error of predictions",
        columns=(ComparedColumn("PLAStiCC", "+.0%"), ComparedColumn("own", "+.0%")),
        rows=tuple(
            row_of(
                spaced(error),
                *(
                    _simulated(_AHEAD, f"gain over reaction (CAF) by error, {name}", error)
                    for name in ("PLAStiCC", "own")
                ),
                paper=("up to 20 %",) if error == "0%" else (),
            )
            for error in _ERRORS
        ),
        plot=Plot(kind="lines", up="gain", across="mean error"),
    ),
    Exhibit(
        place="Figure 5.5",
        title="Profit with errors of 10 % and a bias",
        columns=(ComparedColumn("bias of -5 %"), ComparedColumn("bias of +5 %")),
        rows=tuple(
            row_of(
                name,
                *(_simulated(_AHEAD, f"profit with 10 % error and a bias of {bias}", name) for bias in ("-5%", "+5%")),
            )
            for name in ("WPA", "WPO", "WPP", "PLAStiCC", "own")
        ),
        plot=Plot(kind="bars", up="profit"),
        note="The text of the thesis gives ranks and no numbers: PLAStiCC leads while errors are small, WPP is last.",
    ),
)


def _side_by_side(title: str) -> Exhibit:
    kinds = {"intervals in tolerance": ".2f", "profit": ".2f", "cost": ".0f"}
    return Exhibit(
        place="",
        title=f"All algorithms at 100 events a second, {title}",
        columns=tuple(ComparedColumn(kind, form, is_drawn=kind != "cost") for kind, form in kinds.items()),
        rows=tuple(
            row_of(name, *(_simulated("tolerance", f"{kind}, {title}", name) for kind in kinds))
            for name in ("SH", *_ALGORITHMS)
        ),
        plot=Plot(kind="bars", up="part of the intervals; profit"),
        note="Over a walk, a wave and a spike of rates while machines vary.",
    )


_COMPARED = ("WPO", "WPP", "PLAStiCC", "own")


def _graph(graph: str, cores: str) -> ComparedRow:
    what = f"{graph}, {cores} cores for a task"
    return row_of(
        what.replace(" 1 cores", " 1 core"),
        *(_simulated("published-graphs", what, name, "profit") for name in _COMPARED),
        *(_simulated("published-graphs", what, name, "in tolerance") for name in _COMPARED[2:]),
    )


_GRAPHS = Exhibit(
    place="",
    title="Two published graphs",
    columns=(
        *(ComparedColumn(f"profit, {name}") for name in _COMPARED),
        *(ComparedColumn(f"intervals in tolerance, {name}") for name in _COMPARED[2:]),
    ),
    rows=tuple(
        _graph(graph, cores) for graph in ("HEFT, 10 tasks", "CyberShake, 50 tasks") for cores in ("0.3", "1", "2")
    ),
    note="By the cores that the best alternates need for a task, over a walk and a wave of rates.",
)

_WAVE = Exhibit(
    place="",
    title="A wave of events on real Spark",
    columns=(
        ComparedColumn("seconds below the target", ".0f"),
        ComparedColumn("mean Omega"),
        ComparedColumn("mean value of an event"),
        ComparedColumn("core-seconds", ".1f"),
        ComparedColumn("longest an event took, s", ".1f"),
        ComparedColumn("events lost", ".0f"),
    ),
    rows=tuple(
        row_of(
            name,
            *(
                MeasuredFigure(_LIVE, "wave", way, figure)
                for figure in ("below_target_s", "omega_mean", "value_mean", "core_s", "latency_worst_s", "lost")
            ),
        )
        for way, name in (
            ("none", "the best alternate only"),
            ("thresholds", "thresholds of the rate"),
            ("braid", "Braid's decision"),
        )
    ),
    note="The thesis simulates. Here three services get the same wave, one after another.",
    needs_quiet=True,
)


def _on_machines(
    place: str, title: str, form: str, *rows: tuple[str, Shown, MeasuredFigure | None], note: str = ""
) -> Exhibit:
    return Exhibit(
        place=place,
        title=title,
        columns=(ComparedColumn("", form),),
        rows=tuple(row_of(name, reading, paper=(paper,)) for name, paper, reading in rows),
        note=note,
        needs_quiet=True,
    )


_RESILIENCE = (
    _on_machines(
        "Figure 6.10",
        "What copies cost",
        ".2f",
        *(
            (
                f"{copies} copies" if copies != "1" else "1 copy",
                "throughput 15 % lower" if copies == "1" else None,
                MeasuredFigure(_MACHINES, "replication_overhead", copies, "cpu"),
            )
            for copies in ("1", "2")
        ),
        note="Here it is the CPU, as a multiple of that without copies, at a rate that all can take.",
    ),
    _on_machines(
        "Figure 6.11 b",
        "Seconds until another machine has taken over some of the work",
        ".2f",
        ("reaction", PaperRange(1.5, 3.0), MeasuredFigure(_MACHINES, "scale_out_s")),
        note="Here it is the longest silence of an output while a host is handed over.",
    ),
    _on_machines(
        "Figure 6.12",
        "What is copied in two seconds, of the whole state",
        ".1%",
        ("words of books", 0.07, None),
        ("0.1 % of the keys change", None, MeasuredFigure(_MACHINES, "checkpoint_share", "0.001")),
        ("1 % of the keys change", None, MeasuredFigure(_MACHINES, "checkpoint_share", "0.01")),
    ),
    _on_machines(
        "Figure 6.13 b",
        "Seconds until outputs come from elsewhere after a loss",
        ".2f",
        ("three to six machines at once", PaperRange(1.2, 1.5), None),
        ("one machine with its disk, median", None, MeasuredFigure(_MACHINES, "take_over_s", "warm", "1", "p50")),
        ("one machine with its disk, longest", None, MeasuredFigure(_MACHINES, "take_over_s", "warm", "1", "max")),
        ("with three jobs, longest", None, MeasuredFigure(_MACHINES, "take_over_s", "warm", "3", "max")),
        ("the other machine has to start, longest", None, MeasuredFigure(_MACHINES, "take_over_s", "cold", "1", "max")),
        ("events lost in all of these", None, MeasuredFigure(_MACHINES, "lost")),
        ("events doubled in all of these", None, MeasuredFigure(_MACHINES, "doubled")),
    ),
)

ADAPTIVE_DATAFLOWS = Paper(
    number="003",
    title="Adaptive and resilient stream processing on cloud infrastructure",
    source="A thesis at the University of Southern California",
    about=(
        "Chapters 4 and 5 simulate, and so does Braid: Linear Road and a drawn dataflow for twelve hours, with prices "
        "and speeds of EC2's m1 classes in 2013, and machines that vary by synthetic traces. BR is brute force, GA "
        "evolves, CE and SH are greedy, with a view of all and of neighbours; CAF to WPP react to what is or was or "
        "may be, PLAStiCC looks ahead; *own* is Braid's algorithm. [Provisioning](../provisioning.md) explains them."
    ),
    benchmarks=(
        *(
            PaperBenchmark(name=part, module="benchmarks.adaptation", quick=("--quick", part), full=(part,))
            for part in _SIMULATED
        ),
        PaperBenchmark(name=_LIVE, module="benchmarks.adaptation_live"),
        PaperBenchmark(name=_MACHINES, module="benchmarks.machines"),
    ),
    exhibits=(
        _STATIC,
        *_BY_RATE,
        _TIMES,
        _CORES,
        *_LOOK_AHEAD,
        _side_by_side("with alternates"),
        _side_by_side("best alternates only"),
        _GRAPHS,
        _WAVE,
        *_RESILIENCE,
    ),
    missing={
        "Figures 1.1 to 1.6: speeds of rented machines": "they need months of a cloud",
        "Figure 3.7: errors of forecasts chosen for each customer": (
            "its readings of power are not published, and alternates are not chosen by key"
        ),
        "Figure 6.10: peak throughput by reducers, against Storm and Cassandra": (
            "two cores have no room for more reducers"
        ),
        "Figures 6.11 a and c: queues while load is balanced, and latency by the interval of checkpoints": (
            "each batch is copied, so there is no such interval"
        ),
        "Figure 6.13 a: rates and backups during a loss": "only the silence is measured",
        "Figure 6.13 b: several machines lost at once": "no benchmark kills more than one",
    },
    headline=Headline(
        text=(
            "Over a walk, a wave and a spike of rates while machines vary, Braid's own algorithm keeps the throughput "
            "within its tolerance in {0:.0%} of the intervals with a profit of {1:.2f}; the thesis' PLAStiCC does so "
            "in {2:.0%} with {3:.2f}."
        ),
        readings=tuple(
            _simulated("tolerance", f"{kind}, with alternates", name)
            for name in ("own", "PLAStiCC")
            for kind in ("intervals in tolerance", "profit")
        ),
        exhibit="All algorithms at 100 events a second, with alternates",
    ),
)
