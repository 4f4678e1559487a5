"""The publisher of a host's news, as its jobs use it."""

from collections.abc import Mapping
from typing import Any, Protocol


class HostPublisher(Protocol):
    """A publisher of a host's news; its connection."""

    def publish(self, topic: str, value: Mapping[str, Any], *, retain: bool = ...) -> None:
        """Publish a value; a retained one only if it differs from the last on its topic."""

    def refuse(self, topic: str, why: str) -> None:
        """Publish the reason that a request is refused."""
