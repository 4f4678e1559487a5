"""The relay, which lets tenants into a mosquitto: a process that passes their packets on, and the answers back.

Mosquitto knows users and their rights from its own files. Three things it does not refuse, so the relay does:

- A client id of another user. The relay makes user and client id one id, so that no two users share a session.
- A filter that matches more than its user may read. Mosquitto would hand out none of these messages, but take them from
  the others of a shared subscription.
- Messages retained on topics that a filter grants, of which a user may make up any number. They are passed on, and not
  retained.

Packets that the relay has to understand are kept until they are complete. Everything else is passed on as it comes, and
no faster than the other side takes it. Mosquitto listens for the relay at a socket in a folder that nobody else may
enter.
"""

import asyncio
import logging
import secrets
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from . import packets
from .access import Rights, UnfitList
from .certificate import ServedCertificate, UnusableCertificate
from .packets import V5, V311, Code, Fields, Malformed, Packet, header, read_connect

CERTIFICATE_LOOK_EVERY = 1.0
"""Seconds between two looks at the files of a certificate."""
_LONGEST_ID = 65_535
_MOST_UNSENT = 1 << 20
"""Bytes that wait for a client, beyond which it gets no more refusals and is disconnected."""
_CONNACK, _SUBACK = 2, 9
_RETAIN, _WILL_RETAIN = 0x01, 0x20
"""Flags of a message, and of a connecting client's will."""
log = logging.getLogger("relay")


