"""A live replay: traces on services that run, one service for each way of each, side by side.

Where ways are compared they stand at the same step at the same time and are measured in the same windows, so that
whatever else the machine does disturbs all of them alike.
"""

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from merge import each_step
from workloads.replay.dry_replay import dry
from workloads.replay.loads import Cost
from workloads.replay.plan import Pacing, awaited_steps, measured_steps, seconds_of, total_seconds
from workloads.replay.player import Player, measure, player_on_service
from workloads.replay.results_folder import ResultsFolder, StepResult, manifest_of
from workloads.replay.tenant_assignment import AssignedWorkload, tenants_of
from workloads.results import ReplayManifest, StepRow, WindowRow
from workloads.traces.trace_file import Trace, TraceStep, trace_json
from workloads.way import Mode, Way
from workloads.workload import Workload

FEWEST, MOST = 50, 40_000
"""Events that are made of each source: enough for the whole replay within these bounds, and then they begin anew."""
SLOWER = 3.0
"""How many times as long as it is planned a replay may take before they do; their own times go back then."""
OnProgress = Callable[[str, float], None]
"""Hears what a replay does, and how many seconds of work it has just done, by the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """One trace in several ways, which go through it step by step together."""

    workload: Workload
    trace: Trace
    ways: Mapping[Path, Way]
    """By the folder for their results."""
    rate: float = 1.0
    """By what the rates of the workload's sources are multiplied."""
    cost: Cost = each_step
    """How much work an event is for a task."""


def replay_live(parts: Sequence[ReplayPart], pacing: Pacing, told: OnProgress) -> None:
    """Replay parts side by side, and keep in each way's folder what is found; resumes what was begun."""
    with ExitStack() as held:
        plays = [
            _Play(part, pacing, counts_by_mode(part, pacing), results_folders(part, pacing), told).play(held)
            for part in parts
        ]
        _side_by_side(plays, pacing, told)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """Players at a step that is to be measured."""

    step: int
    players: Mapping[Path, Player]
    windows: dict[Path, list[WindowRow]]
    """What was measured, once it was."""


def _side_by_side(plays: Sequence[Iterator[_Ready | None]], pacing: Pacing, told: OnProgress) -> None:
    """Have all go on until each is ready to be measured or at its end, then measure these together, and so on.

    None is yielded where something was begun that takes a while, so that the others can begin theirs meanwhile.
    """
    going = list(plays)
    while going:
        ready: list[_Ready] = []
        behind = list(going)
        while behind:
            for play in tuple(behind):
                try:
                    found = next(play)
                except StopIteration:
                    going.remove(play)
                    behind.remove(play)
                    continue
                if found is not None:
                    ready.append(found)
                    behind.remove(play)
        if ready:
            _measure(ready, pacing, told)


def _measure(ready: Sequence[_Ready], pacing: Pacing, told: OnProgress) -> None:
    """Measure on all services at once, and say which windows are thrown away."""
    for player in (player for each in ready for player in each.players.values()):
        player.catch_up(pacing.pace)
    time.sleep(pacing.settling)
    at = [(player, each.step) for each in ready for player in each.players.values()]
    found = [each.windows.setdefault(folder, []) for each in ready for folder in each.players]
    for window in range(pacing.windows):
        for windows, (player, step), row in zip(found, at, measure(at, window, pacing), strict=True):
            windows.append(row)
            if row.behind:
                told(f"step {step + 1}, {player.way.name}: window {window + 1} is thrown away: {row.behind}", 0.0)


