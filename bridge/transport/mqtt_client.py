"""The client that connects a receiver or a sender to a broker, over MQTT 5 or 3.1.1.

Its session outlives its connections, so that the broker keeps unacknowledged messages; a client that is not lasting
gets only retained ones. Callbacks run in the thread of its loop and only hand things on: publishing or waiting in one
deadlocks, or holds up the loop's other clients. Errors in callbacks end no thread, and messages of other topics reach
none of them: `bridge.transport.subscriptions` has the rules. A client id belongs to one client.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.messages import PACKET_IDS, UNACKNOWLEDGED, Message, why_unsendable
from bridge.transport.address import Address, secret_client_id, set_credentials, why_unreachable
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_rounds import Fetch, Grouping, Rounds, RoundsClient, ungrouped
from bridge.transport.subscriptions import Dispatch, Subscriptions, guarded, note_failed


class PendingAnswers:
    """Callbacks by message id. Callbacks and answers come from two threads, in either order."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._callbacks: dict[int, Callable[[str], None]] = {}
        self._early: dict[int, str] = {}
        """Refusals, or empty texts, that came before the publishing thread knew the message's id."""

    def expect(self, mid: int, answered: Callable[[str], None]) -> None:
        """Call back once a message is answered; at once if it is already. Called by the publishing thread."""
        with self._guard:
            refusal = self._early.pop(mid, None)
            if refusal is None:
                self._callbacks[mid] = answered
        if refusal is not None:
            answered(refusal)

    def answer(self, mid: int, refusal: str) -> None:
        """Pass an answer on; called by the client's thread."""
        with self._guard:
            answered = self._callbacks.pop(mid, None)
            if answered is None:
                self._early[mid] = refusal
        if answered is not None:
            guarded("a broker's answer", partial(answered, refusal))


_SESSION_EXPIRY = 7 * 24 * 3600
"""Seconds for which a broker keeps the session of a client that is away."""
Permit: TypeAlias = Callable[[], bool]
"""Whether a client may connect again; it may wait some seconds before it answers."""


def always() -> bool:
    """Nobody else has the ids of this process's clients."""
    return True


class NotConnected(ConnectionError):
    """A broker that did not answer in time, or refused the client."""