class AccessList:
    """An access list in a file; a change of the file counts at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, ...] = ()
        self._rights: Rights
        self._look()

    def rights(self) -> Rights:
        """The rights as of now."""
        try:
            self._look()
        except (OSError, UnfitList) as error:
            log.error("%s; its old content stays in force", error)  # noqa: TRY400 - it says where and what to do
        return self._rights

    def _look(self) -> None:
        file = self._path.stat()
        version = file.st_ino, file.st_mtime_ns, file.st_size
        if version != self._version:
            self._version = version
            self._rights = Rights(self._path)


class PassageEnd(asyncio.Protocol):
    """One end of a passage between client and broker: what comes in here leaves at the other end."""

    kept: Mapping[int, int]
    """The kinds of packets that `replace` is asked about, with the bytes that such a packet may have."""
    other: "PassageEnd"

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        """What is to be sent once it is connected."""
        self._closed = False
        self._buffer = bytearray()
        self._passing = 0
        """Bytes of the current packet that are still to be passed on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what waits."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._early)
        if self._closed:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Pass on all that can be passed on."""
        self._buffer += data
        self.other.write(self._sifted())

    def pause_writing(self) -> None:
        """Have the other end read no more for now."""
        self.other.read(go_on=False)

    def resume_writing(self) -> None:
        """Have the other end read again."""
        self.other.read(go_on=True)

    def connection_lost(self, _error: Exception | None) -> None:
        """Close the other end as well."""
        self._closed = True
        self.other.close()

    def replace(self, first: int, body: bytes) -> bytes | None:
        """What is passed on in the place of a kept packet; None for the packet as it is."""
        raise NotImplementedError

    def alter(self, _at: int, _begin: int, _end: int) -> bool:
        """Alter the header of a packet in the buffer that is passed on; False until enough of the packet has come."""
        return True

    def write(self, data: bytes) -> None:
        """Send, at once or once it is connected."""
        if self._transport is None:
            self._early += data
        elif data and not self._closed:
            self._transport.write(data)

    def unsent(self) -> int:
        """The bytes that wait to be sent."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def read(self, *, go_on: bool) -> None:
        """Read on, or read no more for now."""
        if self._transport is not None and not self._closed:
            (self._transport.resume_reading if go_on else self._transport.pause_reading)()

    def close(self) -> None:
        """Close once everything is sent; idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._transport is not None:
            self._transport.close()
            if self.unsent():
                asyncio.get_running_loop().call_later(packets.LINGERING_SECONDS, self._transport.abort)

    def _sifted(self) -> bytes:
        """What is passed on now of the bytes that came."""
        buffer, passed, since, at = self._buffer, list[bytes](), 0, 0
        while at < len(buffer) and not self._closed:
            if not self._passing:
                if (places := header(buffer, at)) is None:
                    break
                begin, end = places
                if (longest := self.kept.get(buffer[at] >> 4)) is not None:
                    if end - at > longest:
                        raise Malformed("a packet of this kind is never so long", Code.TOO_LARGE)
                    if end > len(buffer):
                        break
                    replacement = self.replace(buffer[at], bytes(buffer[begin:end]))
                    if replacement is not None:
                        passed += [bytes(buffer[since:at]), replacement]
                        since = end
                    at = end
                    continue
                if not self.alter(at, begin, end):
                    break
                self._passing = end - at
            step = min(self._passing, len(buffer) - at)
            self._passing -= step
            at += step
        passed.append(bytes(buffer[since:at]))
        del buffer[:at]
        return b"".join(passed)


class ClientEnd(PassageEnd):
    """The end at a client, which says who it is and what it subscribes to; made by the listener."""

    kept: Mapping[int, int] = {Packet.CONNECT: 1 << 20, Packet.SUBSCRIBE: 1 << 17}

    def __init__(self, access_list: AccessList, broker: str, clients: set["ClientEnd"], most: int) -> None:
        """`broker` is mosquitto's socket. `clients` are all that are connected, `most` at once."""
        super().__init__()
        self.version = V311
        self.assigned: str | None = None
        """The client id that it was given because it had none."""
        self.refused: dict[int, list[int | None]] = {}
        """The codes of subscriptions under way, by packet id; None for those that the broker decides."""
        self.other = BrokerEnd(self)
        self._access_list = access_list
        self._broker = broker
        self._clients = clients
        self._most = most
        self._user: str | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(packets.INTRODUCTION_SECONDS, self.close)
        self._reaching: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hang up if there are too many."""
        super().connection_made(transport)
        if len(self._clients) >= self._most:
            cast(asyncio.Transport, transport).abort()
        else:
            self._clients.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Make room for others."""
        self._clients.discard(self)
        self._timer.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Refuse what breaks the rules."""
        if self._user is None and not self._buffer and data[0] != Packet.CONNECT << 4:
            # Another protocol, whose bytes might announce a packet that never comes.
            self.close()
            return
        try:
            super().data_received(data)
        except Malformed as error:
            if self._user is None:
                self.write(packets.connack(self.version, error.reason))
            elif self.version == V5:
                self.write(packets.disconnect(error.reason))
            self.close()
            self.other.close()

    def replace(self, first: int, body: bytes) -> bytes:
        """Name the user in the client id, and take filters out that it may not subscribe to."""
        return self._connected(first, body) if first >> 4 == Packet.CONNECT else self._subscribed(first, body)

    def alter(self, at: int, begin: int, end: int) -> bool:
        """Take the flag from a message that may not be retained."""
        buffer = self._buffer
        if buffer[at] >> 4 != Packet.PUBLISH or not buffer[at] & _RETAIN:
            return True
        topic_begin = begin + 2
        topic_end = topic_begin + int.from_bytes(buffer[begin:topic_begin], "big")
        if len(buffer) < min(topic_end, end):
            return False
        # A topic alias stands for a topic that came before, and nobody here remembers it.
        if not self._may_retain(self._user, buffer[topic_begin:topic_end].decode(errors="replace")):
            buffer[at] &= ~_RETAIN
        return True

    def _may_retain(self, user: str | None, topic: str) -> bool:
        return self._access_list.rights().permit_retaining(user or "", topic)

    def _connected(self, first: int, body: bytes) -> bytes:
        if self._user is not None:
            raise Malformed("a client connects once", Code.PROTOCOL)
        wish = read_connect(body)
        self.version = wish.version
        if wish.user is None:
            raise Malformed("a client without a user", Code.NOT_AUTHORIZED)
        client = wish.client
        if not client:
            if wish.version < V5 and not wish.clean:
                raise Malformed("a session needs a client id", Code.BAD_CLIENT_ID)
            client = self.assigned = secrets.token_hex(16)
        # No user has a colon in its name, so no two users have an id in common.
        identity = f"{wish.user}:{client}"
        if len(identity.encode()) > _LONGEST_ID:
            raise Malformed("the client id is too long", Code.BAD_CLIENT_ID)
        fields = Fields(body)
        name = fields.binary()
        if wish.will is not None and wish.will.retain and not self._may_retain(wish.user, wish.will.topic):
            # The flags follow the name, whose length is in front, and the version.
            place = 2 + len(name) + 1
            body = body[:place] + bytes([body[place] & ~_WILL_RETAIN]) + body[place + 1 :]
        fields.take(4)
        fields.properties(PacketTypes.CONNECT, wish.version)
        left = fields.rest()
        fields = Fields(left)
        fields.binary()
        self._user = wish.user
        self._timer.cancel()
        self.read(go_on=False)
        self._reaching = self._loop.create_task(self._reach())
        return packets.framed(first, body[: len(body) - len(left)], packets.text(identity), fields.rest())

    async def _reach(self) -> None:
        """Connect to the broker."""
        try:
            await self._loop.create_unix_connection(lambda: self.other, self._broker)
        except OSError as error:
            log.error("no broker answers at %s: %s", self._broker, error)  # noqa: TRY400 - it says what there is
            self.close()

    def _subscribed(self, first: int, body: bytes) -> bytes:
        fields = Fields(body)
        packet = fields.packet_id()
        properties = fields.properties(PacketTypes.SUBSCRIBE, self.version)
        rights, codes, granted = self._access_list.rights(), list[int | None](), list[bytes]()
        while fields.more():
            topic_filter, options = fields.text(), fields.take(1)
            if rights.permit(self._user or "", "read", topic_filter):
                codes.append(None)
                granted += [packets.text(topic_filter), options]
            else:
                codes.append(Code.NOT_AUTHORIZED)
        refused = [code for code in codes if code is not None]
        if refused and not granted:
            if self.unsent() > _MOST_UNSENT:
                raise Malformed("a client reads no answers", Code.NOT_AUTHORIZED)
            self.write(packets.suback(self.version, packet, refused))
            return b""
        if refused:
            self.refused[packet] = codes
        written = b"" if self.version < V5 else b"\0" if properties is None else properties.pack()
        return packets.framed(first, packet.to_bytes(2, "big"), written, *granted)


class BrokerEnd(PassageEnd):
    """The end at the broker, whose answers lack what the relay decided."""

    kept: Mapping[int, int] = {_CONNACK: 1 << 20, _SUBACK: 1 << 17}
    other: ClientEnd

    def __init__(self, client: ClientEnd) -> None:
        super().__init__()
        self.other = client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read on at the client."""
        self.other.read(go_on=True)
        super().connection_made(transport)

    def replace(self, first: int, body: bytes) -> bytes | None:
        """Name the client id that was assigned, and the filters that were refused."""
        client = self.other
        if first >> 4 == _CONNACK:
            if client.version < V5 or client.assigned is None or body[1] != Code.SUCCESS:
                return None
            properties = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.unpack(body[2:])  # type: ignore[no-untyped-call]  # as above
            properties.AssignedClientIdentifier = client.assigned
            return packets.framed(first, body[:2], properties.pack())  # type: ignore[no-untyped-call]  # as above
        fields = Fields(body)
        packet = fields.packet_id()
        if (codes := client.refused.pop(packet, None)) is None:
            return None
        fields.properties(PacketTypes.SUBACK, client.version)
        return packets.suback(client.version, packet, [fields.byte() if code is None else code for code in codes])


