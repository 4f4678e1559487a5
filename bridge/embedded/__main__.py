"""Run the broker: `--listener HOST PORT PASSWORDS`, and further listeners with access lists.

After SIGHUP it reads its files again, and disconnects users who would not be accepted any more. SIGTERM ends it. It
keeps everything in memory.
"""

import asyncio
import logging
import signal
import socket
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from .access import Door, UnfitList
from .certificate import ServedCertificate, UnusableCertificate
from .connection import Connection
from .exchange import Exchange
from .packets import MOST_PACKET_BYTES, VERSION, Code, Published
from .relay import keep_current

_REPORT_INTERVAL = 1.0
"""Seconds between two updates of the topics below $SYS."""
log = logging.getLogger("broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A listener: its host and port, and the users that it accepts."""

    host: str
    port: int
    door: Door
    most: int = 0
    """The most connections; 0 is no limit."""
    tls: ServedCertificate | None = None


class EmbeddedBroker:
    """A broker with its listeners, until a signal ends it."""

    def __init__(self, listeners: list[Opening], most_waiting: int, largest_packet: int) -> None:
        self._listeners = listeners
        self._largest_packet = largest_packet
        self._connections: list[set[Connection]] = [set() for _ in listeners]
        self._exchange = Exchange(most_waiting=most_waiting)
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._published: dict[str, str] = {}

    async def run(self) -> None:
        """Listen until a signal ends the broker."""
        # Before any client can connect, and take the broker to be ready for signals.
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._ending.set)
        for opening, connections in zip(self._listeners, self._connections, strict=True):
            await self._loop.create_server(
                partial(
                    Connection,
                    self._exchange,
                    opening.door,
                    connections,
                    most=opening.most,
                    largest_packet=self._largest_packet,
                ),
                opening.host,
                opening.port,
                reuse_address=True,
                family=socket.AF_INET6 if ":" in opening.host else socket.AF_UNSPEC,
                backlog=1_024,
                ssl=None if opening.tls is None else opening.tls.context,
            )
        served = [opening.tls for opening in self._listeners if opening.tls is not None]
        looking = [asyncio.create_task(keep_current(certificate)) for certificate in served]
        began = self._loop.time()
        self._update("version", VERSION)
        while not self._ending.is_set():
            self._update("uptime", f"{self._loop.time() - began:.0f} seconds")
            self._update("publish/messages/dropped", str(self._exchange.dropped))
            try:
                await asyncio.wait_for(self._ending.wait(), _REPORT_INTERVAL)
            except TimeoutError:
                continue
        for look in looking:
            look.cancel()
        for connection in list(chain(*self._connections)):
            connection.disconnect(Code.SHUTTING_DOWN)

    def _reload(self) -> None:
        """Read every file again, and disconnect users who would not be accepted any more."""
        for listener in self._listeners:
            try:
                listener.door.read()
            except UnfitList as error:
                log.error("%s; its old content stays in force", error)  # noqa: TRY400 - it says where and what to do
        for connection in list(chain(*self._connections)):
            if connection.outdated():
                connection.disconnect(Code.NOT_AUTHORIZED)
        for session in self._exchange.sessions:
            if not session.owner.door.knows(session.owner.user):
                self._exchange.close(session)

    def _update(self, name: str, value: str) -> None:
        """Publish a value below $SYS if it has changed."""
        topic = f"$SYS/broker/{name}"
        if self._published.get(topic) != value:
            self._published[topic] = value
            self._exchange.publish(Published(topic=topic, payload=value.encode(), qos=1, retain=True))


async def _serve(listeners: list[Opening], most_waiting: int, largest_packet: int) -> None:
    await EmbeddedBroker(listeners, most_waiting, largest_packet).run()


def main() -> None:
    """Read the arguments, and run a broker."""
    parser = ArgumentParser(
        prog="embedded broker", description="A broker for MQTT 5 and 3.1.1 that keeps everything in memory."
    )
    parser.add_argument(
        "--listener",
        nargs=3,
        action="append",
        required=True,
        metavar=("HOST", "PORT", "PASSWORDS"),
        help="a listener for users who may do everything; repeatable",
    )
    parser.add_argument(
        "--entrance",
        nargs=4,
        action="append",
        default=[],
        metavar=("HOST", "PORT", "PASSWORDS", "LIST"),
        help="a listener for users whose rights are in an access list; repeatable",
    )
    parser.add_argument(
        "--most-waiting", type=int, default=0, help="limit of the messages that wait for a client; 0 for no limit"
    )
    parser.add_argument(
        "--most-connections", type=int, default=0, help="limit of the connections to each entrance; 0 for no limit"
    )
    parser.add_argument(
        "--largest-packet",
        type=int,
        default=MOST_PACKET_BYTES,
        help="limit of a packet in bytes; a client that sends more is disconnected",
    )
    parser.add_argument(
        "--tls", nargs=2, type=Path, metavar=("CERTIFICATE", "KEY"), help="files for TLS at the entrances"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        tls = ServedCertificate(*given.tls) if given.tls else None
        listeners = [
            Opening(host=host, port=int(port), door=Door(*map(Path, files)), most=most, tls=by)
            for openings, most, by in ((given.listener, 0, None), (given.entrance, given.most_connections, tls))
            for host, port, *files in openings
        ]
        asyncio.run(_serve(listeners, given.most_waiting, given.largest_packet))
    except (OSError, UnfitList, UnusableCertificate) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
