"""The values of nodes of an OPC UA server, and the events that their changes make. Decided purely.

Changes that a server tells of together are one event. If a node changed several times in between, each time but the
first begins another event, in the order of the source's times. An event of the form `state` has the last value of every
node, so that tasks find all fields; one of the form `changes` has those that changed.

Over a new connection a server first tells the present value of each node. Those that changed no later than the newest
change in the spool cause no event. The first event has to wait until all nodes have a value, or until it may not wait
any longer.

A value that is not good is null, unless it is uncertain. The field `status` says what each such value is.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

AT, STATUS = "at", "status"
"""The fields that each event has besides those of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A value that a node has since some time."""

    field: str
    value: Any = None
    """The value; None if it is not good."""
    status: str = ""
    """What it is, such as `BadSensorFailure`; empty if it is good."""
    at: datetime


class NodeValues:
    """The last values of the nodes of a connection; used by one thread."""

    def __init__(self, fields: Sequence[str], *, whole: bool, since: int = 0) -> None:
        """`since` is the time of the newest change that was taken before, in microseconds since 1970."""
        self._fields = fields
        self._whole = whole
        self._since = since
        self._known: dict[str, NodeChange] = {}
        self._changed: dict[str, NodeChange] = {}
        """The changes of the next event."""
        self.newest = since
        """The time of the newest change of all events, in microseconds since 1970."""

    @property
    def is_waiting(self) -> bool:
        """Whether changes wait until all nodes have a value."""
        return bool(self._changed)

    def events(self, changes: Sequence[NodeChange]) -> list[Mapping[str, Any]]:
        """The events of changes that came together."""
        made: list[Mapping[str, Any]] = []
        for change in sorted(changes, key=lambda change: change.at):
            if change.field in self._changed:
                made.append(self._event())
            is_first = change.field not in self._known
            self._known[change.field] = change
            if not is_first or microseconds(change.at) > self._since:
                self._changed[change.field] = change
        if self._changed and not (self._whole and len(self._known) < len(self._fields)):
            made.append(self._event())
        return made

    def waiting(self) -> list[Mapping[str, Any]]:
        """The event of the changes that wait."""
        return [self._event()] if self._changed else []

    def _event(self) -> Mapping[str, Any]:
        shown = self._known if self._whole else self._changed
        at = max(change.at for change in self._changed.values())
        self.newest = max(self.newest, microseconds(at))
        self._changed = {}
        event = {name: shown[name].value for name in self._fields if name in shown}
        poor = [f"{name} {shown[name].status}" for name in self._fields if name in shown and shown[name].status]
        return {**event, AT: at.isoformat(timespec="milliseconds"), STATUS: ", ".join(poor) or None}


def microseconds(moment: datetime) -> int:
    """A time in microseconds since 1970."""
    return round(moment.timestamp() * 1_000_000)


def in_utc(moment: datetime) -> datetime:
    """A time with a zone: without one it is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def plain_value(value: Any) -> Any:
    """A node's value as JSON could hold it: bytes as base64 text, times as ISO 8601, what is no number as null.

    >>> plain_value([1.5, float("nan"), b"abc"])
    [1.5, None, 'YWJj']
    """
    plain: Any
    match value:
        case None | bool() | str():
            plain = value
        case int():
            plain = int(value)
        case float():
            plain = value if math.isfinite(value) else None
        case bytes():
            plain = base64.b64encode(value).decode()
        case datetime():
            plain = in_utc(value).isoformat()
        case list() | tuple():
            plain = [plain_value(inner) for inner in value]
        case _:
            # Such as a node's id, or a text in some language.
            plain = str(getattr(value, "Text", value))
    return plain
