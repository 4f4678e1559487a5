"""Task counts: how many of some tasks are sources, steps and outputs, which cost too unlike to be one number."""

from collections.abc import Iterable
from dataclasses import dataclass

from dags import AnyTaskType


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """The number of tasks of each kind; made by `counted`."""

    sources: int = 0
    steps: int = 0
    """Tasks with inputs and outputs."""
    outputs: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.sources + self.steps + self.outputs

    def plus(self, more: "TaskCounts") -> "TaskCounts":
        """Both together."""
        return TaskCounts(
            sources=self.sources + more.sources, steps=self.steps + more.steps, outputs=self.outputs + more.outputs
        )

    def minus(self, less: "TaskCounts") -> "TaskCounts":
        """These without others."""
        return TaskCounts(
            sources=self.sources - less.sources, steps=self.steps - less.steps, outputs=self.outputs - less.outputs
        )


def counted(kinds: Iterable[AnyTaskType]) -> TaskCounts:
    """The counts of tasks of these types, one type for each task."""
    sources = outputs = total = 0
    for kind in kinds:
        total += 1
        sources += kind.is_source
        outputs += kind.is_sink
    return TaskCounts(sources=sources, steps=total - sources - outputs, outputs=outputs)
