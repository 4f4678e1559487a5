"""The files that say to the broker who may do what, kept as the service wants them."""

import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from bridge.brokers.entrance import ACCESS_LIST, PASSWORDS
from bridge.machine.files import make_folder, write_whole
from manager.access.grants import Grant, access_list
from manager.access.passwords import password_list

_FOR_OWNER = 0o600
_FOR_GROUP = 0o640


class AccessKeeper:
    """Keeps the files `acl` and `passwords` in a folder, and has the broker read them again; any thread may ask.

    With a broker that Braid runs, call `keep` once before `start_broker(..., entrance=Entrance(folder=folder))`, and
    have `reload` call `Broker.reload` from then on.

    A mosquitto that somebody else runs, on the same machine or a file system that it shares, is told of them in its own
    configuration, with a listener of its own for tenants:

        per_listener_settings true

        listener 1883 127.0.0.1
        allow_anonymous false
        password_file /etc/mosquitto/braid

        listener 8883
        certfile ...
        keyfile ...
        allow_anonymous false
        password_file /var/lib/braid/access/passwords
        acl_file /var/lib/braid/access/acl

    Braid's own user has the other listener, without a list: at each reload mosquitto forgets what the users of a
    listener with a list may do whose sessions it restored from its store, until they connect again, and drops what
    comes for them meanwhile. Where there can be one listener only, give the hash for Braid's own user too. Topics are
    common to all listeners, so the lists of any others must leave `braid/#` out.

    Mosquitto reads the files as the user that it runs as. Where that is not Braid's own, make the folder beforehand
    with the group of mosquitto and the set-group-id bit (`install -d -o braid -g mosquitto -m 2750 FOLDER`): then the
    files are readable for that group, and otherwise for their owner only.

    It reads them again when it gets SIGHUP, which its operator has to send after each change, as by a path unit of
    systemd (`PathChanged=FOLDER`) that starts `systemctl reload mosquitto`; `reload` may then do nothing.
    """

    def __init__(self, folder: Path, reload: Callable[[], None]) -> None:
        self._folder = folder
        self._reload = reload
        self._lock = threading.Lock()
        self._read: tuple[str, str] | None = None
        """What the broker was told to read last, as far as this process knows."""

    def keep(self, grants: Mapping[str, Grant], hashes: Mapping[str, str]) -> None:
        """Write the files where they differ, and have the broker read them where it may not have.

        `hashes` are those of the passwords by user. Who is in one list only may do nothing. When this returns the
        broker has been told; some milliseconds later newcomers are let in, and who is connected with a password that
        is not in the list any more is put out.
        """
        wanted = access_list(grants), password_list(hashes)
        with self._lock:
            make_folder(self._folder)
            mode = _FOR_GROUP if self._folder.stat().st_mode & stat.S_ISGID else _FOR_OWNER
            for name, text in zip((ACCESS_LIST, PASSWORDS), wanted, strict=True):
                _write(self._folder / name, text.encode(), mode)
            # Also where nothing was written: a process that wrote them may have died before it told the broker.
            if wanted != self._read:
                self._read = None
                self._reload()
                self._read = wanted


def _write(path: Path, content: bytes, mode: int) -> None:
    if not path.exists() or path.read_bytes() != content or stat.S_IMODE(path.stat().st_mode) != mode:
        write_whole(path, content, mode=mode)
