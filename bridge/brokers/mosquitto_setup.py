"""How mosquitto is set up: its files, and the command that runs it.

What it keeps across a crash: mosquitto holds sessions and queued messages in memory. It writes them to its store once a
second (`autosave_interval 1`), and when it is told to stop. So `kill -9` loses at most what it acknowledged since the
last save, about a second, and may bring back as much of what was delivered meanwhile. Saving at every change would
still leave a gap, since it acknowledges first, and each save writes the whole store: with 5,000 messages waiting for an
absent client that took 120 messages a second, against 9,900. Braid can afford the second. The broker is transport and
never the store: streams between jobs are numbered, and receivers ask for what is missing. Raw sources have no numbers,
and can lose that second.
"""

import os
import shutil
from pathlib import Path

from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS, Entrance

# Debian keeps daemons where ordinary users do not look.
_MORE_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")


def executable() -> str | None:
    """Where mosquitto is, if it is installed."""
    return shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE_PLACES)))


def command(
    folder: Path, host: str, port: int, max_queued_messages: int, entrance: Entrance | None = None
) -> list[str]:
    """Write the configuration, and name the command that runs mosquitto with it."""
    program = executable()
    if program is None:
        raise FileNotFoundError("mosquitto is not installed")
    # These precede the listeners, since some of them hold for the listener in front of them only.
    general = {
        "per_listener_settings": "false" if entrance is None else "true",
        "persistence": "true",
        "persistence_location": f"{folder}/",
        "autosave_interval": 1,
        # At its default limits mosquitto drops messages that it has acknowledged.
        "max_inflight_messages": 0,
        "max_queued_messages": max_queued_messages,
        "set_tcp_nodelay": "true",
        "sys_interval": 1,
        "connection_messages": "false",
        # Started by root it would become another user, who may not write here and would not die with its parent.
        "user": "root",
    }
    own = {"listener": f"{port} {host}", "allow_anonymous": "false", "password_file": folder / PASSWORDS}
    theirs = {} if entrance is None else _listening(entrance)
    settings = [*general.items(), *own.items(), *theirs.items()]
    lines = [f"{name} {value}" for name, value in settings]
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("a broker's folders and host are written on one line each")
    configuration = folder / "mosquitto.conf"
    configuration.write_text(
        "\n".join([*lines, "log_dest stderr", "log_type error", "log_type warning", ""]), encoding="utf-8"
    )
    return [program, "-c", str(configuration)]


def _listening(entrance: Entrance) -> dict[str, object]:
    return {
        "listener": f"{entrance.port} {entrance.host}",
        "allow_anonymous": "false",
        "password_file": entrance.folder / PASSWORDS,
        "acl_file": entrance.folder / ACCESS_LIST,
    }
