"""The session at another MQTT broker, from which a source takes messages.

The broker keeps the session while nobody is connected, and each message until it is acknowledged, which it is once it
is in the spool. The session's client id is made of the deployment and the stream, so it is the same after a restart,
and no two Braids end each other's connections.

A connection is made once. When it ends, `take` raises, and the run makes a new client, over which the broker delivers
again what was not acknowledged. `bridge.spools.deliveries` recognizes what was spooled, at brokers that are known to
give packet ids in turn.

One thread serves all connections of a process. It puts messages into a queue, of a bounded size: MQTT 5 bounds how many
may come, and while the queue is full nothing is read.

**Retained messages** come with each subscription, marked as such. Over MQTT 5 a subscription that is there already
brings none; over 3.1.1 they count as events only until the first event is in the spool.
"""

import contextlib
import hashlib
import json
import math
import socket
import ssl
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import paho.mqtt.client as paho
import pyarrow as pa
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from bridge.connectors.connector_run import ClientAssignment, ConnectorTrouble, TakenEvents
from bridge.formats.sparkplug_decoder import Reply, TopicDecoder
from bridge.messages import LARGEST_PACKET, PACKET_IDS, UNACKNOWLEDGED, Message
from bridge.raw_events import Unfit, arrow_schema
from bridge.receiver import MOST_SPOOLED
from bridge.source_topics import SourceMessages
from bridge.spools.deliveries import NOTHING_IN_DOUBT, Deliveries, InDoubt
from bridge.transport.address import Address, is_unknown_user, why_refused, why_unreachable
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_rounds import SMALLEST_WINDOW, Rounds, RoundsClient, ungrouped
from bridge.transport.probes import is_known_in_turn
from dags.config import Outside
from dags.connectors import MqttConnector
from dags.source_topics import overlap, source_topic

_VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}
_SESSION_EXPIRY = 7 * 24 * 3600
"""Seconds for which a broker keeps the session while nobody is connected, if it lets clients choose."""
_CONNECTING = 5.0
"""Seconds for a connection and its handshake."""
_ANSWERING = 5.0
"""Seconds for the broker to answer, to each of a few questions."""
_PARTING = 2.0
"""Seconds for the broker to take the last acknowledgements."""
_MOST_HELD = 32_000_000
"""Bytes of messages that are in memory before nothing more is read; one more message, and what was read with it, may
come on top."""
_KIND_AND_QOS, _EXACTLY_ONCE = 0xF6, paho.PUBLISH | 0b0100
"""The bits of a packet that say what it is, and those of a message with QoS 2."""
_SUBSCRIBED, _PAST = "subscribed", "past"
"""Positions that say that the session was begun once, and that the spool has what the topics had retained."""
_NEVER, _WITH_NEW_SUBSCRIPTION = SubscribeOptions.RETAIN_DO_NOT_SEND, SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
_LOOP = ClientLoop("takes from other brokers")
_SESSION_LOST = (
    "the broker had no session for this source any more, so what was published while it was not connected may be "
    "missing; have the broker keep sessions, over its restarts too"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Route:
    """The broker, and how to reach it; made by `_route`."""

    address: Address
    """With the user and the password, if there are any."""
    context: ssl.SSLContext | None
    """What checks the broker's certificate; None without TLS."""
    trusts: str
    """What to do about a certificate that is not trusted."""
    outside: Outside

    @property
    def name(self) -> Address:
        """The address without the user, as messages show it."""
        return Address(host=self.address.host, port=self.address.port, tls=self.address.tls)

    def open(self) -> socket.socket:
        """Connect to one of the addresses that were checked, and check the certificate for the name of the host."""
        try:
            addresses = self.outside.addresses(self.address.host)
        except OSError as error:
            raise ConnectorTrouble(f"no connection to the broker at {self.name}: {error}") from None
        deadline = time.monotonic() + _CONNECTING
        failure: OSError = ConnectionError("its host has no address")
        for address in addresses:
            try:
                return self._opened(address, deadline)
            except OSError as error:
                failure = error
        raise ConnectorTrouble(why_unreachable(self.name, failure, trust=self.trusts))

    def _opened(self, address: str, deadline: float) -> socket.socket:
        connection = socket.create_connection((address, self.address.port), max(0.1, deadline - time.monotonic()))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is None:
                return connection
            return self.context.wrap_socket(connection, server_hostname=self.address.host)
        except BaseException:
            connection.close()
            raise


def _route(connector: MqttConnector, outside: Outside) -> _Route:
    address = Address.parse(connector.url)
    secret = "" if connector.secret is None else connector.secret.revealed
    named = "" if connector.secret is None else connector.secret.secret
    if secret.startswith("-----BEGIN"):
        if not address.tls:
            raise ConnectorTrouble(
                f"the secret {named!r} holds a certificate, which is for TLS; write mqtts:// in the URL"
            )
        user, password = None, None
    elif secret:
        user, colon, password = secret.partition(":")
        if not colon or not user:
            raise ConnectorTrouble(
                f"the secret {named!r} is neither user:password nor a certificate with its key; put it again"
            )
    else:
        user, password = None, None
    context = None
    if address.tls:
        context = _trusting(connector.ca)
        if user is None and secret:
            _identify(context, secret, named)
    trusts = (
        "correct `ca`, which is to hold the certificate of its authority"
        if connector.ca
        else "give the certificate of its authority as `ca`"
    )
    return _Route(
        address=Address(host=address.host, port=address.port, user=user, password=password, tls=address.tls),
        context=context,
        trusts=trusts,
        outside=outside,
    )


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ca) if ca else ssl.create_default_context()
    except ssl.SSLError as error:
        raise ConnectorTrouble(f"`ca` cannot be read: {error}; give certificates in PEM") from None


