"""Offsets: the progress of a job, which Spark writes down before each batch.

An offset names everything that a batch's outcome depends on, so that a repeated batch does the same: the position in
each stream, the entry of the log of plans, and the markers that wait or are aligned at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


class EarlyEnd(NamedTuple):
    """Where a batch ended in a stream whose next events wait."""

    position: int
    stamp: int
    """The time when the first of them was spooled, in milliseconds."""


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

    def ended_early(self, early: Mapping[str, EarlyEnd]) -> "Offset":
        """The end of a batch that has come less far in some streams than it was to.

        >>> Offset(at={"a": 9, "b": 4}, held={"a": "cut"}).ended_early({"a": EarlyEnd(7, stamp=0)})
        Offset(run=0, entry=0, at={'a': 7, 'b': 4}, held={}, cuts={}, shards=1)
        """
        if not early:
            return self
        held = {stream: marker for stream, marker in self.held.items() if stream not in early}
        at = {stream: early[stream].position if stream in early else position for stream, position in self.at.items()}
        return replace(self, at=at, held=held)

    def begins(self, stream: str, starts: Mapping[str, int]) -> int:
        """The position from which a stream is read next. An entry may begin later than the job has read."""
        return max(self.at.get(stream, 0), starts[stream])


NO_EARLY_END: Mapping[str, EarlyEnd] = {}


class Span(NamedTuple):
    """The offsets between which a batch runs."""

    start: Offset
    end: Offset
    early: Mapping[str, EarlyEnd] = NO_EARLY_END
    """Where other shards have ended early."""

    def as_json(self) -> dict[str, Any]:
        """The span as it goes from process to process."""
        return {"start": self.start.as_json(), "end": self.end.as_json(), "early": dict(self.early)}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "Span":
        """The span that another process passed on."""
        early = {stream: EarlyEnd(*end) for stream, end in kept["early"].items()}
        return cls(Offset.of_json(kept["start"]), Offset.of_json(kept["end"]), early)
