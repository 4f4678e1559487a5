"""The client that joins a receiver or a sender to a broker, over MQTT 5 or 3.1.1.

Its session outlives its connections, so that the broker keeps what was not acknowledged; one that is not lasting is
content with what is retained. Callbacks run in paho's thread and only hand things on: to publish or wait inside one
deadlocks. What they raise ends no thread, and messages that were not asked for reach none of them:
`bridge.transport.dispatch` has the rules. One client id belongs to one client.
"""

import contextlib
import hmac
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.message import Message
from bridge.topics import ROOT
from bridge.transport.address import Address
from bridge.transport.dispatch import Dispatch, SubscribedFilters, guarded, note_failed
from bridge.transport.fetch_interval import Fetch, Grouping, ungrouped
from bridge.transport.mqtt_rounds import Publication, Rounds, RoundsClient

_SESSION_EXPIRY = 7 * 24 * 3600
"""Seconds for which a broker keeps the session of a client that is away."""
UNACKNOWLEDGED = 1_000
"""How many messages may wait to be acknowledged; beyond that the broker holds back. MQTT 3.1.1 has no such bound."""
PARTING = 2.0
"""Seconds within which a broker takes up the last acknowledgements."""
_NOBODYS = f"{ROOT}/nobody"
"""A topic that nobody is subscribed to."""
_MIDS = 1 << 16
_OTHER_NAME = {62, 64}
"""How OpenSSL numbers that a certificate is for another host, and for another address."""
_WHO_ARE_YOU = {"Not authorized", "Bad user name or password"}


def _known_to_both(client_id: str, address: Address) -> str:
    """A client id that only who knows the password can name.

    A broker hangs up on a client when another one comes with its id, whoever that is.
    """
    if not address.password:
        return client_id
    return f"{client_id}-{hmac.digest(address.password.encode(), client_id.encode(), 'sha256').hex()[:16]}"


def prepare(client: paho.Client, address: Address) -> None:
    """Give a client the credentials of an address."""
    client.username_pw_set(address.user, address.password)
    if address.tls:
        client.tls_set()


