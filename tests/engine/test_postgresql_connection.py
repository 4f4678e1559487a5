"""Connections to PostgreSQL, whose other end is a plain socket here."""

import socket

import pytest
from pg8000.dbapi import InterfaceError

from engine.implementations.outside.postgresql_connection import PostgresqlConnection

WELCOME = b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I"
"""Nobody needs a password, and the server is ready."""


def test_a_connection_to_a_server_that_has_gone_closes_whole() -> None:
    """With its buffers, which hold what could not be sent; as with the driver's own, a second time is an error."""
    here, there = socket.socketpair()
    there.sendall(WELCOME)
    connection = PostgresqlConnection("ann", sock=here, ssl_context=False)
    buffers = connection._sock
    there.close()
    with pytest.raises(InterfaceError, match="network error"):
        connection.cursor().execute("SELECT 1")
    connection.close()
    assert (True, -1) == (buffers.closed, here.fileno())
    with pytest.raises(InterfaceError, match="is closed"):
        connection.close()


def test_a_connection_that_is_refused_leaves_no_socket() -> None:
    """Whether the server goes before the first message or says why."""
    here, there = socket.socketpair()
    there.close()
    with pytest.raises(InterfaceError, match="network error"):
        PostgresqlConnection("ann", sock=here, ssl_context=False)
    assert -1 == here.fileno()
