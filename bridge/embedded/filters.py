"""Topic filters: their syntax, and the search for those that match a topic."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from paho.mqtt.matcher import MQTTMatcher

T = TypeVar("T")

_LONGEST = 65_535
_DEEPEST = 200
"""The number of slashes that mosquitto permits in a topic."""


class TopicFilters(Generic[T]):
    """Values by topic filter, found by topic. A value is never None."""

    def __init__(self) -> None:
        self._matcher = MQTTMatcher()  # type: ignore[no-untyped-call]  # paho ships it without types

    def __setitem__(self, topic_filter: str, value: T) -> None:
        self._matcher[topic_filter] = value

    def __delitem__(self, topic_filter: str) -> None:
        del self._matcher[topic_filter]  # type: ignore[no-untyped-call]  # as above

    def get(self, topic_filter: str) -> T | None:
        """The value of exactly this filter, if any."""
        try:
            found: T = self._matcher[topic_filter]
        except KeyError:
            return None
        return found

    def match(self, topic: str) -> Iterator[T]:
        """The values of all filters that match a topic; a wildcard in front matches no topic that begins with $.

        >>> filters = TopicFilters[str]()
        >>> for each in ("a/+", "a/#", "#", "$SYS/#"):
        ...     filters[each] = each
        >>> sorted(filters.match("a/b")), sorted(filters.match("a")), sorted(filters.match("$SYS/x"))
        (['#', 'a/#', 'a/+'], ['#', 'a/#'], ['$SYS/#'])
        """
        found: Iterator[T] = self._matcher.iter_match(topic)  # type: ignore[no-untyped-call]  # as above
        return found


def covers(granted: str, asked: str) -> bool:
    """True if a filter matches every topic that another one matches.

    >>> [covers("a/b/#", each) for each in ("a/b/#", "a/b/+/c", "a/b", "a/+/c", "a/#", "#")]
    [True, True, True, False, False, False]
    >>> covers("a/+", "a/#"), covers("#", "$SYS/#")
    (False, False)
    """
    if asked.startswith("$") and not granted.startswith("$"):
        return False
    ours, theirs = granted.split("/"), asked.split("/")
    if ours[-1] == "#":
        ours.pop()
        theirs = theirs[: len(ours)]
    return len(ours) == len(theirs) and all(
        one == other or (one == "+" and other != "#") for one, other in zip(ours, theirs, strict=True)
    )


def why_no_topic(topic: str) -> str | None:
    """The reason why a topic cannot be published on; None if it can."""
    if "+" in topic or "#" in topic:
        return "a topic has no wildcards"
    return _why_neither(topic)


def why_no_filter(topic_filter: str) -> str | None:
    """The reason why a filter cannot be subscribed to; None if it can.

    >>> [bool(why_no_filter(each)) for each in ("a/+/b", "#", "a+", "a/#/b", "", "+/#")]
    [False, False, True, True, True, False]
    """
    levels = topic_filter.split("/")
    for number, level in enumerate(levels):
        if ("+" in level or "#" in level) and len(level) > 1:
            return "a wildcard is alone in its level"
        if level == "#" and number < len(levels) - 1:
            return "# comes last"
    return _why_neither(topic_filter)


def _why_neither(text: str) -> str | None:
    if not text:
        return "it is empty"
    if "\0" in text or len(text.encode()) > _LONGEST:
        return "it is too long, or holds a zero"
    return "it has too many levels" if text.count("/") > _DEEPEST else None
