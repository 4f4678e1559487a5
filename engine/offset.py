"""Offsets: how far a job is, as Spark writes it down before each batch.

An offset names all that a batch's outcome hangs on, so that a batch that is run again does the same: how far each
stream is read, which entry of the log of plans it runs, and which markers wait or are aligned at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """Where a batch ends; the next begins there. Made by pacing."""

    run: int = 0
    """Counts the starts of the job; a new one begins with a batch without events that warms its worker."""
    entry: int = 0
    """The entry of the log of plans that the batch runs; 0 before the first."""
    at: Mapping[str, int] = field(default_factory=dict)
    """For each stream the position after the last that was read."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Streams that wait, just past a marker, until the rest of their part has come to it."""
    cuts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Markers aligned just here, with the streams of the parts that they are aligned in."""

    def as_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {
            "run": self.run,
            "entry": self.entry,
            "at": dict(self.at),
            "held": dict(self.held),
            "cuts": {name: list(streams) for name, streams in self.cuts.items()},
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Offset":
        """What Spark kept."""
        return cls(**{**told, "cuts": {name: tuple(streams) for name, streams in told["cuts"].items()}})

    def begins(self, stream: str, starts: Mapping[str, int]) -> int:
        """Where a stream is read from after this offset: an entry may begin later than the job has read."""
        return max(self.at.get(stream, 0), starts[stream])