def _identify(context: ssl.SSLContext, certificate: str, named: str) -> None:
    """Have a context show a client certificate. The library reads it from a file only."""
    with tempfile.NamedTemporaryFile("w", prefix="braid-", encoding="utf-8") as file:
        file.write(certificate)
        file.flush()
        try:
            # Without a password it would ask at the terminal for that of an encrypted key.
            context.load_cert_chain(file.name, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConnectorTrouble(
                f"the secret {named!r} holds no certificate with its key, unencrypted and in PEM: {error}; put it again"
            ) from None


class _Questioner(paho.Client):
    """A client of the library, for a few packets, that connects where it may."""

    def __init__(self, route: _Route, **settings: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, reconnect_on_failure=False, **settings)
        self._route = route
        self.username_pw_set(route.address.user, route.address.password)

    def _create_socket_connection(self) -> socket.socket:
        return self._route.open()


class _Connection(RoundsClient):
    """A client that connects once, where it may, and reads no more than its session has room for."""

    def __init__(self, route: _Route, *, has_room: Callable[[], bool], **settings: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, manual_ack=True, reconnect_on_failure=False, **settings)
        self._route = route
        self._has_room = has_room
        self.failure = ""
        """Why nothing more can be read, as far as it was said."""
        self.username_pw_set(route.address.user, route.address.password)

    def _create_socket_connection(self) -> socket.socket:
        return self._route.open()

    def _holds_too_much(self) -> bool:
        return self._hurried_until < math.inf and not self._has_room()

    def _fetch(self) -> None:
        try:
            super()._fetch()
        except BlockingIOError:
            raise
        except OSError as error:
            # The library does not say it.
            self.failure = self.failure or str(error)
            raise

    def _packet_read(self) -> MQTTErrorCode:
        result = super()._packet_read()
        if (size := self._in_packet["remaining_length"]) > LARGEST_PACKET:
            # Over MQTT 5 the broker knows, and leaves such messages out.
            self.failure = (
                f"it sends a message of {size:,} bytes, and one may have {LARGEST_PACKET:,}; have the broker limit them"
            )
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return result

    def _packet_handle(self) -> MQTTErrorCode:
        if self._in_packet["command"] & _KIND_AND_QOS == _EXACTLY_ONCE:
            # The library would keep any number of them until the broker releases them.
            self.failure = "it sends a message with QoS 2, although QoS 1 was asked for"
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return super()._packet_handle()


class MqttSession:
    """The client of a `MqttConnector`; a `bridge.connectors.connector_run.ConnectorClient`."""

    def __init__(
        self, connector: MqttConnector, assignment: ClientAssignment, read: TopicDecoder | None = None
    ) -> None:
        """`read` makes events of messages; by default those of the source."""
        self._connector = connector
        self._version = _VERSIONS[connector.protocol]
        self._assignment = assignment
        self._topic = source_topic(connector.topic, outside=True)
        self._read = read or SourceMessages(self._topic, assignment.format, assignment.schema, assignment.decode).read
        self._replies: Sequence[Reply] = ()
        """What is to be published once what was taken last is in the spool."""
        self._route = _route(connector, assignment.outside)
        self._id = client_id(assignment.outside.deployment, assignment.stream)
        self._changed = threading.Condition()
        """Guards what the connection's thread shares with the one that uses the session."""
        self._queue: deque[Message] = deque()
        self._held = 0
        """Bytes of messages in the queue, and of those that were taken and are not in the spool."""
        self._waiting = 0
        """The number of these messages."""
        self._answer: tuple[Any, bool] | None = None
        """What the broker answered to the client, and whether it had a session."""
        self._subscribed: Sequence[Any] | None = None
        """What it answered to the subscription."""
        self._end = ""
        """Why the connection has ended; empty while it has not."""
        self._taken: Sequence[Message] = ()
        """What was taken last."""
        self._most = SMALLEST_WINDOW
        """The most messages that came at once."""
        self._acknowledged = self._confirmed = 0
        """The numbers of the last groups that were acknowledged, and surely so."""
        self._has_past = _PAST in assignment.positions
        self._connection = self._made()
        self._begins = False
        """Whether something is to be noted in the spool before anything is taken."""
        self._lost = False
        """Whether the broker had lost the session."""
        self._deliveries: Deliveries | None = None
        """What recognizes repetitions, at a broker that gives packet ids in turn."""
        try:
            self._connect()
        except BaseException:
            self._drop()
            raise

    def take(self, seconds: float) -> TakenEvents | None:
        """Return the events of the next messages; raises `ConnectorTrouble` once the connection has ended."""
        if self._begins:
            self._begins = False
            self._taken = ()
            return TakenEvents(
                events=self._nothing,
                unfit=(Unfit(event="", reason=_SESSION_LOST),) if self._lost else (),
                positions={_SUBSCRIBED: 1},
                in_doubt=NOTHING_IN_DOUBT,
            )
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._end, seconds)
            if self._end:
                raise ConnectorTrouble(self._end)
            self._taken = self._next()
        if not self._taken:
            return None
        is_full = len(self._taken) >= self._most
        self._most = max(self._most, len(self._taken))
        return self._arrived(self._new(self._taken), is_full=is_full)

    def spooled(self) -> None:
        """Acknowledge what was taken last."""
        messages, self._taken = self._taken, ()
        replies, self._replies = self._replies, ()
        for reply in replies:
            # Only where the source's own topic reaches: what is beyond is not its owner's business.
            if overlap(self._topic.filter, reply.topic):
                self._connection.publish_unanswered(
                    reply.topic, reply.payload, retain=False, properties=None, left=lambda: None
                )
        with self._changed:
            self._held -= sum(len(message.payload) for message in messages)
            self._waiting -= len(messages)
        tokens = [message.token for message in messages if _is_numbered(message)]
        if not tokens:
            return
        self._acknowledged += 1
        number = self._acknowledged
        doubts_end = None if self._deliveries is None else self._deliveries.acknowledging()

        def confirm() -> None:
            with self._changed:
                self._confirmed = number
                self._changed.notify_all()
            if doubts_end is not None:
                doubts_end()

        self._connection.acknowledge(tokens, confirm)

    def close(self, *, for_good: bool) -> None:
        """Disconnect; if it is for good, have the broker forget the session."""
        self._connection.hurry()
        with self._changed:
            # A connection that is closed while the broker sends is reset, and then the broker loses what it has not
            # read yet.
            self._changed.wait_for(lambda: self._end or self._confirmed == self._acknowledged, _PARTING)
        self._drop()
        if for_good:
            self._end_session()

    def _made(self) -> _Connection:
        is_newest = self._version is MQTTProtocolVersion.MQTTv5
        connection = _Connection(
            self._route,
            has_room=lambda: self._held < _MOST_HELD and self._waiting < UNACKNOWLEDGED,
            rounds=Rounds(
                grouping=ungrouped,
                on_messages=self._on_messages,
                on_end=lambda: None,
                on_unreachable=lambda _error: None,
            ),
            client_id=self._id,
            # In MQTT 5 the connect says so instead.
            clean_session=None if is_newest else False,
            protocol=self._version,
        )
        connection.on_connect = self._on_connect
        connection.on_subscribe = self._on_subscribe
        connection.on_disconnect = self._on_disconnect
        return connection

    def _connect(self) -> None:
        """Connect and subscribe; returns once the broker has confirmed both."""
        self._connection.connect(self._route.address.host, self._route.address.port, **self._kept())
        _LOOP.add(self._connection)
        reason, has_session = self._await(lambda: self._answer)
        if reason.is_failure:
            raise ConnectorTrouble(self._why_refused(reason))
        was_there = _SUBSCRIBED in self._assignment.positions
        self._lost = was_there and not has_session
        self._subscribe(has_session=has_session)
        for answer in self._await(lambda: self._subscribed):
            if answer.is_failure:
                raise ConnectorTrouble(
                    f"the broker at {self._route.name} refused the subscription to {self._topic.filter!r}: {answer}; "
                    "have it let the user read this topic"
                )
        session = self._session_name()
        before = self._assignment.in_doubt
        in_doubt = before if has_session and before.session == session else NOTHING_IN_DOUBT
        self._begins = not was_there or not has_session or in_doubt != before
        if session:
            self._deliveries = Deliveries(self._topic.filter, session, in_doubt)

    def _kept(self) -> dict[str, Any]:
        """How a connect has the broker keep the session; MQTT 3.1.1 has that when the client is made."""
        if self._version is not MQTTProtocolVersion.MQTTv5:
            return {}
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
        properties.SessionExpiryInterval = _SESSION_EXPIRY
        properties.ReceiveMaximum = UNACKNOWLEDGED
        properties.MaximumPacketSize = LARGEST_PACKET
        return {"clean_start": False, "properties": properties}

    def _subscribe(self, *, has_session: bool) -> None:
        if self._version is not MQTTProtocolVersion.MQTTv5:
            self._connection.subscribe(self._topic.filter, qos=1)
            return
        # The subscription of a session that is there brings nothing again.
        wants_past = self._connector.retained and (has_session or not self._has_past)
        options = SubscribeOptions(qos=1, retainHandling=_WITH_NEW_SUBSCRIPTION if wants_past else _NEVER)
        self._connection.subscribe(self._topic.filter, options=options)

    def _await(self, answer: Callable[[], Any]) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._end or answer() is not None, _ANSWERING)
            if (answered := answer()) is not None:
                return answered
            raise ConnectorTrouble(
                self._end
                or f"the broker at {self._route.name} does not answer; see whether it speaks "
                f"MQTT {self._connector.protocol}"
            )

    def _why_refused(self, reason: object) -> str:
        why = why_refused(reason)
        if "protocol version" in str(reason).lower():
            why = f"{reason}; set `protocol` to {'3.1.1' if self._connector.protocol == '5' else '5'}"
        elif is_unknown_user(reason) and self._connector.secret is None:
            why = f"{reason}; name a secret with user:password, or with a certificate and its key, as `secret`"
        return f"the broker at {self._route.name} refused the connection: {why}"

    def _session_name(self) -> str:
        """The name of the session in the spool; empty if repetitions cannot be recognized in it."""
        if self._version is not MQTTProtocolVersion.MQTTv5:
            return ""
        asks = _Questioner(self._route, client_id=f"{self._id}-asks", protocol=self._version)
        try:
            is_in_turn = is_known_in_turn(asks, self._route.address, _ANSWERING)
        except ConnectorTrouble:
            return ""
        return f"{self._id} at {self._route.address.host}:{self._route.address.port}" if is_in_turn else ""

    def _end_session(self) -> None:
        """Have the broker forget the session, by beginning a new one that ends at once."""
        is_newest = self._version is MQTTProtocolVersion.MQTTv5
        begins_anew = None if is_newest else True
        ends = _Questioner(self._route, client_id=self._id, protocol=self._version, clean_session=begins_anew)
        answered: list[Any] = []
        ends.on_connect = lambda _client, _data, _flags, reason, _properties: answered.append(reason)
        try:
            anew: dict[str, Any] = {"clean_start": True} if is_newest else {}
            ends.connect(self._route.address.host, self._route.address.port, **anew)
            deadline = time.monotonic() + _ANSWERING
            while not answered and time.monotonic() < deadline:
                if ends.loop(timeout=0.1) != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    break
        finally:
            with contextlib.suppress(OSError):
                ends.disconnect()

    def _drop(self) -> None:
        self._connection.disconnect()
        _LOOP.remove(self._connection)

    def _next(self) -> list[Message]:
        """Take messages out of the queue that are spooled together; called with the guard held."""
        messages: list[Message] = []
        size = 0
        while self._queue and (not messages or size + len(self._queue[0].payload) <= MOST_SPOOLED):
            messages.append(self._queue.popleft())
            size += len(messages[-1].payload)
        return messages

    def _new(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that are no repetitions."""
        numbered = [message for message in messages if _is_numbered(message)]
        if self._deliveries is None or not numbered:
            return messages
        repeated = len(numbered) - len(self._deliveries.new(numbered))
        known = {message.token for message in numbered[:repeated]}
        return [message for message in messages if message.token not in known] if known else messages

    def _arrived(self, messages: Sequence[Message], *, is_full: bool) -> TakenEvents:
        takes_past = self._connector.retained and (self._version is MQTTProtocolVersion.MQTTv5 or not self._has_past)
        content = self._read([message for message in messages if takes_past or not message.retained])
        events, self._replies = content.events, content.replies
        positions = {}
        if self._connector.retained and not self._has_past and len(events):
            positions[_PAST] = 1
        return TakenEvents(
            events=events,
            unfit=content.unfit,
            positions=positions,
            in_doubt=self._in_doubt(),
            is_full=is_full,
        )

    def _in_doubt(self) -> InDoubt | None:
        return None if self._deliveries is None else self._deliveries.kept()

    @cached_property
    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=arrow_schema(self._assignment.schema))

    def _on_messages(self, messages: Sequence[Message]) -> None:
        with self._changed:
            self._queue += messages
            self._held += sum(len(message.payload) for message in messages)
            self._waiting += len(messages)
            self._changed.notify_all()

    def _on_connect(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        with self._changed:
            self._answer = reason, flags.session_present
            self._changed.notify_all()

    def _on_subscribe(self, _client: Any, _data: Any, _mid: int, reasons: Sequence[Any], _properties: Any) -> None:
        with self._changed:
            self._subscribed = reasons
            self._changed.notify_all()

    def _on_disconnect(self, _client: Any, _data: Any, flags: Any, reason: Any, _properties: Any) -> None:
        # So the loop does not connect it again.
        self._connection.leaving = True
        with self._changed:
            self._end = self._why_ended(str(reason) if flags.is_disconnect_packet_from_server else "")
            # What is not in the spool comes again.
            self._queue.clear()
            self._changed.notify_all()

    def _why_ended(self, reason: str) -> str:
        why = reason or self._connection.failure
        ended = f"the broker at {self._route.name} ended the connection"
        if self._answer is None:
            see = f"see whether it speaks MQTT {self._connector.protocol}, and what its log says"
            return f"{ended} without an answer{why and f' ({why})'}; {see}"
        return f"{ended}: {why}" if why else ended


def _is_numbered(message: Message) -> bool:
    """Whether a message has a packet id; one of QoS 0 has none, is not acknowledged and never comes again."""
    return message.token % PACKET_IDS != 0


def client_id(deployment: str, stream: str) -> str:
    """The client id of a stream's session, which all brokers take: it has 23 letters and digits.

    >>> client_id("0c24", "source/1") == client_id("0c24", "source/1") != client_id("0c25", "source/1")
    True
    >>> len(client_id("0c24", "source/1"))
    23
    """
    text = json.dumps([deployment, stream])
    return f"braid{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:18]}"
