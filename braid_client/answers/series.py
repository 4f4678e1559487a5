"""Answers about series: what a dataflow did over time."""

from datetime import datetime
from enum import StrEnum

from braid_client.answers.base import Answer


class HistoryRange(StrEnum):
    """How far back a history reaches."""

    QUARTER_HOUR = "15m"
    HOUR = "1h"
    SIX_HOURS = "6h"
    DAY = "1d"
    WEEK = "7d"

    @property
    def seconds(self) -> int:
        """The length in seconds.

        >>> [reach.seconds for reach in HistoryRange]
        [900, 3600, 21600, 86400, 604800]
        """
        return int(self[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[self[-1]]


class HistoryAnswer(Answer):
    """A dataflow's history: for each figure one value a step, oldest first. None means that it is not known."""

    dataflow: str
    since: datetime
    """The beginning of the first step."""
    until: datetime
    """The end of the last step, which may not be over yet."""
    step: int
    """Seconds; longer the further back the history reaches."""
    events_in_per_second: tuple[float | None, ...]
    events_out_per_second: tuple[float | None, ...]
    latency_seconds_p50: tuple[float | None, ...]
    """The median age of events at the slowest output."""
    latency_seconds_p99: tuple[float | None, ...]
    """The 99th percentile, and of a long step the largest."""
    waiting: tuple[int | None, ...]
    """Events that wait to be processed; of a long step the most."""
    dead_letters: tuple[int | None, ...]
    """Events that became dead letters in the step."""
    cores: tuple[float | None, ...]
    """Its share of the measured cores."""
    cores_alone: tuple[float | None, ...]
    """An estimate of the cores that it would have taken in a job of its own, sharing nothing."""
    latency_bound: float | None = None
    """The seconds of latency that its policy allows; None if it has none."""
