"""The events that a host has received of a source: how many it accepted and rejected, and the newest rejected ones.

An event is rejected if it does not fit the schema of its source; it is acknowledged all the same, and reaches no
dataflow. A host counts from when it begins to receive a source, and reports the counts with its status.
"""

from dataclasses import dataclass, replace

MOST_REJECTED_KEPT = 3
"""Rejected events that are kept of a source, so that a flood of them makes no status large."""
_LONGEST = 200
"""Characters that are kept of such an event, and of its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A rejected message, or an event in one; made by `Received.rejecting`."""

    at: float
    """When it came, in seconds since 1970."""
    event: str
    """Its beginning, as text."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The events of one source that a host has received."""

    since: float
    """When it began to receive the source, in seconds since 1970; it counts from then on."""
    accepted: int = 0
    rejected: int = 0
    newest: tuple[Rejected, ...] = ()
    """The newest rejected ones, newest first."""

    def rejecting(self, event: str, reason: str, *, count: int, at: float) -> "Received":
        """The same after more events were rejected, of which one is shown.

        >>> Received(since=1.0).rejecting('{"t":"hot"}', "t is no number", count=2, at=3.0).newest
        (Rejected(at=3.0, event='{"t":"hot"}', reason='t is no number'),)
        """
        shown = Rejected(at=at, event=_cut(event), reason=_cut(reason))
        newest = (shown, *self.newest)[:MOST_REJECTED_KEPT]
        return replace(self, rejected=self.rejected + count, newest=newest)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
