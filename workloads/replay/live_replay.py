"""A live replay: traces on running services, one for each way of each trace, side by side.

Ways that are compared are at the same step at the same time and are measured in the same windows, so that other work of
the machine disturbs all of them alike. The progress is a bar with the time left on a terminal, else a line for each
step.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from merge import each_step
from workloads.replay.dry_replay import dry_rows
from workloads.replay.plan import (
    AssignedWorkload,
    Pacing,
    awaited_steps,
    measured_steps,
    seconds_of,
    tenants_of,
    total_seconds,
)
from workloads.replay.player import Player, measure, player_on_service
from workloads.results import ResultsFolder, StepResult, StepRow, WindowRow, manifest_of
from workloads.traces import Mode, Trace, TraceStep, Way
from workloads.workload import Workload, WorkloadSource


@contextmanager
def progress(out: Console, name: str, seconds: float) -> Iterator[Callable[[str, float], None]]:
    """Show a replay of so many planned seconds; yields the callback for what it does and how much is done."""
    if not out.is_terminal:
        yield _lines(out, name)
        return
    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=out, transient=True, speed_estimate_period=300.0) as bar:
        task = bar.add_task("", total=seconds, name=name)

        def on_progress(what: str, done: float) -> None:
            bar.update(task, advance=done, description=what or None)

        yield on_progress


def _lines(out: Console, name: str) -> Callable[[str, float], None]:
    shown = [""]

    def on_progress(what: str, _done: float) -> None:
        if what and what != shown[-1]:
            shown.append(what)
            out.print(escape(f"{name}: {what}"), soft_wrap=True)

    return on_progress


FEWEST, MOST = 50, 40_000
"""Bounds for the number of generated events of each source; after the last one they start again."""
SLOWER = 3.0
"""There are events for a replay that takes this many times as long as planned, since their times must not go back."""
OnProgress = Callable[[str, float], None]
"""A callback that gets what a replay does, and how many planned seconds of work it has just done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """One trace and its ways, which are replayed together, step by step."""

    workload: Workload
    trace: Trace
    ways: Mapping[Path, Way]
    """By the folder for the results."""
    rate: float = 1.0
    """The factor on the rates of the workload's sources."""


