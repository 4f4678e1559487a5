"""A client that may not connect again on its own: another process may have its id by then."""

import threading
from pathlib import Path

from bridge.broker import start_broker
from bridge.transport.mqtt_client import MqttClient

_BOUND = 30.0


def test_a_client_connects_again_only_once_it_may(tmp_path: Path) -> None:
    """It asks before each attempt, and not before the first connection."""
    asked, allowed, connected = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def permit() -> bool:
        asked.release()
        return allowed.is_set()

    with start_broker(tmp_path / "broker", {"braid": "secret"}) as broker:
        client = MqttClient(
            broker.address("braid"), "one", topics=["a"], permit=permit, on_connection=connected.release
        )
        client.start()
        assert connected.acquire(timeout=_BOUND)
        assert not asked.acquire(blocking=False)
        broker.restart()
        for _ in range(2):
            assert asked.acquire(timeout=_BOUND)
        assert not connected.acquire(blocking=False)
        allowed.set()
        assert connected.acquire(timeout=_BOUND)
        client.stop()