def why_unreachable(address: Address, error: OSError) -> str:
    """Why no connection to a broker comes about, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = (
            "connect by a name that is in it"
            if error.verify_code in _OTHER_NAME
            else "have the system trust its authority, or name the authority's file in SSL_CERT_FILE"
        )
        told = error.verify_message.rstrip(".")
        return f"the certificate of the broker at {address} is not trusted: {told}; {remedy}"
    if address.tls and isinstance(error, ssl.SSLError | ConnectionResetError):
        return f"no TLS with the broker at {address}: {error}; see whether this is its port for TLS"
    return f"no broker answers at {address}: {error}"


def why_refused(reason: object) -> str:
    """Why a broker did not let a client in, and what to do."""
    return f"{reason}; check the user and the password" if str(reason) in _WHO_ARE_YOU else str(reason)


class NotConnected(ConnectionError):
    """A broker did not answer in time, or refused."""


class MqttClient:
    """A lasting connection to a broker; reconnects by itself."""

    def __init__(  # noqa: PLR0913 - where to, as whom, for what, for how long, and whom to tell are nine things
        self,
        address: Address,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
        on_disconnection: Callable[[], None] = lambda: None,
        will: tuple[str, bytes] | None = None,
        protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5,
        lasting: bool = True,
        grouping: Grouping = ungrouped,
    ) -> None:
        """Where `lasting` is false the broker keeps nothing for it while it is away, but what is retained.

        Messages are handed on together that come while `grouping` waits: to wake up for each of them would cost more
        than to read it.
        """
        self._address = address
        self._lasting = lasting
        self._topics = dict.fromkeys(topics)
        self._filters = SubscribedFilters(self._topics)
        self._hearing = Dispatch(self._filters, on_message, self._drop)
        self._grouping = grouping
        self._on_connection = on_connection
        self._on_disconnection = on_disconnection
        self._arrived: list[Message] = []
        """What came in this round of reading."""
        self._connections = 0
        self._connected = False
        self._subscribing: dict[int, tuple[str, ...]] = {}
        self._subscribed: set[str] = set()
        self._left = 0
        """The last message id by which the broker confirmed that a topic was left."""
        self._refusal = "no answer"
        self._turned_away = False
        """Whether the broker does not know who this is, so that to wait for it is no use."""
        # Guards the seven above, and tells whoever waits for them. It must not be held while publishing: paho holds its
        # own lock on outgoing messages while it calls back, and publishing takes that lock.
        self._changed = threading.Condition()
        self._publishing = threading.Lock()
        self._unanswered: dict[int, Callable[[str], None]] = {}
        self._answered: dict[int, str] = {}
        self._client = RoundsClient(
            CallbackAPIVersion.VERSION2,
            rounds=Rounds(grouping=self._grouped, on_publication=self._on_publication, on_end=self._hand_all_on),
            client_id=_known_to_both(client_id, address),
            # MQTT 5 says so at every connect instead.
            clean_session=None if protocol is MQTTProtocolVersion.MQTTv5 else not lasting,
            protocol=protocol,
            manual_ack=True,
        )
        prepare(self._client, address)
        self._client.reconnect_delay_set(min_delay=1, max_delay=5)
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_unsubscribe = self._on_unsubscribe
        self._client.on_publish = self._on_publish
        if will is not None:
            # Published by the broker, and retained, when the client is gone without a word.
            self._client.will_set(will[0], will[1], qos=1, retain=True)
        self._protocol = protocol

    def start(self, timeout: float = 10.0) -> None:
        """Connect and subscribe; returns once the broker has confirmed both."""
        try:
            self._client.connect(self._address.host, self._address.port, **self._session())
        except OSError as error:
            raise NotConnected(why_unreachable(self._address, error)) from error
        self._client.loop_start()
        if not self._await_subscriptions(self._topics, timeout):
            self.stop()
            raise NotConnected(f"the broker at {self._address} let nobody in: {self._refusal}")

    def begin(self) -> None:
        """Connect as soon as a broker answers; `subscribe` and `confirm` wait for that, and nobody else does."""
        self._client.connect_async(self._address.host, self._address.port, **self._session())
        self._client.loop_start()

    def stop(self) -> None:
        """Disconnect; the broker keeps the session, less what was acknowledged."""
        self._client.hurry()
        self._await_acknowledged()
        self._client.disconnect()
        self._client.loop_stop()

    def leave(self) -> bool:
        """Disconnect for good, so that the broker keeps nothing; whether it was there to be told.

        Over MQTT 3.1.1 it keeps what it had before.
        """
        told = self.is_connected
        self.unsubscribe(tuple(self._topics))
        if self._protocol is MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = 0
            self._client.disconnect(properties=properties)
        else:
            self._client.disconnect()
        self._client.loop_stop()
        return told

    @property
    def is_connected(self) -> bool:
        """Whether a broker has let it in; from any thread."""
        with self._changed:
            return self._connected

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages, in this order; those of an earlier connection come again and are left alone."""
        known = (divmod(token, _MIDS) for token in tokens)
        self._client.acknowledge(mid for connection, mid in known if connection == self._connections)

    def subscribe(self, topics: Iterable[str], *, timeout: float = 10.0) -> None:
        """Get the messages of more topics, over reconnects too; returns once the broker has confirmed it.

        Not to be called in the client's thread. With a timeout of 0 nothing is awaited. What a session has kept comes
        with the connection, so topics of an earlier one are named when the client is made: else it is passed over.
        """
        wanted = tuple(topics)
        with self._changed:
            self._topics.update(dict.fromkeys(wanted))
            self._filters.add(wanted)
            if self._connected:
                self._ask_for(wanted)
        if timeout > 0:
            self._confirm(wanted, timeout)

    def confirm(self, timeout: float = 10.0) -> None:
        """Return once the broker has confirmed every subscription; not to be called in the client's thread."""
        self._confirm(tuple(self._topics), timeout)

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Get no more messages of topics; what the broker had sent before is passed over."""
        unwanted = tuple(topics)
        with self._changed:
            for topic in unwanted:
                self._topics.pop(topic, None)
                self._subscribed.discard(topic)
            self._filters.discard(unwanted)
            if unwanted and self._connected:
                self._client.unsubscribe(list(unwanted))

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        answered: Callable[[str], None] = lambda _refusal: None,
    ) -> None:
        """Send a message; it is kept, over reconnects too, until the broker has answered.

        `answered` is told why the broker refused, or nothing where it took the message. It is called in the client's
        thread, or before this returns, so it only hands on.
        """
        for _ in range(_MIDS):
            told = self._client.publish(topic, payload, qos=1, retain=retain)
            # Message ids are given in turn, and one may still be in use. Disconnected is no trouble: the message waits.
            if told.rc is not MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                break
        else:
            raise RuntimeError(f"{_MIDS:,} messages wait for the broker at {self._address}; wait until it has answered")
        with self._publishing:
            refusal = self._answered.pop(told.mid, None)
            if refusal is None:
                self._unanswered[told.mid] = answered
        if refusal is not None:
            answered(refusal)

    def _session(self) -> dict[str, Any]:
        """What a connection says of its session; MQTT 3.1.1 says it when the client is made."""
        if self._protocol is not MQTTProtocolVersion.MQTTv5:
            return {}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
        properties.SessionExpiryInterval = _SESSION_EXPIRY if self._lasting else 0
        properties.ReceiveMaximum = UNACKNOWLEDGED
        return {"clean_start": not self._lasting, "properties": properties}

    def _confirm(self, wanted: tuple[str, ...], timeout: float) -> None:
        if not self._await_subscriptions(wanted, timeout):
            raise NotConnected(f"the broker at {self._address} confirmed no subscription to {wanted}: {self._refusal}")

    def _await_subscriptions(self, topics: Iterable[str], timeout: float) -> bool:
        wanted = set(topics)
        with self._changed:
            self._changed.wait_for(
                lambda: self._turned_away or (self._connected and wanted <= self._subscribed), timeout
            )
            return self._connected and wanted <= self._subscribed

    def _await_acknowledged(self) -> None:
        """Wait until the broker has taken up what was acknowledged, if it is there.

        A connection that is closed while the broker sends is reset, and then the broker loses what it has not read yet.
        It answers in order, so its answer to anything that changes nothing will do.
        """
        with self._changed:
            if self._connected:
                _, mid = self._client.unsubscribe(_NOBODYS)
                self._changed.wait_for(lambda: not self._connected or self._left == mid, PARTING)

    def _ask_for(self, topics: tuple[str, ...]) -> None:
        if topics:
            _, mid = self._client.subscribe([(topic, 1) for topic in topics])
            if mid is not None:
                self._subscribing[mid] = topics

    def _on_connect(self, _client: paho.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            with self._changed:
                self._refusal, self._turned_away = why_refused(reason), str(reason) in _WHO_ARE_YOU
                self._changed.notify_all()
            return
        self._connections += 1
        self._hand_all_on()
        self._hearing.connected()
        guarded("a new connection", self._on_connection)
        with self._changed:
            self._connected, self._turned_away = True, False
            self._subscribing.clear()
            self._subscribed.clear()
            self._ask_for(tuple(self._topics))
            self._changed.notify_all()

    def _on_connect_fail(self, _client: paho.Client, _data: Any) -> None:
        # Called while the error is handled, and not told it.
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            with self._changed:
                self._refusal = why_unreachable(self._address, error)

    def _on_disconnect(self, _client: paho.Client, _data: Any, _flags: Any, _reason: Any, _properties: Any) -> None:
        with self._changed:
            self._connected = False
        # What came before is told before.
        self._hand_all_on()
        guarded("the end of a connection", self._on_disconnection)

    def _on_subscribe(self, _client: paho.Client, _data: Any, mid: int, reasons: list[Any], _properties: Any) -> None:
        with self._changed:
            topics = self._subscribing.pop(mid, ())
            if any(reason.is_failure for reason in reasons):
                self._refusal = "it refused a subscription"
                return
            self._subscribed.update(topic for topic in topics if topic in self._topics)
            self._changed.notify_all()

    def _on_unsubscribe(
        self, _client: paho.Client, _data: Any, mid: int, _reasons: list[Any], _properties: Any
    ) -> None:
        with self._changed:
            self._left = mid
            self._changed.notify_all()

    def _on_publish(self, _client: paho.Client, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        refusal = str(reason) if reason.is_failure else ""
        with self._publishing:
            answered = self._unanswered.pop(mid, None)
            if answered is None:
                # It came before the sending thread knew the message's id.
                self._answered[mid] = refusal
        if answered is not None:
            guarded("a broker's answer", partial(answered, refusal))

    def _grouped(self, before: Fetch) -> float:
        try:
            return self._grouping(before)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread serves others too
            note_failed("how long messages are grouped", error)
            return 0.0

    def _on_publication(self, told: Publication) -> None:
        self._arrived.append(Message(told.topic, told.payload, self._connections * _MIDS + told.mid))

    def _hand_all_on(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._hearing.hear(arrived)

    def _drop(self, message: Message) -> None:
        self.acknowledge([message.token])


def detect_protocol(address: Address, timeout: float = 5.0) -> MQTTProtocolVersion:
    """The newer of MQTT 5 and 3.1.1 that a broker answers in; 5 where it answers in neither, whatever the reason."""
    versions = (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311)
    return next((each for each in versions if _is_supported(address, each, timeout)), versions[0])


def _is_supported(address: Address, protocol: MQTTProtocolVersion, timeout: float) -> bool:
    answers: list[Any] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-asks-{uuid.uuid4().hex[:8]}", protocol=protocol)
    prepare(client, address)
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(reason)
    client.connect_timeout = timeout
    deadline = time.monotonic() + timeout
    try:
        client.connect(address.host, address.port)
        # A broker that does not know a version may say so, hang up, or not answer at all.
        while (
            not answers and time.monotonic() < deadline and client.loop(timeout=0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS
        ):
            pass
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()
    return bool(answers) and not answers[0].is_failure