def replay_live(parts: Sequence[ReplayPart], pacing: Pacing, on_progress: OnProgress) -> None:
    """Replay parts side by side and write the results to each way's folder; resume an interrupted replay."""
    with ExitStack() as held:
        plays = [_Play(part, pacing, on_progress).run(held) for part in parts]
        _side_by_side(plays, pacing, on_progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """Players that are ready to be measured at a step."""

    step: int
    players: Mapping[Path, Player]
    windows: dict[Path, list[WindowRow]]
    """The measurements, added by `_measure`."""


def _side_by_side(plays: Sequence[Iterator[_Ready | None]], pacing: Pacing, on_progress: OnProgress) -> None:
    """Run all plays until each is ready for a measurement or has ended, measure together, and go on.

    A play yields None when it has started something slow, so that the others can start theirs.
    """
    going = list(plays)
    while going:
        ready: list[_Ready] = []
        behind = list(going)
        while behind:
            for play in tuple(behind):
                try:
                    is_ready = next(play)
                except StopIteration:
                    going.remove(play)
                    behind.remove(play)
                    continue
                if is_ready is not None:
                    ready.append(is_ready)
                    behind.remove(play)
        if ready:
            _measure(ready, pacing, on_progress)


def _measure(ready: Sequence[_Ready], pacing: Pacing, on_progress: OnProgress) -> None:
    """Measure all services at once, and report discarded windows."""
    for player in (player for play in ready for player in play.players.values()):
        player.catch_up(pacing.pace)
    time.sleep(pacing.settling)
    at = [(player, play.step) for play in ready for player in play.players.values()]
    windows_of = [play.windows.setdefault(folder, []) for play in ready for folder in play.players]
    for window in range(pacing.windows):
        for windows, (player, step), row in zip(windows_of, at, measure(at, window, pacing), strict=True):
            windows.append(row)
            if row.behind:
                on_progress(f"step {step + 1}, {player.way.name}: window {window + 1} is discarded: {row.behind}", 0.0)


class _Play:
    def __init__(self, part: ReplayPart, pacing: Pacing, on_progress: OnProgress) -> None:
        self._part = part
        self._pacing = pacing
        self._on_progress = on_progress
        self._counts = counts_by_mode(part, pacing)
        self._folders = results_folders(part, pacing)
        self._players: Mapping[Path, Player] = {}

    def run(self, held: ExitStack) -> Iterator[_Ready | None]:
        """Do the steps that are not done yet; services play until `held` is closed."""
        steps, pacing = self._part.trace.steps, self._pacing
        seconds = seconds_of(self._part.trace, pacing, tuple(self._part.ways.values()))
        done = min(len(results.step_results) for results in self._folders.values())
        if all(results.complete for results in self._folders.values()):
            self._on_progress("all steps were already done", sum(seconds))
            return
        for results in self._folders.values():
            results.truncate(done)
        self._players = start_players(self._part, pacing, held, self._on_progress)
        yield from self._repeat(done, sum(seconds[:done]))
        measured, awaited = measured_steps(self._part.trace, pacing.points), awaited_steps(self._part.trace, pacing)
        begun = time.monotonic() - (steps[done].at or 0.0) / pacing.speed if done < len(steps) else 0.0
        for number, step in islice(enumerate(steps), done, None):
            if step.at is not None:
                time.sleep(max(0.0, begun + step.at / pacing.speed - time.monotonic()))
            self._on_progress(f"step {number + 1} of {len(steps)}: {step.action} {step.dataflow}", 0.0)
            took = yield from self._step(step, wait=number in awaited)
            ready = _Ready(step=number, players=self._players, windows={})
            if number in measured:
                yield ready
            now = time.time()
            between = (now - pacing.windows * pacing.window, now) if number in measured else None
            for folder, player in self._players.items():
                row, users = player.count(
                    self._counts[player.way.mode][number], measured=number in measured, seconds=took[folder]
                )
                windows = tuple(ready.windows.get(folder, ()))
                self._folders[folder].keep(StepResult(step=row, users=users, windows=windows, between=between))
            self._on_progress("", seconds[number])
        for folder, results in self._folders.items():
            # This service has not metered the steps before an interruption.
            results.step_results[done:] = [
                self._players[folder].with_metered_savings(result) for result in results.step_results[done:]
            ]
            results.finish()

    def _repeat(self, done: int, seconds: float) -> Iterator[None]:
        """Repeat the steps from before an interruption, without waiting, so that the jobs are the same again."""
        if not done:
            return
        for step in self._part.trace.steps[:done]:
            for player in self._players.values():
                player.commit(step)
        yield
        for player in self._players.values():
            player.wait_until_settled()
            if player.way.defragment == "step":
                player.defragment()
        self._on_progress(f"{done} steps were already done", seconds)

    def _step(self, step: TraceStep, *, wait: bool) -> Generator[None, None, Mapping[Path, float]]:
        """Do a step on every service; return the seconds of each."""
        asked, took = {}, {}
        for folder, player in self._players.items():
            asked[folder] = time.monotonic()
            player.commit(step)
            took[folder] = time.monotonic() - asked[folder]
        if wait:
            yield
            for folder, player in self._players.items():
                player.wait_until_settled()
                took[folder] = time.monotonic() - asked[folder]
            for player in self._players.values():
                if player.way.defragment == "step":
                    player.defragment()
                    player.wait_until_settled()
        return took


def start_players(part: ReplayPart, pacing: Pacing, held: ExitStack, on_progress: OnProgress) -> Mapping[Path, Player]:
    """Start a service for each way of a part, with its tenants and sources; they play until `held` is closed."""
    workload, seed = part.workload, part.trace.seed
    ends = max((step.at or 0.0 for step in part.trace.steps), default=0.0) / pacing.speed
    planned = max(ends, total_seconds(part.trace, pacing, tuple(part.ways.values())))

    def count(source: WorkloadSource) -> int:
        return max(FEWEST, min(MOST, round(source.per_second * SLOWER * part.rate * planned)))

    events = Path(held.enter_context(TemporaryDirectory(prefix="braid-events-")))
    assigned = AssignedWorkload(
        workload=workload,
        tenants=tenants_of(workload, pacing.tenants, seed),
        files=written_events(workload, events, seed, count),
        rate=part.rate,
    )

    def start(way: Way) -> Player:
        player = player_on_service(way, pacing, assigned, lambda what: on_progress(f"{way.name}: {what}", 0.0))
        return held.enter_context(player)

    return {folder: start(way) for folder, way in part.ways.items()}


def results_folders(part: ReplayPart, pacing: Pacing) -> Mapping[Path, ResultsFolder]:
    """A results folder for each way of a part."""
    settings = asdict(pacing) | {"rate": part.rate, "cost": each_step.__name__}
    return {
        folder: ResultsFolder(folder, manifest_of(way, part.trace, part.workload, settings, dry=False))
        for folder, way in part.ways.items()
    }


def counts_by_mode(part: ReplayPart, pacing: Pacing) -> Mapping[Mode, tuple[StepRow, ...]]:
    """The dry counts after each step, for each mode; fails if the trace or a document cannot be replayed."""

    def rows(mode: Mode) -> tuple[StepRow, ...]:
        counted = dry_rows(part.workload, part.trace, Way(mode, "pack"), pace=pacing.pace, rate=part.rate)
        return tuple(row for row, _ in counted)

    return {mode: rows(mode) for mode in {way.mode for way in part.ways.values()}}


def written_events(
    workload: Workload, folder: Path, seed: int, count: Callable[[WorkloadSource], int]
) -> Mapping[str, str]:
    """Write files with so many events of each source; return their paths by source."""
    paths = {}
    for number, source in enumerate(workload.sources):
        if source.events is not None:
            path = folder / f"{number}.jsonl"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(event)}\n" for event in islice(source.events(seed), count(source)))
            paths[source.name] = str(path)
    return paths
