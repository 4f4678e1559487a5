"""The loop that serves clients of brokers: one thread reads, sends and keeps alive, however many there are.

Connecting may take seconds, so another thread does that while a client wants to. Both end once nobody needs them.
"""

import heapq
import itertools
import math
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from bridge.transport.mqtt_rounds import RoundsClient
from bridge.transport.subscriptions import note_failed

_PARTING = 2.0
"""Seconds for a client's last packets to leave; then its connection is given up."""
_DRAINED = 1 << 12
"""Bytes that are taken at once of those that woke the loop up."""


class ClientLoop:
    """A thread that serves clients, from `add` to `remove`. Any thread may use it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Condition()
        """Held for a moment, while clients come and go."""
        self._clients: set[RoundsClient] = set()
        self._to_connect: deque[RoundsClient] = deque()
        """Clients that want to connect; the first one is being connected."""
        self._given_up: set[RoundsClient] = set()
        """Clients that have not disconnected in time."""
        self._called: deque[RoundsClient] = deque()
        """Clients to be served, whatever has come."""
        self._waking = threading.Lock()
        """Held while the thread is woken up, begins or ends."""
        self._wakes: socket.socket | None = None
        """What wakes the thread up; None while there is none."""
        self._is_woken = False
        self._thread = 0

    def add(self, client: RoundsClient) -> None:
        """Serve a client from now on; if it has no connection, it gets one as soon as the broker answers."""
        client.call = lambda: self._call(client)
        with self._guard:
            self._clients.add(client)
            if self._wakes is None:
                self._begin()
        client.call()

    def remove(self, client: RoundsClient) -> None:
        """Serve a client no longer; returns once it has disconnected, which its owner has asked for before.

        In the loop's thread this does not wait, so the client disconnects a little later.
        """
        client.call()
        if threading.get_ident() == self._thread:
            return
        with self._guard:
            if not self._guard.wait_for(lambda: client not in self._clients, _PARTING):
                self._given_up.add(client)
        client.call()

    def _begin(self) -> None:
        woken, wakes = socket.socketpair()
        for end in (woken, wakes):
            end.settimeout(0)
        with self._waking:
            self._wakes, self._is_woken = wakes, False
        threading.Thread(target=self._run, args=(woken, wakes), name=self._name, daemon=True).start()

    def _call(self, client: RoundsClient) -> None:
        self._called.append(client)
        if threading.get_ident() == self._thread:
            return
        with self._waking:
            # The thread looks at what was called after it has forgotten that it was woken up.
            if self._wakes is not None and not self._is_woken:
                self._is_woken = True
                with suppress(BlockingIOError):
                    self._wakes.send(b"0")

    def _run(self, woken: socket.socket, wakes: socket.socket) -> None:
        self._thread = threading.get_ident()
        with woken, wakes, selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            served = _ServedClients(selector)
            while self._goes_on():
                ready = selector.select(0 if self._called else served.wait(time.monotonic()))
                self._is_woken = False
                for key, events in ready:
                    if key.data is None:
                        with suppress(BlockingIOError):
                            woken.recv(_DRAINED)
                    else:
                        self._serve(served, key.data, readable=bool(events & selectors.EVENT_READ))
                for _ in range(len(self._called)):
                    self._serve(served, self._called.popleft())
                for client in served.due(time.monotonic()):
                    self._serve(served, client)

    def _goes_on(self) -> bool:
        with self._guard, self._waking:
            if not self._clients:
                self._wakes, self._thread = None, 0
            return bool(self._clients)

    def _serve(self, served: "_ServedClients", client: RoundsClient, *, readable: bool = False) -> None:
        with self._guard:
            if client in self._to_connect or client not in self._clients:
                return
            is_given_up = client in self._given_up
        due = math.inf
        try:
            if is_given_up:
                client.drop()
            elif client.socket() is not None:
                due = client.serve(readable=readable)
        except Exception as error:  # noqa: BLE001 - the thread serves other clients too
            note_failed("a client of the broker", error)
            client.drop()
        if client.socket() is None:
            due = self._serve_unconnected(client)
        served.watch(client, due)

    def _serve_unconnected(self, client: RoundsClient) -> float:
        """Let a client go that has disconnected, or connect it once it may; returns when that is."""
        with self._guard:
            if client.leaving:
                self._clients.discard(client)
                self._given_up.discard(client)
                self._guard.notify_all()
                return math.inf
            if time.monotonic() < client.connects_at:
                return client.connects_at
            self._to_connect.append(client)
            if len(self._to_connect) == 1:
                threading.Thread(target=self._connect_all, name=f"{self._name} connects", daemon=True).start()
            return math.inf

    def _connect_all(self) -> None:
        is_done = False
        while not is_done:
            client = self._to_connect[0]
            try:
                client.connect_again()
            except Exception as error:  # noqa: BLE001 - the thread serves other clients too
                note_failed("a connection to the broker", error)
            with self._guard:
                self._to_connect.popleft()
                is_done = not self._to_connect
            client.call()


class _ServedClients:
    """The sockets and times for which a loop waits; used by its thread alone."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._watched: dict[RoundsClient, tuple[Any, int]] = {}
        """For each client its socket, and the events that are awaited of it."""
        self._dues: dict[RoundsClient, float] = {}
        self._timers: list[tuple[float, int, RoundsClient]] = []
        """A heap; a timer whose time is not the client's due time any more is passed over."""
        self._order = itertools.count()

    def wait(self, now: float) -> float | None:
        """Seconds until a client is due; None if none is."""
        return max(0.0, self._timers[0][0] - now) if self._timers else None

    def due(self, now: float) -> list[RoundsClient]:
        """The clients that are due."""
        clients = []
        while self._timers and self._timers[0][0] <= now:
            at, _, client = heapq.heappop(self._timers)
            if self._dues.get(client) == at:
                del self._dues[client]
                clients.append(client)
        return clients

    def watch(self, client: RoundsClient, due: float) -> None:
        """Wait for what a client waits for now, at most until a time."""
        connection: Any = client.socket()
        events = 0
        if connection is not None:
            events |= selectors.EVENT_READ if client.reads else 0
            events |= selectors.EVENT_WRITE if client.want_write() else 0
        before = self._watched.pop(client, None)
        after = (connection, events) if events else None
        if before is not None and (after is None or after[0] is not before[0]):
            self._selector.unregister(before[0])
        if after is not None:
            self._watched[client] = after
            if before is None or before[0] is not connection:
                self._selector.register(connection, events, client)
            elif before != after:
                self._selector.modify(connection, events, client)
        if due < self._dues.get(client, math.inf):
            self._dues[client] = due
            heapq.heappush(self._timers, (due, next(self._order), client))
