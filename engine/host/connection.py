"""The connection of a host to its broker: one client for control messages and status, and one for what its jobs send.

There are two, so that a backlog of events holds up no plan and no status. Streams are received over their own clients.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from bridge import Message, Unread, topics
from bridge.output_messages import unread_letter
from bridge.sender import Sender, StreamTrouble
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, Permit, always
from bridge.transport.probes import Watch, detect_protocol, watch_drops
from bridge.wire import Stream

log = logging.getLogger("braid.host")

_MOST_UNANSWERED = 100
"""Unread messages of a topic that the broker may not have answered for while more are taken: message ids are few."""


class HostConnection:
    """The connection of one host."""

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        files: str = "",
        on_message: Callable[[Message], None],
        permit: Permit = always,
    ) -> None:
        """`on_message` is called for each plan, request for a cut and question, in a thread of its own.

        `permit` says whether this process may connect as this host again.
        """
        self._host = name
        self._address = address
        self.protocol = detect_protocol(address)
        self.dropped = 0
        """The number of messages that the broker reports it dropped since this host began."""
        self._retained: dict[str, bytes] = {}
        self._unanswered: Counter[str] = Counter()
        """For each topic the unread messages that the broker has not answered for."""
        self._counting = threading.Lock()
        self._drops: Watch | None = None
        self._gone = {"host": name, "alive": False, "root": files}
        self._client = MqttClient(
            address,
            f"braid-{name}-host",
            topics=[topics.job("+", "plan"), topics.host(name, "cut"), topics.host(name, "ask")],
            on_message=on_message,
            # A broker that was killed may have lost what was published last, and only this host publishes it.
            on_connection=self._retained.clear,
            will=(topics.host(name, "status"), json.dumps(self._gone).encode()),
            protocol=self.protocol,
            permit=permit,
        )
        self._sending = MqttClient(
            address,
            f"braid-{name}-out",
            on_message=self._deliver,
            on_connection=self._reconnected,
            protocol=self.protocol,
            permit=permit,
        )
        self.sender = Sender(self._sending, on_trouble=_warn_of, on_superseded=_warn_of_superseded)
        self._thread = threading.Thread(target=self.sender.run, name="sends", daemon=True)

    def begin(self) -> None:
        """Begin to send what jobs emit."""
        self._thread.start()
        self._sending.start()
        try:
            self._drops = watch_drops(self._address, self._count_drops)
        except ConnectionError as error:
            log.warning("whether the broker drops messages stays unknown: %s", error)

    def listen(self) -> None:
        """Begin to receive plans."""
        self._client.start()

    def stop_sending(self) -> None:
        """Stop sending what jobs emit."""
        self.sender.stop()
        self._thread.join()

    def end(self) -> None:
        """Publish that the host has ended, and disconnect."""
        self.publish(topics.host(self._host, "status"), self._gone)
        if self._drops is not None:
            self._drops.stop()
        for client in (self._client, self._sending):
            client.stop()

    def publish(self, topic: str, value: Mapping[str, Any], *, retain: bool = True) -> None:
        """Publish a value. A retained one is skipped if it is the last on its topic, any other while disconnected.

        The metrics of a job are of no use later, and those of an hour without a broker are more than a client can keep.
        """
        payload = json.dumps(value, sort_keys=True).encode()
        if retain:
            if self._retained.get(topic) == payload:
                return
            self._retained[topic] = payload
        elif not self._client.is_connected:
            return
        self._client.publish(topic, payload, retain=retain)

    def refuse(self, topic: str, why: str) -> None:
        """Publish the reason that a request is refused."""
        self._client.publish(topic, json.dumps({"host": self._host, "why": why}).encode())

    def publish_unread(self, unread: Unread) -> None:
        """Publish a message that no spool could take; from any thread."""
        self._count_unanswered(unread.topic, 1)
        self._client.publish(
            topics.unread(unread.topic),
            unread_letter(unread),
            answered=lambda _refusal: self._count_unanswered(unread.topic, -1),
        )

    def has_room(self, topic: str) -> bool:
        """Whether the broker has answered for most of the unread messages of a topic; from any thread."""
        return self._unanswered[topic] < _MOST_UNANSWERED

    def _count_unanswered(self, topic: str, more: int) -> None:
        with self._counting:
            self._unanswered[topic] += more
            if not self._unanswered[topic]:
                del self._unanswered[topic]

    def acknowledge(self, message: Message) -> None:
        """Acknowledge a message that was taken up."""
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
