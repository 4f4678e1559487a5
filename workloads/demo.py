"""The demo: RIoTBench replayed on two services side by side, one that shares tasks and one that does not.

`scenario` says which dataflows take part, in which order, and which steps are measured. `Stage` has the two services,
which do the same steps. `DemoOutcome` is the outcome as one JSON document for programs. On the screen are lines for
each step, and below them a table of the current state. `workloads.commands.demo` runs it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from braid_client.answers.dataflows import SubmitAnswer, TaskAnswer
from braid_client.answers.savings import EstimateAnswer, SavingsAnswer, WholeAnswer
from manager.cli import counted
from workloads.replay.live_replay import ReplayPart, counts_by_mode, results_folders, start_players
from workloads.replay.plan import Pacing
from workloads.replay.player import Player, measure
from workloads.report.summary import seconds
from workloads.results import ResultsFolder, StepResult, StepRow, WindowRow
from workloads.service import Outputs, OutputTally, RunFailed
from workloads.traces import DEFAULT_PACKED, REUSE_PACKED, Action, Mode, Trace, TracePhase, TraceStep, sequential
from workloads.workload import Workload, load_workload

WORKLOAD = "riotbench"
DEMO_DATAFLOWS = ("urban-1", "urban-3", "urban-stats", "taxi-3", "taxi-4", "grid-1", "grid-2", "grid-3")
"""The dataflows that take part: of three data sets, each with outputs that send an event every few seconds."""
SEED = 8
"""The seed of the order of arrivals and of the tenants."""
RATE = 1.0
"""The factor on the rates of the sources; drawing pictures keeps the tasks busy at the published rates."""
_WAYS = (REUSE_PACKED, DEFAULT_PACKED)
"""Both packed, so that the two differ only in sharing."""
PACING = Pacing(pace=1.0, windows=2, window=6.0, tenants=4)
EARLY_MEASURED_STEPS = frozenset({3})
"""The measured steps besides the last."""
LEAST_WINDOWS, MOST_WINDOWS = 3, 12
"""Windows at the last step: the demo measures until the service has metered a minute of it."""


def scenario(folder: Path) -> ReplayPart:
    """The demo as a part of a replay; each way has a results folder below `folder`."""
    return ReplayPart(
        workload=_chosen(load_workload(WORKLOAD)),
        trace=_trace(),
        ways={folder / way.name: way for way in _WAYS},
        rate=RATE,
    )


def _trace() -> Trace:
    """All dataflows arrive one by one; then the first leaves and returns."""
    drawn = sequential(WORKLOAD, DEMO_DATAFLOWS, SEED)
    arrivals = drawn.steps[: len(DEMO_DATAFLOWS)]
    first = arrivals[0].dataflow
    leaves = TraceStep(action=Action.REMOVE, dataflow=first, phase=TracePhase.WALK)
    returns = TraceStep(action=Action.SUBMIT, dataflow=first, phase=TracePhase.WALK)
    return replace(drawn, name="DEMO", steps=(*arrivals, leaves, returns))


def _chosen(whole: Workload) -> Workload:
    """The workload reduced to the dataflows that take part and the sources they read."""
    dataflows = {name: whole.dataflows[name] for name in DEMO_DATAFLOWS}
    tasks = [task for document in dataflows.values() for task in document["tasks"]]
    read = {task["config"]["source"] for task in tasks if task["type"] == "source"}
    return replace(
        whole,
        about={**whole.about, "dataflows": len(dataflows), "tasks": len(tasks)},
        sources=tuple(source for source in whole.sources if source.name in read),
        dataflows=dataflows,
    )


_MORE = 2
"""Further events that prove that an output goes on; the slowest output gets one every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The effect of a removal on the service that shares."""

    flow: SubmitAnswer
    stopped: Sequence[str]
    """Its tasks that no other dataflow uses."""
    released: Sequence[str]
    """Its tasks that run on for other dataflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputProgress:
    """The events of an output during and after the removal of another dataflow."""

    tenant: str
    dataflow: str
    sink: str
    before: int
    """Events before the removal was requested."""
    after: int
    longest: float
    """The longest gap between two messages since then, in seconds."""


