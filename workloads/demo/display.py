"""The demo on the screen: lines for each step, and below them a table of the current state."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from manager.answers.dataflows import SubmitAnswer
from manager.answers.savings import EstimateAnswer, SavingsAnswer, WholeAnswer
from workloads.demo.stage import OutputProgress, Removal, Side, Stage, in_order
from workloads.results import StepRow, WindowRow

_LABEL = 18
_UNKNOWN = "-"
_LATE = 3.0
"""Seconds of latency beyond which a service does not keep up; at a batch a second some 0.7 are normal."""


class Board:
    """The current state, drawn below the lines; where there is no terminal each wait is a line of its own."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self._spinner = Spinner("dots")
        self._table: RenderableType = ""
        self._last_wait = ""
        self.live = Live(console=out, get_renderable=self._drawn, transient=True, auto_refresh=out.is_terminal)

    def show_wait(self, what: str) -> None:
        """Show what the demo waits for."""
        self._spinner.update(text=escape(what))
        if not self.out.is_terminal and what != self._last_wait:
            self._last_wait = what
            self.out.print(escape(f"... {what}"), soft_wrap=True)

    def show_state(self, stage: Stage, account: SavingsAnswer | None) -> None:
        """Show what runs and what it costs."""
        self._table = comparison(*stage.sides, account)

    def _drawn(self) -> RenderableType:
        return Group(self._table, self._spinner) if self.out.is_terminal else ""


def show_submission(out: Console, flow: SubmitAnswer, counts: StepRow) -> None:
    """Show the tasks that a submission reused and started."""
    out.rule(escape(f"{flow.tenant} submits {flow.name}"), align="left")
    reused, started = ([task.id for task in in_order(each)] for each in (flow.reused, flow.started))
    _named(out, {"reused": _names(reused), "started": _names(started), "in all": _sums(counts)})


def show_removal(out: Console, removal: Removal, counts: StepRow) -> None:
    """Show the tasks that a removal stopped and left."""
    out.rule(escape(f"{removal.flow.tenant} removes {removal.flow.name}"), align="left")
    stopped, released = _names(removal.stopped), _names(removal.released)
    _named(out, {"stopped": stopped, "runs on for others": released, "in all": _sums(counts)})


def show_progress(out: Console, progress: Iterable[OutputProgress]) -> None:
    """Show that the other outputs went on."""
    table = _table("tenant", "dataflow", "output", "events before", "events now", "missing", "longest gap")
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
    out.print("The other dataflows never stopped. Their outputs during and after the removal, at one batch a second:")
    out.print(table)


def show_window(out: Console, stage: Stage) -> None:
    """Show the newest measurement in one line."""
    shared, alone = (side.windows[-1] for side in stage.sides)
    text = (
        f"{shared.cores:.2f} cores with sharing, {alone.cores:.2f} without{_saved(shared.cores, alone.cores)}, in "
        f"{shared.seconds:.0f} s; median latency {_seconds(shared.latency_p50)} and {_seconds(alone.latency_p50)}"
    )
    _named(out, {"measured": text})


def comparison(shared: Side, alone: Side, account: SavingsAnswer | None) -> Table:
    """A table of what runs and its cost: with sharing, without it, and with a job for each dataflow."""
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
            "cores, estimated by the service",
            f"{whole.measured.cores:.2f}",
            *(_estimated(each) for each in (whole.alone_packed, whole.alone_launched)),
        )
    if all(windows):
        table.add_row("median latency", *(_seconds(each[-1].latency_p50) for each in windows), _UNKNOWN)
        table.add_row("output events per second", *(_events(each) for each in windows), _UNKNOWN)
        table.add_row("waiting events", *(f"{each[-1].lag_events:,}" for each in windows), _UNKNOWN)
    return table


def show_end(out: Console, stage: Stage, account: SavingsAnswer | None) -> None:
    """Show the costs, and explain how they were measured."""
    out.rule("What it costs", align="left")
    out.print(comparison(*stage.sides, account))
    if any((side.windows[-1].latency_p50 or 0.0) > _LATE for side in stage.sides):
        out.print(
            "[yellow]This machine was too busy for both services: outputs were late, and a service that cannot keep up "
            "uses fewer cores than it needs. To see what sharing saves, run the demo again on an idle machine.[/]"
        )
    else:
        shared, alone = (fmean(row.cores for row in side.windows) for side in stage.sides)
        out.print(f"Sharing used {_kept(shared, alone)} cores than the same dataflows without sharing, packed as well.")
    if (whole := _whole(account)) is not None:
        saved = whole.saved
        sharing = saved.cores_by_sharing.cores if saved.cores_by_sharing else 0.0
        out.print(
            f"Of the cores of a job for each dataflow, the sharing service saved {sharing:.2f} by sharing, as it "
            f"measured, and {_estimated(saved.cores_by_packing)} by packing."
        )
    windows = stage.shared.windows
    out.print(
        f"The first two columns were measured side by side, in {len(windows)} windows of {windows[0].seconds:.0f} s, "
        "on this machine and beside its other work: an example, not a benchmark. Cores are those of the broker, the "
        "driver, the JVM and the Python workers, without the manager. The last column was not run: the sharing "
        "service estimates it from the CPU of each task and the cost of a batch. It estimates the second column in "
        "the same way, so you can compare that estimate with the measurement. Estimates are for whole minutes, which "
        "may begin before the windows.\n"
    )


def _whole(account: SavingsAnswer | None) -> WholeAnswer | None:
    """The savings of all that runs, once a minute of them is metered."""
    return account.whole if account is not None and account.metered_seconds else None


def _kept(shared: float, alone: float) -> str:
    """The difference in cores, as text."""
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


def _named(out: Console, texts: Mapping[str, str]) -> None:
    """Print lines, each with a name before it."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(justify="right", min_width=_LABEL, style="bold")
    for name, text in texts.items():
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