class _Play:
    """The replay of one part while it goes on."""

    def __init__(
        self,
        part: ReplayPart,
        pacing: Pacing,
        counts: Mapping[Mode, Sequence[StepRow]],
        results_folders: Mapping[Path, ResultsFolder],
        told: OnProgress,
    ) -> None:
        self._part = part
        self._pacing = pacing
        self._keepers = results_folders
        self._counts = counts
        self._told = told
        self._players: Mapping[Path, Player] = {}

    def play(self, held: ExitStack) -> Iterator[_Ready | None]:
        """Do the steps from the first that is not done on; what is started lives as long as `held`."""
        steps, pacing = self._part.trace.steps, self._pacing
        seconds = seconds_of(self._part.trace, pacing, tuple(self._part.ways.values()))
        done = min(len(keeper.found) for keeper in self._keepers.values())
        if all(keeper.complete for keeper in self._keepers.values()):
            self._told("every step was done before", sum(seconds))
            return
        for keeper in self._keepers.values():
            keeper.cut(done)
        self._players = started(self._part, pacing, held, self._told)
        yield from self._again(done, sum(seconds[:done]))
        measured, awaited = measured_steps(self._part.trace, pacing.points), awaited_steps(self._part.trace, pacing)
        begun = time.monotonic() - (steps[done].at or 0.0) / pacing.speed if done < len(steps) else 0.0
        for number, step in islice(enumerate(steps), done, None):
            if step.at is not None:
                time.sleep(max(0.0, begun + step.at / pacing.speed - time.monotonic()))
            self._told(f"step {number + 1} of {len(steps)}: {step.action} {step.dataflow}", 0.0)
            took = yield from self._step(step, wait=number in awaited)
            ready = _Ready(step=number, players=self._players, windows={})
            if number in measured:
                yield ready
            now = time.time()
            between = (now - pacing.windows * pacing.window, now) if number in measured else None
            for folder, player in self._players.items():
                row, users = player.counted(
                    self._counts[player.way.mode][number], measured=number in measured, seconds=took[folder]
                )
                windows = tuple(ready.windows.get(folder, ()))
                self._keepers[folder].keep(StepResult(step=row, users=users, windows=windows, between=between))
            self._told("", seconds[number])
        for folder, keeper in self._keepers.items():
            # Of what was measured before an interruption this service knows nothing.
            keeper.found[done:] = [self._players[folder].accounted(each) for each in keeper.found[done:]]
            keeper.end()

    def _again(self, done: int, seconds: float) -> Iterator[None]:
        """Do steps again that were done before an interruption, without waiting; so jobs are as they were then."""
        if not done:
            return
        for step in self._part.trace.steps[:done]:
            for player in self._players.values():
                player.commit(step)
        yield
        for player in self._players.values():
            player.settled()
            if player.way.defragment == "step":
                player.defragment()
        self._told(f"{done} steps were done before", seconds)

    def _step(self, step: TraceStep, *, wait: bool) -> Generator[None, None, Mapping[Path, float]]:
        """Do a step on every service; how long each took."""
        asked, took = {}, {}
        for folder, player in self._players.items():
            asked[folder] = time.monotonic()
            player.commit(step)
            took[folder] = time.monotonic() - asked[folder]
        if wait:
            yield
            for folder, player in self._players.items():
                player.settled()
                took[folder] = time.monotonic() - asked[folder]
            for player in self._players.values():
                if player.way.defragment == "step":
                    player.defragment()
                    player.settled()
        return took


def started(part: ReplayPart, pacing: Pacing, held: ExitStack, told: OnProgress) -> Mapping[Path, Player]:
    """Start a service for each way of a part, with its tenants and sources; they live as long as `held`."""
    workload, seed = part.workload, part.trace.seed
    ends = max((step.at or 0.0 for step in part.trace.steps), default=0.0) / pacing.speed
    planned = max(ends, total_seconds(part.trace, pacing, tuple(part.ways.values())))
    events = Path(held.enter_context(TemporaryDirectory(prefix="braid-events-")))
    cast = AssignedWorkload(
        workload=workload,
        tenants=tenants_of(workload, pacing.tenants, seed),
        files=_written(workload, events, seed, SLOWER * part.rate * planned),
        rate=part.rate,
    )
    return {
        folder: held.enter_context(player_on_service(way, pacing, cast, _at_start(way, told)))
        for folder, way in part.ways.items()
    }


def results_folders(part: ReplayPart, pacing: Pacing) -> Mapping[Path, ResultsFolder]:
    """A results folder for each way of a part."""
    return {folder: ResultsFolder(folder, _manifest(part, way, pacing)) for folder, way in part.ways.items()}


def counts_by_mode(part: ReplayPart, pacing: Pacing) -> Mapping[Mode, tuple[StepRow, ...]]:
    """The counts and the work after each step, dry, for each mode; fails where the trace or a document is no use."""

    def rows(mode: Mode) -> tuple[StepRow, ...]:
        found = dry(
            part.workload,
            part.trace,
            mode=mode,
            placement="pack",
            defragment="off",
            pace=pacing.pace,
            rate=part.rate,
            cost=part.cost,
        )
        return tuple(row for row, _ in found)

    return {mode: rows(mode) for mode in {way.mode for way in part.ways.values()}}


def _manifest(part: ReplayPart, way: Way, pacing: Pacing) -> ReplayManifest:
    return manifest_of(
        mode=way.mode,
        placement=way.placement,
        defragment=way.defragment,
        dry=False,
        trace=trace_json(part.trace),
        workload={"name": part.workload.name, **part.workload.about},
        settings=asdict(pacing) | {"rate": part.rate, "cost": part.cost.__name__},
    )


def _written(workload: Workload, folder: Path, seed: int, seconds: float) -> Mapping[str, str]:
    """Files with the events of sources, for so many seconds at their own rates; by their names."""
    found = {}
    for number, source in enumerate(workload.sources):
        if source.events is None:
            continue
        path = folder / f"{number}.jsonl"
        many = max(FEWEST, min(MOST, round(source.per_second * seconds)))
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(event)}\n" for event in islice(source.events(seed), many))
        found[source.name] = str(path)
    return found


def _at_start(way: Way, told: OnProgress) -> Callable[[str], None]:
    return lambda what: told(f"{way.name}: {what}", 0.0)
