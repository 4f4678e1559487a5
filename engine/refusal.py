"""Behaviours that say themselves which events they cannot take, so that the kernel need not search for these."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from engine.behaviour import PortEmission
from engine.records.staged_state import Staged


class Refusal(NamedTuple):
    """An event that a behaviour cannot take."""

    at: int
    """Its index among the events of the call."""
    reason: str
    traceback: str = ""
    """The lines of code that led there, for the owner of the code only."""


class TakeOutcome(NamedTuple):
    """What a behaviour makes of the events of a call."""

    emission: PortEmission
    """At the port `out`."""
    refusals: list[Refusal]
    """In the order of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusingBehaviour:
    """A stateless behaviour of one input and one output port; made by the task library."""

    take: Callable[[pa.RecordBatch], TakeOutcome]
    owner: str
    """The tenant who may read its tracebacks; empty for operators."""

    def __call__(self, _port: str, events: pa.RecordBatch, _state: Staged) -> Mapping[str, PortEmission]:
        """The emission, without what it refuses."""
        return {"out": self.take(events).emission}
