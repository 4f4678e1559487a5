"""The set-up of mosquitto: its files, and the command that runs it.

Mosquitto holds sessions and queued messages in memory. It writes them to its store once a second (`autosave_interval
1`), and when it is stopped. So `kill -9` loses at most the messages that it acknowledged in about the last second, and
may deliver as many again. Saving at every change would still leave a gap, because it acknowledges first, and each save
writes the whole store: with 5,000 messages waiting for an absent client, throughput fell from 9,900 to 120 messages a
second. Braid can afford to lose the second. The broker is transport and never the store: streams between jobs are
numbered, and receivers ask for missing events. Raw sources have no numbers, and can lose that second. What it delivers
again after a stop, it delivers with the same packet ids, so that receivers know it (`bridge.deliveries`).
"""

import os
import shutil
from pathlib import Path

from bridge.brokers import embedded_setup
from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS, Entrance, most_connections
from bridge.machine.private_files import make_private_folder
from bridge.message_bounds import LARGEST_PACKET

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


def executable() -> str | None:
    """The path of mosquitto, if it is installed."""
    return shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_PLACES)))


def command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """Write the configuration; returns the command that runs mosquitto with it, in its folder."""
    program = executable()
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


def relay_command(entrance: Entrance, broker: str = _SOCKET, *tls: Path) -> list[str]:
    """The command that runs a relay before the mosquitto of this folder, or before one with another socket.

    `tls` are the files of a certificate and its key, if tenants come over TLS.
    """
    return [
        *embedded_setup.start("embedded.relay"),
        *("--listen", entrance.host, str(entrance.port)),
        *("--access-list", str(entrance.folder / ACCESS_LIST)),
        *("--broker", broker),
        *("--most-connections", str(most_connections())),
        *(("--tls", *map(str, tls)) if tls else ()),
    ]


def _tenants_listener(folder: Path, entrance: Entrance) -> dict[str, object]:
    make_private_folder(folder / Path(_SOCKET).parent)
    return {
        "listener": f"0 {_SOCKET}",
        "allow_anonymous": "false",
        "password_file": entrance.folder / PASSWORDS,
        "acl_file": entrance.folder / ACCESS_LIST,
    }
