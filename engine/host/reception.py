"""StreamReceiver one stream: a client and a receiver of its own, so that a stream that stands still holds up no other.

A broker hands each client only so many messages before it has acknowledged some. A stream whose spool is full
acknowledges none, and then only its own client waits.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from paho.mqtt.enums import MQTTProtocolVersion

from bridge import (
    Clock,
    Counts,
    Message,
    NotConnected,
    Receiver,
    SpoolClosed,
    SpoolDamaged,
    SpoolFeed,
    SpoolFull,
    Unread,
)
from bridge.machine.files import make_folder, sync_folder, write_whole
from bridge.transport.address import Address
from bridge.transport.fetch_interval import grouped_for, ungrouped
from bridge.transport.mqtt_client import MqttClient

log = logging.getLogger("braid.host")


class Reception(Protocol):
    """One stream that is received; made by whoever receives streams for a host."""

    @property
    def counts(self) -> Counts:
        """What its intake met."""

    def stop(self) -> None:
        """Receive no more for now; the broker keeps what comes meanwhile."""

    def leave(self) -> None:
        """Receive no more at all; the broker keeps nothing."""


class StreamReceiver(Protocol):
    """What receives streams into spools; a host's receptions."""

    def begin(
        self,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        pace: Callable[[], float],
        on_trouble: Callable[[str], None],
    ) -> Reception:
        """Receive a stream from now on, with all its topics.

        `pace` tells from any thread the shortest pace of those who read it; `on_trouble` is told from any thread what
        ended the reception.
        """


class Receptions:
    """Makes the receptions of one host, and notes for which streams the broker keeps messages for it."""

    def __init__(  # noqa: PLR0913 - whose, where, over which broker and how, and whom to tell are six things
        self,
        root: Path,
        host: str,
        address: Address,
        protocol: MQTTProtocolVersion,
        *,
        on_unread: Callable[[Unread], None],
        clock: Clock,
    ) -> None:
        self._folder = root / "hosts" / quote(host, safe="") / "received"
        self._on_unread = on_unread
        self._clock = clock
        self._client = partial(MqttClient, address, protocol=protocol)
        self._host = host
        self._begun: list[_Received] = []

    def begin(
        self,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        pace: Callable[[], float],
        on_trouble: Callable[[str], None],
    ) -> Reception:
        """Receive a stream from now on, or from when there is a connection."""
        make_folder(self._folder)
        # Before the broker keeps anything, so that whatever it keeps is known.
        write_whole(self._folder / _digest(stream), json.dumps({"stream": stream, "topics": [*feeds]}).encode())
        received = _Received(
            feeds,
            partial(self._client, self._client_id(stream)),
            pace=pace,
            on_unread=self._on_unread,
            on_trouble=on_trouble,
            on_left=lambda: self._forget(stream),
            clock=self._clock,
        )
        self._begun = [each for each in self._begun if not each.ended] + [received]
        return received

    def hang_up(self) -> None:
        """Receive no more, for a host that is lost: what is in spools is acknowledged, so that it does not come again.

        From any thread, whatever the host's own is at.
        """
        for each in self._begun:
            each.stop()

    def settle(self, kept: Collection[str]) -> None:
        """Have the broker keep nothing for streams that this host received before it died, and does not any more."""
        for path in sorted(self._folder.glob("*")):
            try:
                told = json.loads(path.read_bytes()) if path.is_file() else {}
                if told and told["stream"] not in kept:
                    client = self._client(self._client_id(told["stream"]), topics=told["topics"])
                    client.start()
                    if client.leave():
                        self._forget(told["stream"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("the broker may keep messages for the stream noted in %s: %s", path, error)

    def _client_id(self, stream: str) -> str:
        return f"braid-{self._host}-in-{_digest(stream)}"

    def _forget(self, stream: str) -> None:
        (self._folder / _digest(stream)).unlink(missing_ok=True)
        sync_folder(self._folder)


class _Received:
    """As a reception is, over a client of the bridge."""

    def __init__(  # noqa: PLR0913 - from where into what, over what, for whom, and whom to tell are seven things
        self,
        feeds: Mapping[str, SpoolFeed],
        connect: Callable[..., MqttClient],
        *,
        pace: Callable[[], float],
        on_unread: Callable[[Unread], None],
        on_trouble: Callable[[str], None],
        on_left: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._topics = tuple(feeds)
        self._on_trouble = on_trouble
        self._on_left = on_left
        self.ended = False
        """Whether it receives no more."""
        self._client = connect(
            # Now, because what the broker has kept of it comes with the connection.
            topics=self._topics,
            on_message=self._deliver,
            on_connection=self._reconnected,
            on_disconnection=self._reconnected,
            # What a job forwards of a batch comes together as it is.
            grouping=ungrouped
            if all(feed.is_bridge for feed in feeds.values())
            else lambda before: grouped_for(pace(), now=clock.passed(), before=before),
        )
        # The client groups already.
        self._receiver = Receiver(feeds, self._client, on_unread=on_unread, clock=clock, grouping=0.0)
        self._worked = threading.Event()
        threading.Thread(target=self._work, name=f"receives {self._topics[0]}", daemon=True).start()
        self._client.begin()
        try:
            self._client.confirm()
        except NotConnected as error:
            # It is subscribed once there is a connection, and producers keep what they have until then.
            log.warning("topic %s: %s", self._topics[0], error)

    @property
    def counts(self) -> Counts:
        """What its intake met."""
        return self._receiver.intakes[self._topics[0]].counts

    def stop(self) -> None:
        """Receive no more for now; the broker keeps what comes meanwhile."""
        self._end_work()
        self._client.stop()

    def leave(self) -> None:
        """Receive no more at all; the broker keeps nothing."""
        self._end_work()
        if self._client.leave():
            self._on_left()

    def _end_work(self) -> None:
        self.ended = True
        # First, so that nothing is acknowledged that is not in the spool.
        self._receiver.stop()
        # Not for the end of the thread: one that died of an error may be who waits for this.
        self._worked.wait()

    def _work(self) -> None:
        try:
            self._receiver.run()
        except (SpoolDamaged, SpoolFull, SpoolClosed, OSError) as error:
            log.error("topic %s: %s", self._topics[0], error)  # noqa: TRY400 - it says where and what to do
            self._on_trouble(f"{type(error).__name__}: {error}")
        finally:
            self._worked.set()

    # Callbacks rather than the receiver's own methods, because the client is made before it.
    def _deliver(self, message: Message) -> None:
        self._receiver.deliver(message)

    def _reconnected(self) -> None:
        self._receiver.reconnected()


def _digest(stream: str) -> str:
    """A stream's name, short enough for what a broker calls a client."""
    return hashlib.sha256(stream.encode("utf-8", "surrogatepass")).hexdigest()[:16]
