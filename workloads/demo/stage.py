"""What the demo does on its two services, which go through the same trace side by side: one shares, one does not."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from manager.answers import SavingsAnswer, SubmitAnswer, TaskAnswer
from workloads.demo.scenario import LEAST_WINDOWS, MOST_WINDOWS, ON_THE_WAY, PACING, scenario
from workloads.outputs import Outputs, OutputTally
from workloads.replay.live_replay import counts_by_mode, results_folders, started
from workloads.replay.player import Player, measure
from workloads.replay.results_folder import ResultsFolder, StepResult
from workloads.results import StepRow, WindowRow
from workloads.service_process import RunFailed
from workloads.traces.trace_file import Trace, TraceStep
from workloads.way import Mode

_MORE = 2
"""How many events more an output gets where it has to go on; the slowest gets some every few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What the removal of a dataflow did where dataflows share."""

    flow: SubmitAnswer
    stopped: tuple[str, ...]
    """Its tasks that nobody else needs."""
    released: tuple[str, ...]
    """Its tasks that run on for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputProgress:
    """How an output went on while and after another dataflow was removed."""

    tenant: str
    dataflow: str
    sink: str
    before: int
    """Events until the removal was asked for."""
    after: int
    longest: float
    """The longest time between two messages since, in seconds."""


class Side:
    """One service, what is found of it, and where that is kept."""

    def __init__(self, player: Player, keeper: ResultsFolder) -> None:
        self.player = player
        self.keeper = keeper
        self.counts: StepRow | None = None
        """After the last step."""
        self.windows: tuple[WindowRow, ...] = ()
        """Of the last step that was measured."""


class Stage:
    """Both services with their tenants and dataflows; made by `demo_stage`."""

    def __init__(self, trace: Trace, shared: Side, alone: Side, counts: Mapping[Mode, Sequence[StepRow]]) -> None:
        self.trace = trace
        self.shared = shared
        self.alone = alone
        self._counts = counts
        self._flows: dict[str, SubmitAnswer] = {}
        """The dataflows that are submitted where they share, by their names within the workload."""
        self._begun = time.time()

    @property
    def sides(self) -> tuple[Side, Side]:
        """The one that shares first."""
        return self.shared, self.alone

    def do(self, number: int) -> SubmitAnswer | Removal:
        """Do a step on both, and wait until all runs; says what it did where dataflows share."""
        step = self.trace.steps[number]
        asked = time.monotonic()
        answers = [side.player.commit(step) for side in self.sides]
        took = []
        for side in self.sides:
            side.player.settled()
            took.append(time.monotonic() - asked)
        for side, seconds in zip(self.sides, took, strict=True):
            measured = self.measures(number)
            row, users = side.player.counted(
                self._counts[side.player.way.mode][number], measured=measured, seconds=seconds
            )
            side.counts = row
            side.keeper.found.append(StepResult(step=row, users=users))
        return self._done(step, *answers)

    def measures(self, number: int) -> bool:
        """Whether is measured at a step."""
        return number in ON_THE_WAY or number == len(self.trace.steps) - 1

    def measure(self, number: int) -> Iterator[SavingsAnswer]:
        """Measure both at the same time, window by window; with the service's own account, as far as it is settled.

        At the last step for as long as it takes until a minute of it is settled, but no longer than a minute or so.
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
                side.keeper.found[-1] = replace(side.keeper.found[-1], windows=side.windows, between=between)
            account = self._account(begun if is_last else self._begun)
            yield account
            if is_last and account.metered_seconds and window + 1 >= LEAST_WINDOWS:
                return

    def await_outputs(self) -> None:
        """Wait until something came of each output of the service that shares."""
        self.shared.player.outputs.wait_for(dict.fromkeys(self._topics(), 1))

    def await_progress(self, removal: Removal, before: Mapping[str, OutputTally]) -> tuple[OutputProgress, ...]:
        """Wait until the others' outputs have gone on after a removal; fails where one missed an event."""
        gone, outputs = removal.flow, self.shared.player.outputs
        # What was under way has come by then.
        self._go_on(1)
        silent = self._events(gone)
        self._go_on(_MORE)
        if (more := self._events(gone) - silent) > 0:
            raise RunFailed(f"{more} events came of dataflow {gone.id} after its removal had taken effect")
        self.check_numbers()
        return tuple(
            OutputProgress(
                tenant=flow.tenant,
                dataflow=flow.name,
                sink=output.sink,
                before=before[output.topic].events,
                after=outputs[output.topic].events,
                longest=outputs[output.topic].longest,
            )
            for flow in self._flows.values()
            for output in flow.outputs
        )

    def check_numbers(self) -> None:
        """Fail where a number is missing in any output of either service."""
        for side in self.sides:
            check_numbers(side.player.way.name, side.player.outputs)

    def end(self) -> None:
        """Write the results of both, with what the services have settled of the minutes that were measured."""
        for side in self.sides:
            side.keeper.found = [side.player.accounted(each) for each in side.keeper.found]
            side.keeper.end()

    def _done(self, step: TraceStep, shared: SubmitAnswer | None, alone: SubmitAnswer | None) -> SubmitAnswer | Removal:
        if alone is not None and alone.reused:
            raise RunFailed(f"{alone.name}: a task was reused although every task was submitted as fresh")
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

    def _go_on(self, more: int) -> None:
        """Wait until each output of the service that shares has got so many events more."""
        outputs = self.shared.player.outputs
        outputs.wait_for({topic: outputs[topic].events + more for topic in self._topics()})

    def _topics(self) -> list[str]:
        return [output.topic for flow in self._flows.values() for output in flow.outputs]


@contextmanager
def demo_stage(folder: Path, told: Callable[[str], None]) -> Iterator[Stage]:
    """Both services while the context lasts, with results below a folder; `told` hears what that waits for."""
    part = scenario(folder)
    kept = results_folders(part, PACING)
    with ExitStack() as held:
        players = started(part, PACING, held, lambda what, _seconds: told(what))
        shared, alone = (Side(players[each], kept[each]) for each in part.ways)
        yield Stage(part.trace, shared, alone, counts_by_mode(part, PACING))


def check_numbers(name: str, outputs: Outputs) -> None:
    """Fail where a number is missing in any output of a service."""
    if missing := {topic: heard.missing for topic, heard in outputs.all().items() if heard.missing}:
        told = ", ".join(f"{number} of {topic}" for topic, number in missing.items())
        raise RunFailed(f"{name}: events did not arrive: {told}")


def tasks_of(flow: SubmitAnswer) -> tuple[TaskAnswer, ...]:
    """All tasks of a dataflow."""
    return in_order((*flow.reused, *flow.started))


def in_order(tasks: Iterable[TaskAnswer]) -> tuple[TaskAnswer, ...]:
    """Tasks as the events meet them: instances are numbered from the sources down."""
    return tuple(sorted(tasks, key=lambda task: task.instance))
