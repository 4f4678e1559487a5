"""The client of the MQTT library, changed to read and acknowledge many messages at once, in rounds.

The library's own client wakes up for each message, asks the system for each byte of a header, makes an object for
properties that are not set, and sends each acknowledgement alone. At a hundred messages a second that costs more than
handling them. This client fetches all that has come at once, parses usual messages itself, and waits before each round
for as long as its messages are grouped. Sending does not wait; what waits to be sent leaves in few pieces, because each
wakes the broker up. Nor does the client have a thread: a loop serves it, with any number of others.

It overrides private methods of the library, so `pyproject.toml` bounds the library's version. Unusual packets are left
to the library.

**The fetch interval** is how long the messages of a stream stay at the broker before they are fetched. Fetching,
spooling and acknowledging costs nearly the same for one message and for a hundred. So a stream is fetched once for each
batch, just before it may begin; after a quiet while, what comes within the shortest interval is fetched together.
Fetched messages are spooled at once; until then the broker keeps them. A broker may hand out only so many before they
are acknowledged. So the next fetch is soon after one that brought many, or after one that brought as many as any before
and was acknowledged just before the next message came.
"""

import math
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bridge.messages import PACKET_IDS, Message

SHORTEST_FETCH_INTERVAL = 0.05
"""Seconds between the beginnings of two fetches, at least."""
LONGEST_FETCH_INTERVAL = 1.0
"""Seconds that messages wait at most."""
FETCH_AHEAD = 0.01
"""Seconds between a fetch and the batch that it is for, at least."""
PART_AHEAD = 0.05
"""The part of its wait by which a fetch is early: what comes too late for its batch waits for a whole pace more."""
LEEWAY = 1.5
"""Multiple of the time that spooling the last fetch took, if that is more: a disk may be slow, or far away."""
MANY_MESSAGES = 200
"""Messages in one fetch after which the next one does not wait for a batch."""
SMALLEST_WINDOW = 10
"""Messages that any broker hands out before one is acknowledged."""
AT_ONCE = 0.02
"""Seconds after an acknowledgement within which a broker sends what has waited for that."""


class Fetch(NamedTuple):
    """The time and size of a fetch."""

    begun: float = 0.0
    """When it began, in seconds of `time.monotonic`."""
    messages: int = 0
    acknowledged: float = 0.0
    """Seconds from its beginning until its messages were spooled and acknowledged."""
    most: int = 0
    """The most messages of any fetch before it over the same connection."""

    def is_full(self, now: float) -> bool:
        """Whether the broker may have more, given when the first message after this fetch came."""
        at_once = now - self.begun - self.acknowledged < AT_ONCE
        return self.messages >= MANY_MESSAGES or (at_once and self.messages >= max(self.most, SMALLEST_WINDOW))


Grouping = Callable[[Fetch], float]
"""Computes, from the last fetch, the seconds that the next one waits once a message has come."""


def next_batch_after(before: Fetch) -> float:
    """The time after which a batch has to be due for another fetch to be in time for it."""
    return before.begun + SHORTEST_FETCH_INTERVAL + FETCH_AHEAD


def ungrouped(_before: Fetch) -> float:
    """Fetch at once."""
    return 0.0


def fetch_wait(due: float, *, now: float, before: Fetch) -> float:
    """Seconds that a fetch waits, given when the next batch of the stream's readers may begin.

    >>> few = Fetch(begun=7.0, messages=25, most=32)
    >>> [round(fetch_wait(7.2, now=now, before=few), 2) for now in (7.0, 7.18, 7.3)]
    [0.19, 0.01, 0.05]
    >>> [round(fetch_wait(due, now=7.0, before=few), 2) for due in (6.0, 9.0)]
    [0.05, 1.0]
    >>> round(fetch_wait(7.2, now=7.0, before=few._replace(messages=32)), 2)
    0.05
    """
    earliest = before.begun + SHORTEST_FETCH_INTERVAL
    if not before.is_full(now):
        ahead = max(FETCH_AHEAD, PART_AHEAD * (due - now), LEEWAY * before.acknowledged)
        earliest = max(earliest, due - ahead)
    return min(earliest - now if earliest > now else SHORTEST_FETCH_INTERVAL, LONGEST_FETCH_INTERVAL)