class Side:
    """One service, its measurements, and the folder of its results."""

    def __init__(self, player: Player, results: ResultsFolder) -> None:
        self.player = player
        self.results = results
        self.counts: StepRow | None = None
        """The counts after the last step."""
        self.windows: tuple[WindowRow, ...] = ()
        """The windows of the last measured step."""


class Stage:
    """Both services with their tenants and dataflows; made by `demo_stage`."""

    def __init__(self, trace: Trace, shared: Side, alone: Side, counts: Mapping[Mode, Sequence[StepRow]]) -> None:
        self.trace = trace
        self.shared = shared
        self.alone = alone
        self._counts = counts
        self._flows: dict[str, SubmitAnswer] = {}
        """Submitted dataflows of the sharing service, by their names within the workload."""
        self._begun = time.time()

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides; the one that shares is first."""
        return self.shared, self.alone

    def do_step(self, number: int) -> SubmitAnswer | Removal:
        """Do a step on both services and wait until it has taken effect; return the effect on the sharing one."""
        step = self.trace.steps[number]
        requested = time.monotonic()
        answers = [side.player.commit(step) for side in self.sides]
        took = []
        for side in self.sides:
            side.player.wait_until_settled()
            took.append(time.monotonic() - requested)
        for side, took_seconds in zip(self.sides, took, strict=True):
            counted_dry = self._counts[side.player.way.mode][number]
            row, users = side.player.count(counted_dry, measured=self.is_measured(number), seconds=took_seconds)
            side.counts = row
            side.results.step_results.append(StepResult(step=row, users=users))
        return self._effect(step, *answers)

    def is_measured(self, number: int) -> bool:
        """True if the demo measures at a step."""
        return number in EARLY_MEASURED_STEPS or number == len(self.trace.steps) - 1

    def measure(self, number: int) -> Iterator[SavingsAnswer]:
        """Measure both services at the same time; yields the service's own savings after each window.

        At the last step it goes on until a minute is metered, but no longer than a minute or so.
        """
        is_last = number == len(self.trace.steps) - 1
        for side in self.sides:
            side.windows = ()
        time.sleep(PACING.settling)
        begun = time.time()
        for window in range(MOST_WINDOWS if is_last else PACING.windows):
            at = [(side.player, number) for side in self.sides]
            for side, row in zip(self.sides, measure(at, window, PACING), strict=True):
                side.windows += (row,)
                between = (begun, time.time())
                side.results.step_results[-1] = replace(
                    side.results.step_results[-1], windows=side.windows, between=between
                )
            account = self.shared.player.savings(begun if is_last else self._begun, time.time())
            yield account
            if is_last and account.metered_seconds and window + 1 >= LEAST_WINDOWS:
                return

    def await_outputs(self) -> None:
        """Wait for an event of each output of the sharing service."""
        self.shared.player.outputs.wait_for_events(dict.fromkeys(self._topics(), 1))

    def await_progress(self, removal: Removal, before: Mapping[str, OutputTally]) -> tuple[OutputProgress, ...]:
        """Wait until the other outputs have gone on after a removal; fail if one missed an event."""
        gone, outputs = removal.flow, self.shared.player.outputs
        # Events that were on their way have arrived by then.
        self._await_further_events(1)
        events_before = self._events(gone)
        self._await_further_events(_MORE)
        if (more := self._events(gone) - events_before) > 0:
            raise RunFailed(f"dataflow {gone.id} sent {more} events after its removal had taken effect")
        self.check_missing()
        return tuple(
            OutputProgress(
                tenant=flow.tenant,
                dataflow=flow.name,
                sink=output.sink,
                before=before[output.topic].events,
                after=outputs[output.topic].events,
                longest=outputs[output.topic].longest_gap,
            )
            for flow in self._flows.values()
            for output in flow.outputs
        )

    def check_missing(self) -> None:
        """Fail if an event is missing in an output of either service."""
        for side in self.sides:
            check_missing(side.player.way.name, side.player.outputs)

    def end(self) -> None:
        """Write the results of both services, with the savings of the measured minutes."""
        for side in self.sides:
            side.results.step_results = [
                side.player.with_metered_savings(result) for result in side.results.step_results
            ]
            side.results.finish()

    def _effect(
        self, step: TraceStep, shared: SubmitAnswer | None, alone: SubmitAnswer | None
    ) -> SubmitAnswer | Removal:
        if alone is not None and alone.reused:
            raise RunFailed(f"{alone.name}: a task was reused, although every task was submitted as fresh")
        if shared is not None:
            self._flows[step.dataflow] = shared
            return shared
        gone = self._flows.pop(step.dataflow)
        running = {task.instance for task in self.shared.player.operator.running_tasks()}
        tasks = (*gone.reused, *gone.started)
        return Removal(
            flow=gone,
            stopped=_ids(task for task in tasks if task.instance not in running),
            released=_ids(task for task in tasks if task.instance in running),
        )

    def _events(self, flow: SubmitAnswer) -> int:
        return sum(self.shared.player.outputs[output.topic].events for output in flow.outputs)

    def _await_further_events(self, more: int) -> None:
        """Wait until each output of the sharing service got so many further events."""
        outputs = self.shared.player.outputs
        outputs.wait_for_events({topic: outputs[topic].events + more for topic in self._topics()})

    def _topics(self) -> list[str]:
        return [output.topic for flow in self._flows.values() for output in flow.outputs]


@contextmanager
def demo_stage(folder: Path, notify: Callable[[str], None]) -> Iterator[Stage]:
    """Run both services while the context lasts; results go below `folder`, `notify` gets what the start waits for."""
    part = scenario(folder)
    folders = results_folders(part, PACING)
    with ExitStack() as held:
        players = start_players(part, PACING, held, lambda what, _seconds: notify(what))
        shared, alone = (Side(players[folder], folders[folder]) for folder in part.ways)
        yield Stage(part.trace, shared, alone, counts_by_mode(part, PACING))


def check_missing(name: str, outputs: Outputs) -> None:
    """Fail if an event is missing in an output of a service."""
    if missing := {topic: tally.missing for topic, tally in outputs.all().items() if tally.missing}:
        listed = ", ".join(f"{number} of {topic}" for topic, number in missing.items())
        raise RunFailed(f"{name}: events are missing: {listed}")


def _ids(tasks: Iterable[TaskAnswer]) -> list[str]:
    """The ids of tasks from the sources down, which is the order of their instance numbers."""
    return [task.id for task in sorted(tasks, key=lambda task: task.instance)]


@dataclass(kw_only=True)
class DemoOutcome:
    """The steps and measurements of a demo; filled while it runs."""

    submitted: list[dict[str, Any]] = field(default_factory=list)
    """In order of submission; a dataflow that left and returned is there twice."""
    removed: dict[str, Any] = field(default_factory=dict)
    others: Sequence[OutputProgress] = ()
    """The outputs of the dataflows that stayed."""
    with_sharing: dict[str, Any] = field(default_factory=dict)
    without_sharing: dict[str, Any] = field(default_factory=dict)
    account: dict[str, Any] = field(default_factory=dict)
    """The savings and shares that the sharing service reports."""
    report: str = ""
    """The path of the page."""
    seconds: float = 0.0

    def submit(self, flow: SubmitAnswer, counts: StepRow) -> None:
        """Add a submission and the counts after it."""
        self.submitted.append(
            {
                "dataflow": flow.id,
                "tenant": flow.tenant,
                "name": flow.name,
                "reused": _ids(flow.reused),
                "started": _ids(flow.started),
                "in_all": counts,
            }
        )

    def remove(self, removal: Removal, counts: StepRow) -> None:
        """Add the removal and the counts after it."""
        flow = removal.flow
        self.removed = {
            "dataflow": flow.id,
            "tenant": flow.tenant,
            "name": flow.name,
            "stopped": removal.stopped,
            "released": removal.released,
            "in_all": counts,
        }

    def measure(self, shared: Side, alone: Side, account: SavingsAnswer) -> None:
        """Set the measurements; the last call is that of the last step."""
        self.with_sharing, self.without_sharing = (
            {"in_all": side.counts, "windows": side.windows} for side in (shared, alone)
        )
        self.account = account.model_dump(mode="json")


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
    reused, started = _names(_ids(flow.reused)), _names(_ids(flow.started))
    _named(out, {"reused": reused, "started": started, "in all": _sums(counts)})


def show_removal(out: Console, removal: Removal, counts: StepRow) -> None:
    """Show the tasks that a removal stopped and left."""
    out.rule(escape(f"{removal.flow.tenant} removes {removal.flow.name}"), align="left")
    stopped, released = _names(removal.stopped), _names(removal.released)
    _named(out, {"stopped": stopped, "runs on for others": released, "in all": _sums(counts)})


def show_progress(out: Console, progress: Iterable[OutputProgress]) -> None:
    """Show that the other outputs went on."""
    table = _table("tenant", "dataflow", "output", "events before", "events now", "missing", "longest gap")
    for output in progress:
        table.add_row(
            escape(output.tenant),
            escape(output.dataflow),
            escape(output.sink),
            f"{output.before:,}",
            f"{output.after:,}",
            "none",
            f"{output.longest:.1f} s",
        )
    out.print("The other dataflows never stopped. Their outputs during and after the removal, at one batch a second:")
    out.print(table)


def show_window(out: Console, stage: Stage) -> None:
    """Show the newest measurement in one line."""
    shared, alone = (side.windows[-1] for side in stage.sides)
    text = (
        f"{shared.cores:.2f} cores with sharing, {alone.cores:.2f} without{_saved(shared.cores, alone.cores)}, in "
        f"{shared.seconds:.0f} s; median latency {seconds(shared.latency_p50)} and {seconds(alone.latency_p50)}"
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
        table.add_row("[bold]cores, measured[/]", *(f"[bold]{_mean(rows, 'cores')}[/]" for rows in windows), _UNKNOWN)
        for part in ("broker", "driver", "jvm", "workers"):
            table.add_row(f"  {part}", *(_mean(rows, f"cores_{part}") for rows in windows), _UNKNOWN)
    if (whole := _whole(account)) is not None:
        table.add_row(
            "cores, estimated by the service",
            f"{whole.measured.cores:.2f}",
            *(_estimated(estimate) for estimate in (whole.alone_packed, whole.alone_launched)),
        )
    if all(windows):
        table.add_row("median latency", *(seconds(rows[-1].latency_p50) for rows in windows), _UNKNOWN)
        table.add_row("output events per second", *(_mean(rows, "events_out", ",.0f") for rows in windows), _UNKNOWN)
        table.add_row("waiting events", *(f"{rows[-1].lag_events:,}" for rows in windows), _UNKNOWN)
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
    if shared <= alone:
        return f"{1 - shared / alone:.0%} fewer" if alone else "no fewer"
    return f"{shared / alone - 1:.0%} more"


def _saved(shared: float, alone: float) -> str:
    return f" ([green]{1 - shared / alone:.0%} saved[/])" if alone > shared else ""


def _mean(windows: Sequence[WindowRow], column: str, form: str = ".2f") -> str:
    return f"{fmean(getattr(row, column) for row in windows):{form}}"


def _estimated(estimate: EstimateAnswer) -> str:
    return f"about {estimate.likely:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"


def _named(out: Console, texts: Mapping[str, str]) -> None:
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
        f"{counted(counts.dataflows, 'dataflow')}, {counts.running_tasks} running tasks instead of {submitted} "
        f"([green]{saved:.0%} saved[/]), {counted(counts.jobs, 'job')}"
    )


def _table(*columns: str) -> Table:
    return Table(*columns, box=SIMPLE_HEAD)
