"""The server: what the service listens with."""

import socket

from manager.rest.app import listening


def test_rest_sends_at_once() -> None:
    """No part of an answer waits until the client has acknowledged the part before it."""
    with listening("127.0.0.1", 0) as found, socket.create_connection(found.getsockname()):
        accepted, _ = found.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
