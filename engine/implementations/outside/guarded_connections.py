"""Guarded connections: what a task's libraries connect to is checked at the moment when they connect.

A name may have other addresses the second time that it is looked up, and a server may send its client elsewhere.
Libraries look up names and follow redirects by themselves. So each address is checked that the thread connects to, or
that a coroutine does which it has started: an audit hook of Python sees them all. Of drivers that are not written in
Python it sees nothing; there only the hosts that the secret names are checked, before each connection.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from dags import Secret
from engine.outside import HostBarred


class ConnectionGuard:
    """The connections of a task while it uses a secret; made by `guarded`."""

    def __init__(self, secret: Secret, addresses: Iterable[str]) -> None:
        self.refused = ""
        """Why a connection was refused; empty if none was."""
        self._secret = secret
        self._addresses = frozenset(addresses)

    def check(self, to: Any) -> None:
        """Refuse a connection to an address that tasks may not reach."""
        address = str(to[0]).partition("%")[0] if isinstance(to, tuple) else ""
        # The file system's own hosts, such as those of a cloud, are not among the secret's.
        if address not in self._addresses and (not address or self._secret.barred(address)):
            self.refused = "it leads to an address that tasks may not connect to; only an operator can allow it"
            raise HostBarred(self.refused)


@contextmanager
def guarded(secret: Secret, hosts: Iterable[str]) -> Iterator[ConnectionGuard]:
    """Let a secret lead only to addresses that its hosts have now, and to others that tasks may connect to.

    Raises `HostBarred` if tasks may not connect to one of the hosts.
    """
    _watch_connections()
    guard = ConnectionGuard(secret, [address for host in hosts for address in secret.addresses(host)])
    before = _GUARD.set(guard)
    try:
        yield guard
    finally:
        _GUARD.reset(before)


_GUARD: ContextVar[ConnectionGuard | None] = ContextVar("guard of connections", default=None)
"""Coroutines that are started elsewhere for this thread have it too."""


@cache
def _watch_connections() -> None:
    """Begin to watch; a hook stays for as long as the process."""
    sys.addaudithook(_look)


def _look(event: str, about: tuple[Any, ...]) -> None:
    if event == "socket.connect" and (guard := _GUARD.get()) is not None:
        guard.check(about[1])