_FETCHED = 1 << 16
"""Bytes that are fetched at once."""
_MOST_READ = 1_000
"""Packets of one round after which outgoing packets are sent, and other clients are served."""
_FEW, _PAUSE = 100, 0.002
"""Messages of a fetch below which a large round pauses, and for how many seconds.

A broker that writes each message alone would be read message by message.
"""
_MOST_HELD, _HELD_UP = 64_000_000, 0.05
"""Bytes of large messages that may wait to be acknowledged, and seconds until it is looked again whether fewer do.

Else thousands of them would be in memory at once. The broker's bound counts messages, however large they are.
"""
_FEW_SENT, _MOST_SENT = 20, 250
"""Messages that may be sent without an answer before it is known how many the broker takes, and at most.

The library's own window of twenty would be filled up message by message, as the answers come.
"""
_KEEPALIVE_CHECK = 10.0
"""Seconds between two looks whether the broker is to hear something, or was not heard for too long; a minute is."""
_SHORTEST_BACK_OFF, _LONGEST_BACK_OFF = 1.0, 5.0
"""Seconds until a client connects again after its connection ended, and after many attempts that failed."""
_RETAINED = 0b0001
_ONCE_AT_LEAST = paho.PUBLISH | 0b0010
_MORE_LENGTH = 0x80
"""The bit of a byte of a length that says that another one follows."""
_ACKNOWLEDGEMENT = paho.PUBACK << 24 | 2 << 16
"""The packet that acknowledges a message, without the message's id."""
_ANSWER = bytes([paho.PUBACK, 2])
"""The beginning of the packet that says that the broker has taken a message; its id follows."""
_TAKEN, _NO_PROPERTIES = ReasonCode(PacketTypes.PUBACK), Properties(PacketTypes.PUBACK)  # type: ignore[no-untyped-call]  # paho ships them without types
_PING = bytes([paho.PINGREQ, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The settings of a client that reads in rounds; made by `bridge.transport.mqtt_client.MqttClient`."""

    grouping: Grouping
    """Computes how long a round waits once a message has come."""
    on_messages: Callable[[list[Message]], None]
    """Called with messages that were read together, in the loop's thread."""
    on_end: Callable[[], None]
    """Called at the end of each round, in the loop's thread."""
    on_unreachable: Callable[[OSError], None]
    """Called if no connection came about, by the thread that tried."""


class RoundsClient(paho.Client):
    """A client of the library that reads in rounds, and is served by a loop."""

    def __init__(self, *arguments: Any, rounds: Rounds, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rounds = rounds
        self._begun = 0.0
        self._messages = 0
        self._acknowledged = 0.0
        """Seconds from the beginning of a round to the last acknowledgement."""
        self._most = 0
        """The most messages in any round before it over this connection."""
        self._hurried_until = 0.0
        """The time until which rounds do not wait."""
        self._hurries = 0
        self._fetched = b""
        self._at = 0
        self._drained = False
        """True if the system has no more to fetch."""
        self._connection = 0
        """The number of this connection; message ids are those of one connection."""
        self._connecting = threading.Lock()
        """Held while that changes, and while messages of this connection are acknowledged."""
        self._held: dict[int, int] = {}
        """The bytes of each message that is larger than a fetch and not acknowledged yet, by its token."""
        self._unanswered: dict[_Unanswered, Callable[[], None]] = {}
        """What to call once each message that the broker does not answer has left."""
        self._pings: deque[Callable[[], None]] = deque()
        """What to call with each answer to a ping of this connection."""
        self._together: int | None = None
        """The thread that is within `together`, if one is."""
        self.call: Callable[[], None] = lambda: None
        """Has the loop serve this client soon; called from any thread."""
        self.leaving = False
        """Whether it is to disconnect, or has, for good."""
        self.connects_at = 0.0
        """The time from which it may connect again."""
        self._back_off = 0.0
        """Seconds that it waited before its last attempt to connect; 0 once one had success."""
        self._reads_at: float | None = None
        """The time at which the next round begins; None if nothing has come."""
        self._hurries_seen = 0
        """How often it had been hurried when that was decided."""
        self._reading: Iterator[float] | None = None
        """The round that is being read, if one is."""
        self._reads_on_at = 0.0
        self._checked_at = 0.0
        self.on_message = self._on_unusual
        self.open_window(_FEW_SENT)

    def reconnect(self) -> MQTTErrorCode:
        """Reconnect, and forget the bytes of the connection before."""
        self._fetched, self._at = b"", 0
        self._messages = self._most = 0
        self._reads_at = self._reading = None
        self._checked_at = time.monotonic()
        self.open_window(_FEW_SENT)
        self._hurried_until = 0.0
        with self._connecting:
            self._connection += 1
            self._held.clear()
            self._pings.clear()
        self.lose_unanswered()
        return super().reconnect()

    def connect_again(self) -> None:
        """Try to connect; it may take some seconds."""
        self._back_off = min(max(2 * self._back_off, _SHORTEST_BACK_OFF), _LONGEST_BACK_OFF)
        self.connects_at = time.monotonic() + self._back_off
        try:
            self.reconnect()
        except OSError as error:
            self._rounds.on_unreachable(error)
        if self.leaving:
            self._sock_close()

    def disconnect(self, *arguments: Any, **settings: Any) -> MQTTErrorCode:
        """Disconnect for good."""
        self.leaving = True
        return super().disconnect(*arguments, **settings)

    def drop(self) -> None:
        """Give up the connection, in the loop's thread."""
        self._loop_rc_handle(MQTTErrorCode.MQTT_ERR_CONN_LOST)

    def open_window(self, most: int) -> None:
        """Let so many messages be sent without an answer, within a bound of its own; called while connecting."""
        self._max_inflight_messages = min(most, _MOST_SENT)

    def connected(self) -> None:
        """Note that the broker has accepted the client: should the connection end, the next attempt is soon."""
        self._back_off = 0.0

    @property
    def reads(self) -> bool:
        """Whether the loop is to say when something comes; it has come already while a round waits."""
        return self._reads_at is None and self._reading is None

    def serve(self, *, readable: bool) -> float:
        """Do what is due over a connection; called by the loop's thread.

        `readable` says that something has come. Returns when to be called again, whatever comes.
        """
        now = time.monotonic()
        if self.reads and (readable or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending())):
            self._hurries_seen = self._hurries
            before = Fetch(self._begun, self._messages, self._acknowledged, self._most)
            self._reads_at = now + self._rounds.grouping(before)
        if self._reads_at is not None and (
            now >= self._reads_at or now < self._hurried_until or self._hurries != self._hurries_seen
        ):
            self._reads_at, self._reading, self._reads_on_at = None, self._round(), now
        if self._reading is not None and now >= self._reads_on_at:
            pause = next(self._reading, None)
            if pause is None:
                self._reading = None
            else:
                self._reads_on_at = time.monotonic() + pause
        if self._sock is not None and self._out_packet:
            self.loop_write()
        if self._sock is not None and now - self._checked_at >= _KEEPALIVE_CHECK:
            self._checked_at = now
            self.loop_misc()
        due = self._checked_at + _KEEPALIVE_CHECK
        if self._reads_at is not None:
            due = min(due, self._reads_at)
        return min(due, self._reads_on_at) if self._reading is not None else due

    def _round(self) -> Iterator[float]:
        """Read all that has come; yields the seconds to wait each time that others are served in between."""
        self._most = max(self._most, self._messages)
        self._begun, self._messages, self._drained, read = time.monotonic(), 0, False, 0
        # To the end: the system does not report bytes that were already fetched, so no later call would read them.
        while not self._drained and self._sock is not None:
            if self._holds_too_much():
                self._rounds.on_end()
                yield _HELD_UP
            elif usual := self._read_usual(_MOST_READ - read):
                read += usual
                if usual < _FEW and self._messages >= MANY_MESSAGES:
                    yield _PAUSE
            elif not self._drained:
                # An unusual or partial packet, or the end of the connection.
                super().loop_read()
                read += 1
            if read >= _MOST_READ:
                self._rounds.on_end()
                self.loop_write()
                read = 0
                yield 0.0
        self._rounds.on_end()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send what this thread publishes within at its end; one thread of a client may use it.

        The loop's thread would wake up for each packet, and compete with this one for the interpreter.
        """
        self._together = threading.get_ident()
        try:
            yield
        finally:
            self._together = None
            if self._out_packet:
                self.call()

    def loop_write(self) -> MQTTErrorCode:
        """Send what waits, in few pieces; called by the loop's thread."""
        waiting = self._out_packet
        if len(waiting) > 1:
            pieces = [*_pieces([waiting.popleft() for _ in range(len(waiting))])]
            waiting.extendleft(reversed(pieces))
        return super().loop_write()

    def publish_unanswered(
        self, topic: str, payload: bytes, *, retain: bool, properties: Properties | None, left: Callable[[], None]
    ) -> None:
        """Send a message that the broker does not answer; `left` is called once it was written, or is lost.

        It is lost with its connection. The library would give it the id of a message that awaits an answer.
        """
        message = _Unanswered(self._left)
        self._unanswered[message] = left
        written = self._send_publish(
            0,
            topic.encode(),
            payload,
            retain=retain,
            info=message,  # type: ignore[arg-type]  # it has what the library calls
            properties=properties,
        )
        if written is MQTTErrorCode.MQTT_ERR_NO_CONN:
            self._left(message)

    def lose_unanswered(self) -> None:
        """Give up the messages that the broker does not answer and that were not written."""
        for message in list(self._unanswered):
            self._left(message)

    def _left(self, message: "_Unanswered") -> None:
        if (left := self._unanswered.pop(message, None)) is not None:
            left()

    def hurry(self, seconds: float = math.inf) -> None:
        """Let no round wait for so long, because what the broker has is awaited. Any thread may call it."""
        self._hurried_until = max(self._hurried_until, time.monotonic() + seconds)
        # So a round that waits ends, even if its thread runs only after that time.
        self._hurries += 1
        self.call()

    def _update_inflight(self) -> MQTTErrorCode:
        # The library looks through all messages at each answer, though usually none of them waits to be sent.
        if self._inflight_messages == len(self._out_messages):
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._update_inflight()

    def _packet_queue(self, command: int, packet: Any, mid: int, qos: int, info: Any = None) -> MQTTErrorCode:
        # The library would send it at once, in this thread.
        self._out_packet.append(_waiting(command, packet, mid=mid, qos=qos, info=info))
        if self._together != threading.get_ident():
            self.call()
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None:
        """Acknowledge messages in this order, in one piece; those of an earlier connection come again and are ignored.

        Any thread may call it. `taken` is called, in the loop's thread, once the broker has surely taken them: it
        handles the packets of a connection in order, so it has if it answers a ping that was sent after them.
        """
        self._acknowledged = time.monotonic() - self._begun
        with self._connecting:
            first = self._connection * PACKET_IDS
            if self._held:
                tokens = list(tokens)
                for token in tokens:
                    self._held.pop(token, None)
            mids = [token - first for token in tokens if first < token < first + PACKET_IDS]
            if mids:
                packets = struct.pack(f"!{len(mids)}I", *[_ACKNOWLEDGEMENT | mid for mid in mids])
                if taken is not None:
                    packets += _PING
                    self._pings.append(taken)
                self._packet_queue(paho.PUBACK, packets, 0, 1)

    def _send_pingreq(self) -> MQTTErrorCode:
        # In one order with the others, so that each answer is matched to its ping.
        with self._connecting:
            self._pings.append(lambda: None)
            return super()._send_pingreq()

    def _handle_pingresp(self) -> MQTTErrorCode:
        result = super()._handle_pingresp()
        if self._pings:
            self._pings.popleft()()
        return result

    def _holds_too_much(self) -> bool:
        """Whether too much waits to be acknowledged; what else has come waits at the broker, unless it is to leave."""
        return self._hurried_until < math.inf and bool(self._held) and sum(list(self._held.values())) > _MOST_HELD

    def _read_usual(self, most: int) -> int:
        """Hand on the next messages while they are usual and complete, up to `most`; returns their number."""
        # The library reads the rest of a packet that it has begun.
        if self._sock is None or self._in_packet["command"]:
            return 0
        try:
            self._fetch()
        except OSError:
            # Unless simply nothing came, the library meets the error again, and handles it.
            return 0
        first = self._connection * PACKET_IDS
        messages, self._at = usual_messages(self._fetched, self._at, self.protocol, first_token=first, most=most)
        self._hand_on(messages)
        return len(messages) + self._read_answers()

    def _read_answers(self) -> int:
        """Take the answers that say only that a message was taken; returns their number."""
        taken, self._at = usual_answers(self._fetched, self._at)
        for mid in taken:
            with self._out_message_mutex:
                if mid in self._out_messages:
                    self._do_on_publish(mid, _TAKEN, _NO_PROPERTIES)
        return len(taken)

    def _fetch(self) -> None:
        if self._at == len(self._fetched):
            try:
                self._fetched, self._at = super()._sock_recv(_FETCHED), 0
            except BlockingIOError:
                self._drained = True
                raise

    def _sock_recv(self, bufsize: int) -> bytes:
        self._fetch()
        begun = self._at
        self._at = min(begun + bufsize, len(self._fetched))
        return self._fetched[begun : self._at]

    def _on_unusual(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            # Such a topic is no text, so nothing can be subscribed to by its name.
            topic = "\ufffd"
        token = self._connection * PACKET_IDS + message.mid
        if message.qos and len(message.payload) > _FETCHED:
            with self._connecting:
                self._held[token] = len(message.payload)
        self._hand_on([Message(topic, bytes(message.payload), token, message.dup, message.retain)])

    def _hand_on(self, messages: list[Message]) -> None:
        self._messages += len(messages)
        self._rounds.on_messages(messages)


class _Unanswered:
    """A message that the broker does not answer; the library says when it was written."""

    def __init__(self, left: Callable[["_Unanswered"], None]) -> None:
        self._left = left

    def _set_as_published(self) -> None:
        self._left(self)


def _waiting(command: int, packet: bytes, *, mid: int, qos: int, info: Any = None) -> Any:
    """A packet that waits to be sent, as the library keeps it."""
    return {
        "command": command,
        "mid": mid,
        "qos": qos,
        "pos": 0,
        "to_process": len(packet),
        "packet": packet,
        "info": info,
    }


def _pieces(packets: Iterable[Any]) -> Iterator[Any]:
    """Packets in larger ones: those with which nothing is done once they were sent, and of which nothing was."""
    joined: list[bytes] = []
    size = 0
    for packet in packets:
        joins = packet["pos"] == 0 and packet["qos"] > 0 and packet["command"] & 0xF0 in {paho.PUBLISH, paho.PUBACK}
        if joined and (not joins or size + packet["to_process"] > _FETCHED):
            yield _waiting(paho.PUBACK, b"".join(joined), mid=0, qos=1)
            joined, size = [], 0
        if joins:
            joined.append(packet["packet"])
            size += packet["to_process"]
        else:
            yield packet
    if joined:
        yield _waiting(paho.PUBACK, b"".join(joined), mid=0, qos=1)


def usual_messages(
    packets: bytes, at: int, protocol: MQTTProtocolVersion, *, first_token: int, most: int
) -> tuple[list[Message], int]:
    r"""The messages from a place on, up to an unusual or incomplete packet, and the place where they end.

    Usual are messages that are acknowledged once, are not marked as repeated, and have no properties. Retained ones are
    not mixed with others.

    >>> whole = b"\x32\x08\x00\x01a\x00\x07\x00hi"
    >>> usual_messages(whole + whole[:5], 0, MQTTProtocolVersion.MQTTv5, first_token=0, most=9)
    ([Message(topic='a', payload=b'hi', token=7, again=False, retained=False)], 10)
    """
    messages: list[Message] = []
    has_properties = protocol is MQTTProtocolVersion.MQTTv5
    topic, named = "", b""
    kind = packets[at] if at < len(packets) else 0
    if kind & ~_RETAINED != _ONCE_AT_LEAST:
        return messages, at
    retained = bool(kind & _RETAINED)
    # It runs for each message of each stream, so it is one loop, and reads the topic only if it is another one.
    for _ in range(most):
        if at + 2 > len(packets) or packets[at] != kind:
            break
        begin, length = at + 2, packets[at + 1]
        while packets[begin - 1] & _MORE_LENGTH and begin < len(packets):
            # Less the bit of the byte before it.
            length += packets[begin] - 1 << 7 * (begin - at - 1)
            begin += 1
        end = begin + length
        if end > len(packets):
            break
        if not named or not packets.startswith(named, begin):
            named = packets[begin : begin + 2 + int.from_bytes(packets[begin : begin + 2])]
            try:
                topic = named[2:].decode()
            except UnicodeDecodeError:
                break
        place = begin + len(named)
        payload = place + 2 + has_properties
        if not topic or payload > end or (has_properties and packets[place + 2]):
            break
        token = first_token + (packets[place] << 8) + packets[place + 1]
        messages.append(Message(topic, packets[payload:end], token, retained=retained))
        at = end
    return messages, at


def usual_answers(packets: bytes, at: int) -> tuple[list[int], int]:
    r"""The ids of the messages that the answers from a place on say were taken, and the place where these end.

    >>> usual_answers(b"\x40\x02\x00\x07\x40\x02\x01\x00\x40\x02\x00", 0)
    ([7, 256], 8)
    """
    taken: list[int] = []
    while packets.startswith(_ANSWER, at) and at + 4 <= len(packets):
        taken.append((packets[at + 2] << 8) + packets[at + 3])
        at += 4
    return taken, at
