"""The pipelines of the paper's experiment, and the jobs that they are once they are cut into groups.

Each has a generator, twelve tasks that compute, in one line or in three, and a terminator. As the paper has it, the
first task of a line computes the fifth Fibonacci number by its definition, and each next one that which is so many
steps further. Here pi stands in for it, with as much work: a call of the function counts for 2.5 ns. No task may
take more than 0.12 s, so the last of twelve whose numbers are three steps apart takes that instead of 0.32 s.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.placement.drawn_problems import COSTS, lines
from dags import Kind
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Plan, Slot, Subscribed
from merge.grouping import Group, GroupingProblem

GOAL = replace(COSTS, second=1.0)
"""The paper minimises time, so a second on the slowest path is worth a core here."""
PACE = 0.2
"""Of each job."""
GENERATOR, TERMINATOR = 0, 13
_FIRST = 5
_MOST = 10_000
"""The most iterations that the type of the tasks allows."""
_SECONDS_PER_CALL = 2.5e-9
_SECONDS_PER_SQUARE = 1.2e-9
"""What pi takes, for the square of its iterations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperPipeline:
    """A pipeline of the experiment."""

    lines: int
    special: int
    """The tasks that need one of three tags."""
    step: int = 1
    seconds: float | None = None
    """Seconds that each task takes for an event; None if it follows from the steps."""

    @property
    def name(self) -> str:
        """What it is called in the table."""
        work = f"step {self.step}" if self.seconds is None else f"{self.seconds * 1000:g} ms each"
        return f"{'one line' if self.lines == 1 else f'{self.lines} lines'}, {self.special} special, {work}"

    def iterations(self, task: int) -> int:
        """How often a task that computes does so for an event."""
        if self.seconds is not None:
            return max(1, round(math.sqrt(self.seconds / _SECONDS_PER_SQUARE)))
        calls = _calls(_FIRST + self.step * ((task - 1) % (12 // self.lines)))
        return max(1, min(_MOST, round(math.sqrt(calls * _SECONDS_PER_CALL / _SECONDS_PER_SQUARE))))

    def problem(self) -> GroupingProblem:
        """How it may be cut; an event a second is expected."""
        drawn = lines(self.lines, self.special, seed=1)
        computes = range(GENERATOR + 1, TERMINATOR)
        return replace(
            drawn,
            tasks=tuple(
                replace(task, work=_SECONDS_PER_SQUARE * self.iterations(int(task.id)) ** 2)
                if task.id in computes
                else replace(task, work=0.0)
                for task in drawn.tasks
            ),
            # Every job reads what the generator sends by itself.
            streams=tuple(replace(stream, raw=stream.parent == GENERATOR) for stream in drawn.streams),
            costs=GOAL,
        )

    def plans(self, groups: Sequence[Group], run: int) -> list[Plan]:
        """A plan for each group, on the host named like its image; runs have nothing in common."""
        problem = self.problem()
        place = {int(task): at for at, group in enumerate(groups) for task in group.tasks}
        pairs = [(int(stream.parent), int(stream.child)) for stream in problem.streams]
        first = run * 100
        plans: list[Plan] = []
        for at, group in enumerate(groups):
            here = {int(task) for task in group.tasks} - {GENERATOR}
            if not here:
                continue
            entering = {parent for parent, child in pairs if child in here and (parent == 0 or place[parent] != at)}
            leaving = {parent for parent, child in pairs if parent in here and place[child] != at}
            plans.append(
                Plan(
                    job=f"run-{run}-{at}",
                    host=group.image.replace(" ", "-"),
                    version=1,
                    ingress=tuple(
                        _ingress(run, first + parent, raw=parent == GENERATOR) for parent in sorted(entering)
                    ),
                    slots=tuple(
                        Slot(
                            instance=first + task,
                            type="output" if task == TERMINATOR else "pi_viete",
                            version=1 if task == TERMINATOR else 2,
                            config=json.dumps({} if task == TERMINATOR else {"iterations": self.iterations(task)}),
                            inputs=tuple(Edge(parent=first + parent) for parent, child in pairs if child == task),
                        )
                        for task in sorted(here)
                    ),
                    forwards=tuple(Forward(instance=first + parent) for parent in sorted(leaving)),
                    deliveries=(
                        (Delivery(instance=first + TERMINATOR, tenant="bench", dataflow=f"run-{run}", sink="end"),)
                        if TERMINATOR in here
                        else ()
                    ),
                    pace=PACE,
                )
            )
        return plans


def topic(run: int) -> str:
    """What the generator of a run sends on."""
    return f"raw/{run}"


def _ingress(run: int, instance: int, *, raw: bool) -> Ingress:
    supply = Subscribed(topic=topic(run), fields={"n": Kind.INTEGER}) if raw else Bridged()
    return Ingress(stream=f"generator {run}" if raw else f"bridge/{instance}:out", instance=instance, supply=supply)


def _calls(number: int) -> int:
    """How often a Fibonacci number's definition calls itself.

    >>> _calls(5)
    15
    """
    below, this = 1, 1
    for _ in range(number):
        below, this = this, below + this
    return 2 * below - 1
