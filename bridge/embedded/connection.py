"""A client's connection: reads packets, asks the door, and acts on the exchange.

Packets are handled in the order of arrival. Outgoing packets leave together, once in each round of the event loop. A
client that reads too slowly is sent no more until it has read.
"""

import asyncio
import logging
import secrets
from dataclasses import replace
from typing import cast

from . import packets
from .access import Door
from .exchange import ClientSession, Exchange, SessionOwner
from .packets import MOST_PACKET_BYTES, V5, V311, Code, Connect, Fields, Malformed, Packet, Published

_EXACTLY_ONCE = 2
_LONGEST_INTRODUCTION = 1 << 20
_PENDING = 1 << 18
"""Bytes that wait to be written from which a client counts as slow."""
log = logging.getLogger("broker")


class Connection(asyncio.Protocol):
    """One client's connection; made by a listener."""

    def __init__(
        self,
        exchange: Exchange,
        door: Door,
        connections: set["Connection"],
        *,
        most: int = 0,
        largest_packet: int = MOST_PACKET_BYTES,
    ) -> None:
        """`connections` are those of the same listener, which takes `most` at once; 0 is no limit."""
        self.version = V311
        self.receive_maximum = 65_535
        self.packet_maximum = MOST_PACKET_BYTES
        self._exchange = exchange
        self._door = door
        self._connections = connections
        self._most = most
        self._largest_packet = largest_packet
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._outgoing: list[bytes] = []
        self._pending = 0
        self._slow = False
        self._closed = False
        self._session: ClientSession | None = None
        self._key = ""
        self._will: Published | None = None
        self._will_delay = 0
        self._patience = 0.0
        """Seconds without a packet after which the client counts as dead; 0 is no limit."""
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(packets.INTRODUCTION_SECONDS, self._end)

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the transport."""
        self._transport = cast(asyncio.Transport, transport)
        if self._most and len(self._connections) >= self._most:
            self._closed = True
            self._timer.cancel()
            self._transport.abort()
            return
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Handle every complete packet."""
        self._heard = self._loop.time()
        self._buffer += data
        if self._session is None and self._buffer[0] != Packet.CONNECT << 4:
            # Another protocol, whose bytes might announce a packet that never comes.
            self._end()
            return
        at = 0
        try:
            while not self._closed and (places := packets.header(self._buffer, at)) is not None:
                begin, end = places
                # Before its bytes have come, so that they are never kept.
                if end - at > (_LONGEST_INTRODUCTION if self._session is None else self._largest_packet):
                    self._refuse(Code.TOO_LARGE)
                    return
                if end > len(self._buffer):
                    break
                self._take(self._buffer[at], bytes(self._buffer[begin:end]))
                at = end
        except Malformed as error:
            log.info("%s is disconnected: %s", self, error)
            self._refuse(error.reason)
        del self._buffer[:at]

    def pause_writing(self) -> None:
        """Stop sending for now."""
        self._slow = True

    def resume_writing(self) -> None:
        """Send what waits."""
        self._slow = False
        if self._session is not None:
            self._session.pump()

    def connection_lost(self, _error: Exception | None) -> None:
        """Leave the session, and publish the will of a client that did not disconnect properly."""
        self._connections.discard(self)
        self._end()

    # Methods for its session and the broker.

    @property
    def ready(self) -> bool:
        """True if it takes more at the moment."""
        return not self._slow and not self._closed and self._pending < _PENDING

    def send(self, packet: bytes) -> None:
        """Send a packet, together with the others of this round."""
        if self._closed:
            return
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(packet)
        self._pending += len(packet)

    def disconnect(self, reason: Code) -> None:
        """Disconnect the client; over MQTT 5, with the reason."""
        if self.version == V5 and self._session is not None:
            self.send(packets.disconnect(reason))
        self._end()

    def outdated(self) -> bool:
        """True if its user would not be accepted any more."""
        return self._session is not None and not self._door.current(self._session.owner.user, self._key)

    def __str__(self) -> str:
        who = "a stranger" if self._session is None else f"{self._session.owner.user} as {self._session.owner.client!r}"
        return f"{who} at {self._transport.get_extra_info('peername')}"

    # Handlers of packets.

    def _take(self, first: int, body: bytes) -> None:
        kind, flags = first >> 4, first & 15
        session = self._session
        if session is None:
            self._connect(packets.read_connect(body))
        elif kind == Packet.PUBLISH:
            self._publish(session, flags, body)
        elif kind == Packet.PUBACK:
            session.acknowledged(Fields(body).packet_id())
        elif kind == Packet.PUBREL:
            packet = Fields(body).packet_id()
            known = packet in session.promised
            session.promised.discard(packet)
            reason = Code.SUCCESS if known else Code.NO_PACKET_ID
            self.send(packets.acknowledgement(Packet.PUBCOMP, self.version, packet, reason))
        elif kind == Packet.SUBSCRIBE and flags == 2:  # noqa: PLR2004 - by the standard
            self._subscribe(session, body)
        elif kind == Packet.UNSUBSCRIBE and flags == 2:  # noqa: PLR2004 - as above
            packet, filters = packets.read_unsubscribe(body, self.version)
            ended = [self._exchange.unsubscribe(session, topic_filter) for topic_filter in filters]
            codes = [Code.SUCCESS if is_ended else Code.NO_SUBSCRIPTION for is_ended in ended]
            self.send(packets.unsuback(self.version, packet, list(codes)))
        elif kind == Packet.PINGREQ:
            self.send(packets.PINGRESP)
        elif kind == Packet.DISCONNECT:
            self._say_goodbye(session, *packets.read_disconnect(body, self.version))
        else:
            raise Malformed(f"a client sends no packet of kind {kind} here", Code.PROTOCOL)

    def _connect(self, connect: Connect) -> None:
        self.version = connect.version
        key = self._door.key(connect.user, connect.password)
        if key is None or connect.user is None:
            self._refuse(Code.NOT_AUTHORIZED)
            return
        if not connect.client and connect.version < V5 and not connect.clean:
            self._refuse(Code.BAD_CLIENT_ID)
            return
        client = connect.client or secrets.token_hex(16)
        owner = SessionOwner(self._door, connect.user, client)
        before = self._exchange.find(owner)
        if before is not None and isinstance(before.link, Connection):
            before.link.disconnect(Code.TAKEN_OVER)
        if before is not None and connect.clean:
            self._exchange.close(before)
        session, resumed = self._exchange.open(owner)
        session.expiry = connect.expiry
        self.receive_maximum, self.packet_maximum = connect.receive_maximum, connect.packet_maximum
        self._session, self._key = session, key
        self._will, self._will_delay = connect.will, connect.will_delay
        self._timer.cancel()
        if connect.keep_alive:
            self._patience = 1.5 * connect.keep_alive
            self._timer = self._loop.call_later(self._patience, self._check_silence)
        assigned = None if connect.client else client
        self.send(packets.connack(self.version, Code.SUCCESS, resumed=resumed, assigned=assigned))
        session.attach(self)
        session.pump()

    def _publish(self, session: ClientSession, flags: int, body: bytes) -> None:
        packet, publication = packets.read_publish(flags, body, self.version)
        reason = Code.SUCCESS if self._may_write(publication.topic) else Code.NOT_AUTHORIZED
        # At QoS 2 a packet id stands for one message until the client releases it.
        doubled = publication.qos == _EXACTLY_ONCE and packet in session.promised
        if publication.qos:
            if publication.qos == _EXACTLY_ONCE and reason is Code.SUCCESS:
                session.promised.add(packet)
            kind = Packet.PUBREC if publication.qos == _EXACTLY_ONCE else Packet.PUBACK
            self.send(packets.acknowledgement(kind, self.version, packet, reason))
        if reason is Code.SUCCESS and not doubled:
            self._exchange.publish(self._as_permitted(publication), session)

    def _subscribe(self, session: ClientSession, body: bytes) -> None:
        packet, wishes = packets.read_subscribe(body, self.version)
        user = session.owner.user
        wishes = [
            wish if self._door.lets_subscribe(user, wish.topic_filter) else replace(wish, refused=Code.NOT_AUTHORIZED)
            for wish in wishes
        ]
        granted = [(wish, self._exchange.subscribe(session, wish)) for wish in wishes if wish.refused is None]
        codes = [wish.qos if wish.refused is None else int(wish.refused) for wish in wishes]
        self.send(packets.suback(self.version, packet, codes))
        for wish, new in granted:
            if wish.handling == 0 or (wish.handling == 1 and new):
                self._exchange.hand_retained(session, wish)

    def _say_goodbye(self, session: ClientSession, reason: int, expiry: int | None) -> None:
        if reason != Code.DISCONNECT_WITH_WILL:
            self._will = None
        # A session that ends with its connection cannot be made to outlive it.
        if expiry is not None and session.expiry != 0:
            session.expiry = packets.expiry_seconds(expiry)
        self._end()

    def _may_write(self, topic: str) -> bool:
        """True if the client may publish on a topic. Topics that begin with $ are the broker's own."""
        user = "" if self._session is None else self._session.owner.user
        return not topic.startswith("$") and self._door.permits(user, "write", topic)

    def _as_permitted(self, publication: Published) -> Published:
        """A message that the client may publish, retained only if that is permitted, too."""
        user = "" if self._session is None else self._session.owner.user
        if not publication.retain or self._door.lets_retain(user, publication.topic):
            return publication
        return replace(publication, retain=False)

    # The end of the connection.

    def _refuse(self, reason: Code) -> None:
        if self._session is not None:
            self.disconnect(reason)
            return
        # An unknown version is answered in the oldest one, as MQTT requires.
        self.send(packets.connack(self.version, reason))
        self._end()

    def _check_silence(self) -> None:
        """Disconnect a client that has been silent for too long."""
        left = self._heard + self._patience - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_silence)
        else:
            self._end()

    def _end(self) -> None:
        """Close the connection after writing what waits; idempotent."""
        if self._closed:
            return
        self._write()
        self._closed = True
        self._timer.cancel()
        session = self._session
        if session is not None:
            will = self._will
            if will is not None and self._may_write(will.topic):
                self._exchange.bequeath(session, self._as_permitted(will), self._will_delay)
            self._exchange.leave(session)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(packets.LINGERING_SECONDS, self._transport.abort)

    def _flush(self) -> None:
        if not self._closed:
            self._write()
            if self._session is not None:
                self._session.pump()

    def _write(self) -> None:
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        self._pending = 0
        self._transport.write(data)
