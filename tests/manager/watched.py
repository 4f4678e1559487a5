"""Outputs in memory, for tests that look at them."""

import json
from typing import Any

from bridge.memory import MemoryBroker, MemoryClient
from manager.reconciler.listening import Connecting, Line


def connecting(broker: MemoryBroker) -> Connecting:
    """What connects a manager to a broker in memory."""

    def connect(client_id: str, **told: Any) -> Line:
        client = MemoryClient(broker, client_id, lasting=False, **told)
        client.start()
        return client

    return connect


def output(first: int, *events: object, epoch: int = 1) -> bytes:
    """A message of an output, as hosts send it."""
    return json.dumps({"stream": "out", "epoch": epoch, "first": first, "events": events}).encode()
