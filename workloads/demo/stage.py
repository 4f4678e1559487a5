"""The demo's two services, which do the same steps side by side: one shares tasks, one does not."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from manager.answers.dataflows import SubmitAnswer, TaskAnswer
from manager.answers.savings import SavingsAnswer
from workloads.demo.scenario import EARLY_MEASURED_STEPS, LEAST_WINDOWS, MOST_WINDOWS, PACING, scenario
from workloads.outputs import Outputs, OutputTally
from workloads.replay.live_replay import counts_by_mode, results_folders, start_players
from workloads.replay.player import Player, measure
from workloads.replay.results_folder import ResultsFolder, StepResult
from workloads.results import StepRow, WindowRow
from workloads.service_process import RunFailed
from workloads.traces.trace_file import Trace, TraceStep
from workloads.way import Mode

_MORE = 2
"""Further events that prove that an output goes on; the slowest output gets one every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The effect of a removal on the service that shares."""

    flow: SubmitAnswer
    stopped: tuple[str, ...]
    """Its tasks that no other dataflow uses."""
    released: tuple[str, ...]
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
        for side, seconds in zip(self.sides, took, strict=True):
            measured = self.is_measured(number)
            row, users = side.player.count(
                self._counts[side.player.way.mode][number], measured=measured, seconds=seconds
            )
            side.counts = row
            side.results.found.append(StepResult(step=row, users=users))
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
                side.results.found[-1] = replace(side.results.found[-1], windows=side.windows, between=between)
            account = self._account(begun if is_last else self._begun)
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
            side.results.found = [side.player.with_metered_savings(each) for each in side.results.found]
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
        return Removal(
            flow=gone,
            stopped=tuple(task.id for task in tasks_of(gone) if task.instance not in running),
            released=tuple(task.id for task in tasks_of(gone) if task.instance in running),
        )

    def _account(self, since: float) -> SavingsAnswer:
        return self.shared.player.savings(since, time.time())

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
        shared, alone = (Side(players[each], folders[each]) for each in part.ways)
        yield Stage(part.trace, shared, alone, counts_by_mode(part, PACING))


def check_missing(name: str, outputs: Outputs) -> None:
    """Fail if an event is missing in an output of a service."""
    if missing := {topic: tally.missing for topic, tally in outputs.all().items() if tally.missing}:
        listed = ", ".join(f"{number} of {topic}" for topic, number in missing.items())
        raise RunFailed(f"{name}: events are missing: {listed}")


def tasks_of(flow: SubmitAnswer) -> tuple[TaskAnswer, ...]:
    """All tasks of a dataflow."""
    return in_order((*flow.reused, *flow.started))


def in_order(tasks: Iterable[TaskAnswer]) -> tuple[TaskAnswer, ...]:
    """Tasks from the sources down, which is the order of their instance numbers."""
    return tuple(sorted(tasks, key=lambda task: task.instance))
