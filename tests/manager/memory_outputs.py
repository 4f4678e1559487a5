"""Outputs in memory, for tests that look at them."""

import json
from collections.abc import Callable
from typing import Any

from bridge import Message, Receiver, SpoolFeed, topics, unpacked
from tests.twins.memory_broker import MemoryBroker, MemoryClient
from tests.twins.memory_spool import MemorySpool


def connecting(broker: MemoryBroker) -> Callable[..., Any]:
    """What connects a manager to a broker in memory."""

    def connect(client_id: str, **options: Any) -> Any:
        client = MemoryClient(broker, client_id, lasting=False, **options)
        client.start()
        return client

    return connect


class Spools:
    """A host's spools in memory, which take what is sent to sources."""

    def __init__(self, broker: MemoryBroker, *streams: str) -> None:
        self.spools = {stream: MemorySpool() for stream in streams}
        self.unread: list[object] = []
        feeds: Any = {
            topics.sent(stream): SpoolFeed(spool=spool, answers_at=topics.kept(stream))
            for stream, spool in self.spools.items()
        }
        client = MemoryClient(broker, "host", topics=feeds, on_message=self._take)
        self._receiver = Receiver(feeds, client, on_unread=self.unread.append)
        client.start()

    def _take(self, message: Message) -> None:
        self._receiver.work([message])

    def events(self, stream: str) -> list[Any]:
        """All that lies in a spool."""
        return [row for _, item in self.spools[stream].read(0, 1 << 30) for row in unpacked(item.payload).to_pylist()]


def output(first: int, *events: object, epoch: int = 1) -> bytes:
    """A message of an output, as hosts send it."""
    return json.dumps({"stream": "out", "epoch": epoch, "first": first, "events": events}).encode()
