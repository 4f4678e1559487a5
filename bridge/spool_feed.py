"""A feed: one topic that a receiver spools, and the messages of it that cannot be spooled."""

from dataclasses import dataclass

from bridge.spools.spool import Spool
from dags import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFeed:
    """One topic that a receiver spools: raw events of a schema, numbered events, or frames of one producer."""

    spool: Spool
    schema: Schema | None = None
    answers_at: str = ""
    """For numbered events, the topic on which to answer each message."""
    retained: bool = False
    """Whether an empty spool begins with what the topic retains, if it has raw events."""
    asks_at: str = ""
    """The topic on which to ask the producer for missing events."""
    has_at: str = ""
    """The topic on which to report to the producer what the spool has."""

    @property
    def is_bridge(self) -> bool:
        """True for frames of another job."""
        return self.schema is None and not self.answers_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A message, or an event in one, that could not be spooled."""

    topic: str
    event: str
    reason: str
    count: int = 1
    """The number of events that it stands for."""
