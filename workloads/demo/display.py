"""How the demo shows what it did and measured: lines for each step, and below them a table of what is now."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from manager.answers import EstimateAnswer, SavingsAnswer, SubmitAnswer, WholeAnswer
from workloads.demo.stage import OutputProgress, Removal, Side, Stage, in_order
from workloads.results import StepRow, WindowRow

_LABEL = 18
_UNKNOWN = "-"
_LATE = 3.0
"""Seconds of latency from which on a service does not keep up; at a batch a second it is some 0.7 where all is well."""


class Board:
    """What is now, below the lines that stay; elsewhere than on a terminal, what is waited for is a line as well."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self._spinner = Spinner("dots")
        self._table: RenderableType = ""
        self._said = ""
        self.live = Live(console=out, get_renderable=self._drawn, transient=True, auto_refresh=out.is_terminal)

    def awaits(self, what: str) -> None:
        """Show what is waited for."""
        self._spinner.update(text=escape(what))
        if not self.out.is_terminal and what != self._said:
            self._said = what
            self.out.print(escape(f"... {what}"), soft_wrap=True)

    def now(self, stage: Stage, account: SavingsAnswer | None) -> None:
        """Show what runs and what it takes."""
        self._table = comparison(*stage.sides, account)

    def _drawn(self) -> RenderableType:
        return Group(self._table, self._spinner) if self.out.is_terminal else ""


def show_submission(out: Console, flow: SubmitAnswer, counts: StepRow) -> None:
    """What a submission reused and started."""
    out.rule(escape(f"{flow.tenant} submits {flow.name}"), align="left")
    reused, started = ([task.id for task in in_order(each)] for each in (flow.reused, flow.started))
    _named(out, {"reused": _names(reused), "started": _names(started), "in all": _sums(counts)})


def show_removal(out: Console, removal: Removal, counts: StepRow) -> None:
    """What a removal stopped and left."""
    out.rule(escape(f"{removal.flow.tenant} removes {removal.flow.name}"), align="left")
    stopped, released = _names(removal.stopped), _names(removal.released)
    _named(out, {"stopped": stopped, "runs on for others": released, "in all": _sums(counts)})


def show_progress(out: Console, progress: Iterable[OutputProgress]) -> None:
    """How the other outputs went on."""
    table = _table("tenant", "dataflow", "output", "events before", "events by now", "numbers missing", "longest wait")
    for each in progress:
        table.add_row(
            escape(each.tenant),
            escape(each.dataflow),
            escape(each.sink),
            f"{each.before:,}",
            f"{each.after:,}",
            "none",
            f"{each.longest:.1f} s",
        )
    out.print("The others never stopped. Their outputs while and after the removal, at one batch a second:")
    out.print(table)


def show_window(out: Console, stage: Stage) -> None:
    """What was measured just now, in one line."""
    shared, alone = (side.windows[-1] for side in stage.sides)
    told = (
        f"{shared.cores:.2f} cores with sharing, {alone.cores:.2f} without{_saved(shared.cores, alone.cores)}, in "
        f"{shared.seconds:.0f} s; latency p50 {_seconds(shared.latency_p50)} and {_seconds(alone.latency_p50)}"
    )
    _named(out, {"measured": told})


def comparison(shared: Side, alone: Side, account: SavingsAnswer | None) -> Table:
    """What runs and what it takes with sharing, without, and in a job for each dataflow."""
    table = _table("", "shared and packed", "not shared, packed", "not shared, a job for each")
    for column in table.columns[1:]:
        column.justify = "right"
    one, other = shared.counts, alone.counts
    if one is None or other is None:
        return table
    table.add_row("dataflows", *(str(one.dataflows) for _ in range(3)))
    table.add_row("tasks", f"{one.running_tasks:,}", f"{other.running_tasks:,}", f"{one.submitted_tasks:,}")
    table.add_row("jobs", str(one.jobs), str(other.jobs), str(one.dataflows))
    windows = (shared.windows, alone.windows)
    if all(windows):
        table.add_row("[bold]cores, measured[/]", *(f"[bold]{_cores(each)}[/]" for each in windows), _UNKNOWN)
        for part in ("broker", "driver", "jvm", "workers"):
            table.add_row(f"  {part}", *(_part(each, part) for each in windows), _UNKNOWN)
    if (whole := _whole(account)) is not None:
        table.add_row(
            "cores, by its own account",
            f"{whole.measured.cores:.2f}",
            *(_estimated(each) for each in (whole.alone_packed, whole.alone_launched)),
        )
    if all(windows):
        table.add_row("latency, p50", *(_seconds(each[-1].latency_p50) for each in windows), _UNKNOWN)
        table.add_row("events a second at the outputs", *(_events(each) for each in windows), _UNKNOWN)
        table.add_row("events that wait", *(f"{each[-1].lag_events:,}" for each in windows), _UNKNOWN)
    return table


