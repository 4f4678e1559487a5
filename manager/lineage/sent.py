"""What was sent of lineage, as it is kept in the root; and how often, for metrics."""

from pathlib import Path

import msgspec

from bridge.files import write_whole


class SentRun(msgspec.Struct, frozen=True):
    """A run of a dataflow that was said to begin, and not to end."""

    tenant: str
    name: str
    """The name of its dataflow then."""
    revision: int


class SentLineage(msgspec.Struct):
    """All that receivers take to be there; changed by the follower alone."""

    number: int | None = None
    """The number of the last row of a dataflow that was looked at; None before the first look."""
    runs: dict[str, SentRun] = {}
    """By the ids of dataflows."""
    sources: dict[str, str] = {}
    """A digest of each source, by its full name."""
    jobs: dict[str, str] = {}
    """A digest of the streams of each job."""


class LineageCounts(msgspec.Struct):
    """How many events had which outcome, since this manager leads."""

    sent: int = 0
    refused: int = 0
    """Those that the receiver did not take, and would not take again."""
    missed: int = 0
    """Those that were not made, since they were over before they could be sent."""
    failures: int = 0
    """Attempts to send that failed, and are repeated."""
    behind_since: float | None = None
    """Since when something waits to be sent, in seconds since 1970; None if nothing does."""


def read_sent(path: Path) -> SentLineage:
    """What was sent before; nothing if that is not known."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SentLineage)
    except (FileNotFoundError, msgspec.MsgspecError):
        return SentLineage()


def write_sent(path: Path, sent: SentLineage) -> None:
    """Keep what was sent."""
    write_whole(path, msgspec.json.encode(sent))
