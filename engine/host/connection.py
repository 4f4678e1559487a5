"""A host's line to its broker: one client for what it is told and tells, and one for what its jobs send.

Two, so that a backlog that is sent holds up no plan and no news. Streams are received over clients of their own.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bridge import Message, Unread, topics
from bridge.emitted import Stream
from bridge.events.output_messages import unread_letter
from bridge.sender import Sender, StreamTrouble
from bridge.transport.address import Address
from bridge.transport.broker_drops import Watch, watch_drops
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.transport.protocol_version import detect_protocol

log = logging.getLogger("braid.host")

_MOST_UNANSWERED = 100
"""Unread messages of one topic that the broker has not answered for: message ids are few."""
_PATIENCE = 10.0
"""Seconds within which it answers for one of them, or is away."""


class HostConnection:
    """Made by a host; `heard` is called in a thread of its own for each plan and each wish for a cut."""

    def __init__(self, name: str, address: Address, *, heard: Callable[[Message], None]) -> None:
        self._host = name
        self._address = address
        self.protocol = detect_protocol(address)
        self.dropped = 0
        """Messages that the broker said it dropped since this host began."""
        self._told: dict[str, bytes] = {}
        self._room: dict[str, threading.Semaphore] = {}
        """Of each topic, for how many more unread messages there is room."""
        self._drops: Watch | None = None
        gone = json.dumps({"host": name, "alive": False}).encode()
        self._client = MqttClient(
            address,
            f"braid-{name}-host",
            topics=[topics.job("+", "plan"), topics.host(name, "cut")],
            on_message=heard,
            # A broker that was killed may have lost what it was told last, and nobody else would tell it again.
            on_connection=self._told.clear,
            will=(topics.host(name, "status"), gone),
            protocol=self.protocol,
        )
        self._sending = MqttClient(
            address,
            f"braid-{name}-out",
            on_message=self._deliver,
            on_connection=self._reconnected,
            protocol=self.protocol,
        )
        self.sender = Sender(self._sending, on_trouble=_warn_of, on_superseded=_warn_of_superseded)
        self._thread = threading.Thread(target=self.sender.run, name="sends", daemon=True)

    def begin(self) -> None:
        """Send what jobs emit from now on."""
        self._thread.start()
        self._sending.start()
        try:
            self._drops = watch_drops(self._address, self._count_drops)
        except ConnectionError as error:
            log.warning("whether the broker drops messages stays unknown: %s", error)

    def listen(self) -> None:
        """Hear plans from now on."""
        self._client.start()

    def stop_sending(self) -> None:
        """Send no more of what jobs emitted."""
        self.sender.stop()
        self._thread.join()

    def end(self) -> None:
        """Hang up, after a last word."""
        self.tell(topics.host(self._host, "status"), {"host": self._host, "alive": False})
        if self._drops is not None:
            self._drops.stop()
        for client in (self._client, self._sending):
            client.stop()

    def tell(self, topic: str, told: Mapping[str, Any], *, retain: bool = True) -> None:
        """Publish something: what is retained if it is news, and what is not if anybody can hear it now.

        What a job measured is of no use later, and that of an hour without a broker is more than a client can keep.
        """
        payload = json.dumps(told, sort_keys=True).encode()
        if retain:
            if self._told.get(topic) == payload:
                return
            self._told[topic] = payload
        elif not self._client.is_connected:
            return
        self._client.publish(topic, payload, retain=retain)

    def refuse(self, topic: str, why: str) -> None:
        """Say why something that was wished for is not done."""
        self._client.publish(topic, json.dumps({"host": self._host, "why": why}).encode())

    def tell_unread(self, unread: Unread) -> None:
        """Publish what no spool could take, once the broker has answered for most of what came before on its topic.

        From the thread of its reception, which so reads no faster than it can be told.
        """
        room = self._room.setdefault(unread.topic, threading.Semaphore(_MOST_UNANSWERED))
        if not room.acquire(timeout=_PATIENCE):
            raise NotConnected(f"the broker answers for none of {_MOST_UNANSWERED} unread messages")
        self._client.publish(
            topics.unread(unread.topic), unread_letter(unread), answered=lambda _refusal: room.release()
        )

    def acknowledge(self, message: Message) -> None:
        """A message was taken up."""
        self._client.acknowledge([message.token])

    def _count_drops(self, count: int) -> None:
        self.dropped += count
        log.error("the broker dropped %d messages that it had accepted; raise its limits on queues", count)

    # Callbacks rather than the sender's own methods, because the client is made before it.
    def _deliver(self, message: Message) -> None:
        self.sender.deliver(message)

    def _reconnected(self) -> None:
        self.sender.reconnected()


def _warn_of(trouble: StreamTrouble) -> None:
    log.warning("topic %s: %s", trouble.topic, trouble.reason)


def _warn_of_superseded(stream: Stream, epoch: int) -> None:
    log.warning("%s of %d is forwarded in epoch %d now, so not from here", stream.port, stream.instance, epoch)
