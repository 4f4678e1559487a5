"""The access keeper: keeps the broker's files of access lists and passwords up to date."""

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
    """Keeps the files `acl` and `passwords` in a folder, and lets the broker reload them. Thread-safe.

    For a broker that Braid runs, call `keep` once before `start_broker(..., entrance=Entrance(folder=folder))`; from
    then on `reload` calls `Broker.reload`.

    An external mosquitto on the same machine, or on a shared file system, needs a listener of its own for tenants that
    names these files in its configuration, at a socket that only `braid entrance` reaches:

        per_listener_settings true

        listener 1883 127.0.0.1
        allow_anonymous false
        password_file /etc/mosquitto/braid

        listener 0 /var/lib/mosquitto/tenants/socket
        allow_anonymous false
        password_file /var/lib/braid/access/passwords
        acl_file /var/lib/braid/access/acl

    Braid's own user has the other listener, without an access list. The reason: once it has started again, mosquitto
    has no permissions for users of a listener with a list whose sessions it restored from its store, and drops their
    messages until they connect again. Topics are common to all listeners, so the lists of other listeners must leave
    `braid/#` out.

    Mosquitto reads the files as the user that it runs as. If that is not Braid's user, create the folder with
    mosquitto's group and the set-group-id bit (`install -d -o braid -g mosquitto -m 2750 FOLDER`): then that group can
    read the files, otherwise only their owner can.

    Mosquitto reads them again on SIGHUP, which its operator has to send after each change, for example with a path
    unit of systemd (`PathChanged=FOLDER`) that starts `systemctl reload mosquitto`; `reload` may then do nothing.
    """

    def __init__(self, folder: Path, reload: Callable[[], None]) -> None:
        self._folder = folder
        self._reload = reload
        self._lock = threading.Lock()
        self._read: tuple[str, str] | None = None
        """The texts that the broker reloaded last, as far as this process knows."""

    def keep(self, grants: Mapping[str, Grant], hashes: Mapping[str, str]) -> None:
        """Write the files that differ, and let the broker reload them if it may not have.

        `hashes` has the password hash of each user. A user in only one of the lists has no access. Some milliseconds
        after this returns, new users are admitted, and clients whose password is no longer listed are disconnected.
        """
        wanted = access_list(grants), password_list(hashes)
        with self._lock:
            make_folder(self._folder)
            mode = _FOR_GROUP if self._folder.stat().st_mode & stat.S_ISGID else _FOR_OWNER
            for name, text in zip((ACCESS_LIST, PASSWORDS), wanted, strict=True):
                _write(self._folder / name, text.encode(), mode)
            # Even if nothing was written: the process that wrote the files may have died before the reload.
            if wanted != self._read:
                self._read = None
                self._reload()
                self._read = wanted


def _write(path: Path, content: bytes, mode: int) -> None:
    if not path.exists() or path.read_bytes() != content or stat.S_IMODE(path.stat().st_mode) != mode:
        write_whole(path, content, mode=mode)