class MqttClient:
    """A lasting connection to a broker; reconnects by itself."""

    def __init__(  # noqa: PLR0913 - an address, an id, the session's settings and four callbacks
        self,
        address: Address,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_messages: Callable[[Sequence[Message]], None] | None = None,
        on_connection: Callable[[], None] = lambda: None,
        on_new_session: Callable[[], None] = lambda: None,
        on_disconnection: Callable[[], None] = lambda: None,
        will: tuple[str, bytes] | None = None,
        retain_will: bool = True,
        protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5,
        lasting: bool = True,
        once: bool = False,
        grouping: Grouping = ungrouped,
        permit: Permit = always,
        loop: ClientLoop | None = None,
    ) -> None:
        """If it is not `lasting`, the broker keeps only retained messages for it while it is away.

        `on_new_session` is called, before anything is subscribed to, if the broker had no session for the client. If
        it raises, the client disconnects for good, so that the session ends as well.

        `permit` is asked, by the thread that connects, before it connects again; until it says yes, it is asked once
        more. A client that connects `once` asks it before the first connection too, and makes no other. `loop` serves
        the client; without it, the client has one of its own.

        Messages that come while `grouping` waits are handed on together: waking up for each of them would cost more
        than reading it. They are handed on one by one, or at once to `on_messages` if there is such a callback.
        """
        self._address = address
        self._lasting = lasting
        self._once = once
        self._grouping = grouping
        self._on_connection = on_connection
        self._on_new_session = on_new_session
        self._on_disconnection = on_disconnection
        self._arrived: list[Message] = []
        """The messages of the current round of reading."""
        self._answers = PendingAnswers()
        self._client = RoundsClient(
            CallbackAPIVersion.VERSION2,
            rounds=Rounds(
                grouping=self._grouped,
                on_messages=self._on_messages,
                on_end=self._hand_all_on,
                on_unreachable=lambda error: self._subscriptions.unreachable(why_unreachable(address, error)),
            ),
            client_id=secret_client_id(client_id, address),
            # In MQTT 5 each connect says so instead.
            clean_session=None if protocol is MQTTProtocolVersion.MQTTv5 else not lasting,
            protocol=protocol,
            manual_ack=True,
        )
        self._subscriptions = Subscriptions(self._client, topics)
        self._dispatch = Dispatch(
            self._subscriptions.filters,
            on_message,
            lambda message: self.acknowledge([message.token]),
            all_at_once=on_messages,
        )
        set_credentials(self._client, address)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        if will is not None:
            # The broker publishes it if the client vanishes.
            self._client.will_set(will[0], will[1], qos=1, retain=retain_will)
        self._protocol = protocol
        self._loop = loop or ClientLoop(f"mqtt {client_id}")
        self._permit = permit
        self._client.on_pre_connect = self._on_pre_connect
        self._has_connected = False

    def start(self, timeout: float = 10.0) -> None:
        """Connect and subscribe; returns once the broker has confirmed both."""
        try:
            self._client.connect(self._address.host, self._address.port, **self._session())
        except OSError as error:
            raise NotConnected(why_unreachable(self._address, error)) from error
        self._loop.add(self._client)
        if not self._subscriptions.await_confirmed(self._subscriptions.topics, timeout):
            self.stop()
            raise NotConnected(f"the broker at {self._address} refused the client: {self._subscriptions.refusal}")

    def together(self) -> AbstractContextManager[None]:
        """Send what is published within, in this thread, at its end and in few pieces."""
        return self._client.together()

    def hurry(self, seconds: float) -> None:
        """Fetch messages as soon as they come for so long; from any thread."""
        self._client.hurry(seconds)

    def begin(self) -> None:
        """Connect in the background, as soon as a broker answers. Only `subscribe` and `confirm` wait for that."""
        self._client.connect_async(self._address.host, self._address.port, **self._session())
        self._loop.add(self._client)

    def stop(self) -> None:
        """Disconnect; the broker keeps the session, without the messages that were acknowledged."""
        self._client.hurry()
        self._subscriptions.await_answer()
        self._client.disconnect()
        self._loop.remove(self._client)

    def leave(self) -> bool:
        """Disconnect for good, so that the broker keeps nothing; returns False if there was no connection.

        Over MQTT 3.1.1 the broker keeps what it had before.
        """
        connected = self.is_connected
        self.unsubscribe(self._subscriptions.topics)
        self._end_session()
        self._loop.remove(self._client)
        return connected

    @property
    def is_connected(self) -> bool:
        """True if a broker has accepted the client; from any thread."""
        return self._subscriptions.is_connected

    def is_subscribed(self, topics: Iterable[str]) -> bool:
        """True if the broker has confirmed the subscriptions to topics over the present connection; from any thread."""
        return self._subscriptions.await_confirmed(tuple(topics), 0.0)

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        """Acknowledge messages in this order; those of an earlier connection come again and are ignored.

        `taken` is called, in the loop's thread, once the broker has surely taken that.
        """
        self._client.acknowledge(tokens, taken)

    def subscribe(self, topics: Iterable[str], *, timeout: float = 10.0) -> None:
        """Receive the messages of more topics, over reconnects too; returns once the broker has confirmed it.

        Not to be called in the loop's thread. A timeout of 0 waits for nothing. Messages that a session has kept come
        with the connection, so name the topics of an earlier session when the client is made: else they are discarded.
        """
        wanted = tuple(topics)
        self._subscriptions.add(wanted)
        if timeout > 0:
            self._confirm(wanted, timeout)

    def confirm(self, timeout: float = 10.0) -> None:
        """Return once the broker has confirmed every subscription; not to be called in the loop's thread."""
        self._confirm(self._subscriptions.topics, timeout)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Receive no more messages of topics; those that the broker has already sent are discarded."""
        self._subscriptions.remove(tuple(topics))

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message; it is kept, over reconnects too, until the broker has answered.

        `properties` are user properties; MQTT 3.1.1 has none, and leaves them out.

        `answered` gets the broker's reason to refuse the message; empty if it took it. It is called in the client's
        thread, or before this returns, so it must only hand on.
        """
        if refusal := why_unsendable(payload):
            # The client would send it again with each new connection, and be disconnected each time.
            note_failed(f"topic {topic}", ValueError(refusal))
            answered(refusal)
            return
        written = self._user_properties(properties)
        for _ in range(PACKET_IDS):
            published = self._client.publish(topic, payload, qos=1, retain=retain, properties=written)
            # Message ids are used in turn, and one may still be in use. Without a connection the message waits.
            if published.rc is not MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                break
        else:
            most = f"{PACKET_IDS:,} messages"
            raise RuntimeError(f"{most} wait for the broker at {self._address}; wait until it has answered")
        self._answers.expect(published.mid, answered)

    def publish_once(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message that the broker does not answer: it counts as taken once it was sent, or lost on the way.

        It is lost if there is no connection, or if that ends. The rest is as with `publish`.
        """
        if refusal := why_unsendable(payload):
            note_failed(f"topic {topic}", ValueError(refusal))
            answered(refusal)
            return
        left = partial(guarded, "a sent message", partial(answered, ""))
        self._client.publish_unanswered(
            topic, payload, retain=retain, properties=self._user_properties(properties), left=left
        )

    def _user_properties(self, named: Sequence[tuple[str, str]]) -> Properties | None:
        if not named or self._protocol is not MQTTProtocolVersion.MQTTv5:
            return None
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho ships it without types
        properties.UserProperty = list(named)
        return properties

    def _session(self) -> dict[str, Any]:
        """The session settings of a connect; MQTT 3.1.1 has them when the client is made."""
        if self._protocol is not MQTTProtocolVersion.MQTTv5:
            return {}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
        properties.SessionExpiryInterval = _SESSION_EXPIRY if self._lasting else 0
        properties.ReceiveMaximum = UNACKNOWLEDGED
        return {"clean_start": not self._lasting, "properties": properties}

    def _end_session(self) -> None:
        if self._protocol is MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = 0
            self._client.disconnect(properties=properties)
        else:
            self._client.disconnect()

    def _confirm(self, wanted: tuple[str, ...], timeout: float) -> None:
        if not self._subscriptions.await_confirmed(wanted, timeout):
            refusal = self._subscriptions.refusal
            raise NotConnected(f"the broker at {self._address} confirmed no subscription to {wanted}: {refusal}")

    def _on_pre_connect(self, _client: paho.Client, _data: Any) -> None:
        if self._once and self._has_connected:
            raise ConnectionAbortedError("its one connection has ended")
        # A second client with this id would end the connection of the first.
        if (self._once or self._has_connected) and not self._permit():
            raise ConnectionAbortedError("another process may have this client's id now")

    def _on_connect(self, _client: paho.Client, _data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._subscriptions.refused(reason)
            return
        self._client.connected()
        # The library does not know that a broker may say how many it takes.
        self._client.open_window(getattr(properties, "ReceiveMaximum", PACKET_IDS))
        self._has_connected = True
        self._hand_all_on()
        self._dispatch.connected()
        if not flags.session_present:
            try:
                self._on_new_session()
            except Exception as error:  # noqa: BLE001 - the thread serves other callbacks too
                note_failed("a new session", error)
                self._end_session()
                return
        self._subscriptions.connected()
        # What it publishes comes after the subscriptions, so that no answer to it is missed.
        guarded("a new connection", self._on_connection)

    def _on_disconnect(self, _client: paho.Client, _data: Any, _flags: Any, _reason: Any, _properties: Any) -> None:
        self._subscriptions.disconnected()
        self._client.lose_unanswered()
        self._hand_all_on()
        guarded("the end of a connection", self._on_disconnection)

    def _on_publish(self, _client: paho.Client, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        # What has no answer has no id either.
        if mid:
            self._answers.answer(mid, str(reason) if reason.is_failure else "")

    def _grouped(self, before: Fetch) -> float:
        if self._subscriptions.awaits_broker:
            return 0.0
        try:
            return self._grouping(before)
        except Exception as error:  # noqa: BLE001 - the thread serves other callbacks too
            note_failed("how long messages are grouped", error)
            return 0.0

    def _on_messages(self, messages: list[Message]) -> None:
        self._arrived += messages

    def _hand_all_on(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._dispatch.hand_on_all(arrived)
