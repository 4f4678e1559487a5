"""Who is told which task runs, so that it is known even if the worker dies with it."""

from typing import Protocol, TypeAlias

EventName: TypeAlias = tuple[int, int]
"""An event that an instance takes in a batch: its cause, and its place among those of this cause.

It stays the same when other events are parked upstream."""


class TaskWatch(Protocol):
    """Is told what runs, and knows what killed the worker before."""

    def alone(self, instance: int) -> bool:
        """Whether an instance must run event by event."""

    def parked(self, instance: int, event: EventName | None = None) -> str:
        """Why an event, or the whole instance, must not be run; empty where it may."""

    def running(self, instance: int, event: EventName | None = None) -> None:
        """An instance begins to run, with one event or with many; nobody else runs any more."""

    def idle(self) -> None:
        """No task runs any more."""


class Unwatched:
    """Nobody is told; for tests, and wherever no worker can die."""

    def alone(self, instance: int) -> bool:  # noqa: ARG002 - a watch's signature
        """Never."""
        return False

    def parked(self, instance: int, event: EventName | None = None) -> str:  # noqa: ARG002 - a watch's signature
        """Nothing is parked."""
        return ""

    def running(self, instance: int, event: EventName | None = None) -> None:
        """Nothing is noted."""

    def idle(self) -> None:
        """Nothing is noted."""
