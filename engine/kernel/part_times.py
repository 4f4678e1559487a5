"""The times of the parts of one batch in a worker, for the few batches that are traced."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from engine.behaviour import EventName, TaskWatch

RUN_TASKS = "run tasks"
"""The part that has those of all tasks in it."""


class PartTime(NamedTuple):
    """When a part began and ended, in nanoseconds since 1970."""

    part: str
    began: int
    ended: int
    instance: int | None = None
    """The task that it is about, if it is about one: from its first events of the batch to its last."""


class PartTimes:
    """The times of one shard; `watched` has those of tasks noted, too."""

    def __init__(self) -> None:
        self._parts: list[PartTime] = []
        self._tasks: dict[int, PartTime] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Note what is done in the context as a part."""
        began = time.time_ns()
        try:
            yield
        finally:
            self._parts.append(PartTime(name, began, time.time_ns()))

    def note_task(self, instance: int, began: int, ended: int) -> None:
        """Note that a task has run for some of its events."""
        known = self._tasks.get(instance)
        self._tasks[instance] = PartTime("task", known.began if known else began, ended, instance)

    def watched(self, watch: TaskWatch) -> TaskWatch:
        """A watch that also notes when tasks run."""
        return _TimedWatch(watch, self)

    def all(self) -> list[PartTime]:
        """All of them; the parts of tasks come after the part that they belong to."""
        return [*self._parts, *self._tasks.values()]


class _TimedWatch(TaskWatch):
    def __init__(self, watch: TaskWatch, times: PartTimes) -> None:
        self._watch = watch
        self._times = times
        self._running: tuple[int, int] | None = None

    def alone(self, instance: int) -> bool:
        return self._watch.alone(instance)

    def parked(self, instance: int, event: EventName | None = None) -> str:
        return self._watch.parked(instance, event)

    def running(self, instance: int, event: EventName | None = None) -> None:
        self._end()
        self._watch.running(instance, event)
        self._running = instance, time.time_ns()

    def idle(self) -> None:
        self._end()
        self._watch.idle()

    def _end(self) -> None:
        if self._running is not None:
            self._times.note_task(*self._running, time.time_ns())
            self._running = None
