"""Offsets: the progress of a job, which Spark writes down before each batch.

An offset names everything that a batch's outcome depends on, so that a repeated batch does the same: the position in
each stream, the entry of the log of plans, and the markers that wait or are aligned at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The end of a batch and the beginning of the next; made by `next_batch`."""

    run: int = 0
    """Counts the starts of the job. Each start begins with a batch without events, which warms up its worker."""
    entry: int = 0
    """The entry of the log of plans that the batch runs; 0 before the first."""
    at: Mapping[str, int] = field(default_factory=dict)
    """The position after the last event read, of each stream."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Streams that wait just after a marker until the rest of their part has reached it."""
    cuts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Markers aligned exactly here, with the streams of the parts in which they are aligned."""
    shards: int = 1
    """The tasks that the batch runs as."""

    def as_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it."""
        return {
            "run": self.run,
            "entry": self.entry,
            "at": dict(self.at),
            "held": dict(self.held),
            "cuts": {name: list(streams) for name, streams in self.cuts.items()},
            "shards": self.shards,
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Offset":
        """The offset that Spark kept."""
        return cls(**{**kept, "cuts": {name: tuple(streams) for name, streams in kept["cuts"].items()}})

    def begins(self, stream: str, starts: Mapping[str, int]) -> int:
        """The position from which a stream is read next. An entry may begin later than the job has read."""
        return max(self.at.get(stream, 0), starts[stream])
