"""Serving: what the service listens with."""

import socket

from manager.serving import _listening


def test_rest_sends_at_once() -> None:
    """No part of an answer waits until the client has acknowledged the part before it."""
    with _listening("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
