"""The set-up of brokers: the entrance for tenants, and the commands and files of both kinds of broker.

Mosquitto keeps sessions and queued messages in memory. It writes them to its store once a second (`autosave_interval
1`) and when it is stopped. So `kill -9` loses at most what it acknowledged in about the last second, and it may deliver
as many messages again. Saving at every change would not close that gap, because mosquitto acknowledges first; and each
save writes the whole store: with 5,000 messages waiting for an absent client, throughput fell from 9,900 to 120
messages a second. Braid can bear the loss, because a broker is transport and never the store: streams between jobs are
numbered, and receivers ask for missing events. Only raw sources, which have no numbers, can lose that second. After a
stop mosquitto delivers again with the same packet ids, so receivers recognize the messages
(`bridge.spools.deliveries`).

The embedded broker runs if mosquitto is not installed. It is the package `embedded`, in a process that loads nothing
else of Braid. It keeps everything in memory, so undelivered messages are lost when it ends. Streams between jobs are
sent again. Raw sources lose what the host had not fetched: the last moment, or all that waits for a host that is away.
"""

import os
import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bridge.files import make_private_folder
from bridge.messages import LARGEST_PACKET

PASSWORDS = "passwords"
"""The file with a broker's users and the hashes of their passwords."""
ACCESS_LIST = "acl"
"""The file with the topics that each user may read and write."""

_MOST_CONNECTIONS = 10_000


def most_connections() -> int:
    """The most connections of tenants: never so many that Braid's own clients find no room.

    A relay has two descriptors for each.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(_MOST_CONNECTIONS, allowed // 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """A listener for users whose rights are in an access list; made by the starter of a broker.

    For mosquitto a relay listens (`bridge.embedded.relay`); the embedded broker does so itself.

    Braid's own users have another listener, without a list. Once it has started again, mosquitto has no rights for the
    users of a listener with a list whose sessions it restored from its store, until they connect again: it would drop
    messages for a host that is away.
    """

    folder: Path
    """The folder of the files `passwords` and `acl`, which its owner writes. A reload reads them again."""
    host: str = "127.0.0.1"
    port: int = 0
    tls: tuple[Path, Path] | None = None
    """The files of a certificate and its key, if clients come over TLS. They are read again once they change."""


# As `bridge.embedded` it would load all of `bridge`, which takes four times the memory. The folder comes last on the
# path, so that its modules hide no others.
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def embedded_command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """The command that runs the embedded broker."""
    entrance_arguments = []
    if entrance is not None:
        files = [str(entrance.folder / name) for name in (PASSWORDS, ACCESS_LIST)]
        limit = ["--most-connections", str(most_connections())]
        entrance_arguments = ["--entrance", entrance.host, str(entrance.port), *files, *limit, *_tls(entrance)]
    listener = ["--listener", host, str(port), str(folder / PASSWORDS)]
    limits = ["--most-waiting", str(max_queued_messages), "--largest-packet", str(LARGEST_PACKET)]
    return [*embedded_start(), *listener, *entrance_arguments, *limits]


def embedded_start(module: str = "embedded") -> list[str]:
    """The command without its arguments, of the broker or of another module of its package."""
    return [sys.executable, "-I", "-c", _START, str(Path(__file__).parent), module]


MOST_SENT_BYTES = 64 * 1024 * 1024
"""What a client has been sent and has not acknowledged, beyond which more waits."""
MOST_WAITING_BYTES = 256 * 1024 * 1024
"""What waits for a client, beyond which messages for it are dropped, and for nobody else.

A subscriber that sleeps would otherwise fill everybody's memory. Mosquitto has no limit for a listener, so this one
holds for hosts that are away, too.
"""
_SOCKET = "tenants/socket"
"""Where mosquitto listens for its relay, seen from its folder: the whole path might be too long for a socket."""
_MORE_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
"""Folders of daemons, which are not on the path of ordinary users."""


def mosquitto_program() -> str | None:
    """The path of mosquitto, if it is installed."""
    return shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_PLACES)))


def mosquitto_command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """Write the configuration; returns the command that runs mosquitto with it, in its folder."""
    program = mosquitto_program()
    if program is None:
        raise FileNotFoundError("mosquitto is not installed")
    # These precede the listeners, because after a listener some of them would hold for it only.
    general = {
        "per_listener_settings": "false" if entrance is None else "true",
        "persistence": "true",
        "persistence_location": f"{folder}/",
        "autosave_interval": 1,
        # With its default limits mosquitto drops messages that it has acknowledged.
        "max_inflight_messages": 0,
        "max_queued_messages": max_queued_messages,
        "max_inflight_bytes": MOST_SENT_BYTES,
        "max_queued_bytes": MOST_WAITING_BYTES,
        # Else one client could have it take messages of 268 MB into memory.
        "max_packet_size": LARGEST_PACKET,
        "set_tcp_nodelay": "true",
        "sys_interval": 1,
        "connection_messages": "false",
        # Started by root, it would become another user, who may not write here and would not die with its parent.
        "user": "root",
    }
    own = {"listener": f"{port} {host}", "allow_anonymous": "false", "password_file": folder / PASSWORDS}
    second = {} if entrance is None else _tenants_listener(folder, entrance)
    settings = [*general.items(), *own.items(), *second.items()]
    lines = [f"{name} {value}" for name, value in settings]
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("a broker's folder or host holds a line break; rename it")
    configuration = folder / "mosquitto.conf"
    configuration.write_text(
        "\n".join([*lines, "log_dest stderr", "log_type error", "log_type warning", ""]), encoding="utf-8"
    )
    return [program, "-c", str(configuration)]


def relay_command(entrance: Entrance, broker: str = _SOCKET) -> list[str]:
    """The command that runs a relay before the mosquitto of this folder, or before one with another socket."""
    return [
        *embedded_start("embedded.relay"),
        *("--listen", entrance.host, str(entrance.port)),
        *("--access-list", str(entrance.folder / ACCESS_LIST)),
        *("--broker", broker),
        *("--most-connections", str(most_connections())),
        *_tls(entrance),
    ]


def _tls(entrance: Entrance) -> list[str]:
    return [] if entrance.tls is None else ["--tls", *map(str, entrance.tls)]


def _tenants_listener(folder: Path, entrance: Entrance) -> dict[str, object]:
    make_private_folder(folder / Path(_SOCKET).parent)
    return {
        "listener": f"0 {_SOCKET}",
        "allow_anonymous": "false",
        "password_file": entrance.folder / PASSWORDS,
        "acl_file": entrance.folder / ACCESS_LIST,
    }