async def keep_current(certificate: ServedCertificate) -> None:
    """Take a certificate up whenever its files have changed."""
    while True:
        await asyncio.sleep(CERTIFICATE_LOOK_EVERY)
        try:
            certificate.look()
        except UnusableCertificate as error:
            log.error("%s; the one before stays in force", error)  # noqa: TRY400 - it says where and what to do


async def _serve(host: str, port: int, client: Callable[[], ClientEnd], tls: ServedCertificate | None) -> None:
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    context = None if tls is None else tls.context
    await loop.create_server(client, host, port, reuse_address=True, backlog=1_024, ssl=context)
    looking = None if tls is None else asyncio.create_task(keep_current(tls))
    await ending.wait()
    if looking is not None:
        looking.cancel()


def main() -> None:
    """Read the arguments, and run a relay."""
    parser = ArgumentParser(prog="relay", description="Lets tenants into a mosquitto.")
    parser.add_argument("--listen", nargs=2, required=True, metavar=("HOST", "PORT"), help="where tenants connect")
    parser.add_argument("--access-list", type=Path, required=True, help="the topics that each user may read")
    parser.add_argument("--broker", required=True, help="the socket at which mosquitto listens for tenants")
    parser.add_argument("--most-connections", type=int, required=True, help="limit of the connections")
    parser.add_argument("--tls", nargs=2, type=Path, metavar=("CERTIFICATE", "KEY"), help="files for TLS")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    host, port = given.listen
    try:
        tls = ServedCertificate(*given.tls) if given.tls else None
        clients = set[ClientEnd]()
        client = partial(ClientEnd, AccessList(given.access_list), given.broker, clients, given.most_connections)
        asyncio.run(_serve(host, int(port), client, tls))
    except (OSError, UnfitList, UnusableCertificate) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