def show_end(out: Console, stage: Stage, account: SavingsAnswer | None) -> None:
    """What all of it cost, and how that is to be read."""
    out.rule("What it costs", align="left")
    out.print(comparison(*stage.sides, account))
    if any((side.windows[-1].latency_p50 or 0.0) > _LATE for side in stage.sides):
        out.print(
            "[yellow]This machine was too busy for both services: outputs came late, and what cannot keep up takes "
            "fewer cores than it needs. To see what sharing saves, run the demo again where little else runs.[/]"
        )
    else:
        shared, alone = (fmean(row.cores for row in side.windows) for side in stage.sides)
        out.print(f"Sharing took {_kept(shared, alone)} cores than the same dataflows, packed as well, without it.")
    if (whole := _whole(account)) is not None:
        sharing, packing = whole.saving_by_sharing, whole.saving_by_packing
        out.print(
            f"By the account of the service that shares, sharing saves {_estimated(sharing)} cores; packing alone "
            f"would save {_estimated(packing)}, which is told apart because it needs no sharing."
        )
    windows = stage.shared.windows
    out.print(
        f"The first two columns were measured side by side, in {len(windows)} windows of {windows[0].seconds:.0f} s, "
        "on this machine with whatever else it did meanwhile: an example, no benchmark. Cores are those of broker, "
        "driver, JVM and Python workers, without the manager. The last column was not run: the service that shares "
        "estimates it from the CPU of each task and the cost of a batch, and the second column likewise, so that the "
        "estimate can be held against what was measured. It accounts for whole minutes, which may have begun before "
        "the windows.\n"
    )


def _whole(account: SavingsAnswer | None) -> WholeAnswer | None:
    """The account of all that runs, as soon as a minute of it is settled."""
    return account.whole if account is not None and account.metered_seconds else None


def _kept(shared: float, alone: float) -> str:
    """How many cores fewer, or more."""
    if shared <= alone:
        return f"{1 - shared / alone:.0%} fewer" if alone else "no fewer"
    return f"{shared / alone - 1:.0%} more"


def _saved(shared: float, alone: float) -> str:
    return f" ([green]{1 - shared / alone:.0%} saved[/])" if alone > shared else ""


def _cores(windows: Sequence[WindowRow]) -> str:
    return f"{fmean(row.cores for row in windows):.2f}"


def _part(windows: Sequence[WindowRow], part: str) -> str:
    return f"{fmean(getattr(row, f'cores_{part}') for row in windows):.2f}"


def _events(windows: Sequence[WindowRow]) -> str:
    return f"{fmean(row.events_out for row in windows):,.0f}"


def _seconds(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f} s"


def _estimated(estimate: EstimateAnswer) -> str:
    return f"about {estimate.likely:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _named(out: Console, told: Mapping[str, str]) -> None:
    """Lines with a name before each."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", min_width=_LABEL, style="bold")
    for name, text in told.items():
        lines.add_row(name, text)
    out.print(lines)


def _names(names: Sequence[str]) -> str:
    return escape(", ".join(names)) or _UNKNOWN


def _sums(counts: StepRow) -> str:
    submitted = counts.submitted_tasks
    saved = 1 - counts.running_tasks / submitted if submitted else 0.0
    return (
        f"{_counted(counts.dataflows, 'dataflow')}, {counts.running_tasks} running tasks instead of {submitted} "
        f"([green]{saved:.0%} saved[/]), {_counted(counts.jobs, 'job')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _table(*columns: str) -> Table:
    return Table(*columns, box=SIMPLE_HEAD)
