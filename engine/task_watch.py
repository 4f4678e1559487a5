"""The kernel's callback for the running task, so that it is known even if the worker dies."""

from typing import Protocol, TypeAlias

EventName: TypeAlias = tuple[int, int]
"""An event that an instance takes in a batch: its cause, and its place among those of this cause.

It does not change if other events are parked upstream."""


class TaskWatch(Protocol):
    """Notes which task runs, and knows which tasks killed the worker before."""

    def alone(self, instance: int) -> bool:
        """True if an instance must run event by event."""

    def parked(self, instance: int, event: EventName | None = None) -> str:
        """Why an event, or the whole instance, must not run; empty if it may."""

    def running(self, instance: int, event: EventName | None = None) -> None:
        """Note that an instance begins to run, with one event or with many, and no other runs any more."""

    def idle(self) -> None:
        """Note that no task runs."""


class Unwatched:
    """A watch that does nothing; for tests, and where no worker can die."""

    def alone(self, instance: int) -> bool:  # noqa: ARG002 - a watch's signature
        """False."""
        return False

    def parked(self, instance: int, event: EventName | None = None) -> str:  # noqa: ARG002 - a watch's signature
        """Empty."""
        return ""

    def running(self, instance: int, event: EventName | None = None) -> None:
        """Do nothing."""

    def idle(self) -> None:
        """Do nothing."""
