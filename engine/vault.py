"""The vault: what tenants keep secret, as files in the root that hold nothing readable without its key.

The manager puts secrets in; a worker that makes a behaviour takes out what its config names. The key lies in the root
as well, for its owner only, so that it protects what leaves the root, such as backups and copied folders.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from bridge.machine.files import make_folder, sync_folder, write_whole

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

VAULT_KEY = "secrets.key"
VAULT_FOLDER = "secrets"


class NoSecret(LookupError):
    """A secret cannot be had; says which, why, and what to do."""


class Vault:
    """The vault of a root; any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / VAULT_FOLDER
        self._key = root / VAULT_KEY

    def put(self, owner: str, name: str, secret: str) -> None:
        """Keep a secret, in place of what its owner kept under this name."""
        make_folder(self._folder / _file(owner))
        told = json.dumps({"owner": owner, "name": name, "secret": secret}).encode()
        write_whole(self._path(owner, name), self._cipher(make=True).encrypt(told), mode=0o600)
        self._changed()

    def remove(self, owner: str, name: str) -> bool:
        """Keep a secret no longer; False where there was none."""
        path = self._path(owner, name)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        self._changed()
        return True

    def names(self, owner: str) -> list[str]:
        """The names of all that a tenant keeps secret."""
        return _named(self._folder / _file(owner))

    def owners(self) -> list[str]:
        """Who keeps something secret, or did."""
        return _named(self._folder)

    def reveal(self, owner: str, name: str) -> str:
        """A secret itself."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - workers without secrets do without it

        try:
            kept = self._path(owner, name).read_bytes()
        except FileNotFoundError:
            raise NoSecret(
                f"there is no secret {name!r} of {owner!r}; put it with `braid secrets put {name}`"
            ) from None
        try:
            told = json.loads(self._cipher().decrypt(kept))
        except InvalidToken:
            told = {}
        if (told.get("owner"), told.get("name")) != (owner, name):
            raise NoSecret(
                f"the secret {name!r} of {owner!r} cannot be read with the key in {self._key}; bring back the key that "
                f"it was put with, or put it anew with `braid secrets put {name}`"
            )
        return str(told["secret"])

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever a secret does."""
        try:
            found = (self._folder / "changed").stat()
        except FileNotFoundError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_ino)

    def _changed(self) -> None:
        write_whole(self._folder / "changed", uuid4().hex.encode())

    def _path(self, owner: str, name: str) -> Path:
        return self._folder / _file(owner) / _file(name)

    def _cipher(self, *, make: bool = False) -> "Fernet":
        from cryptography.fernet import Fernet  # noqa: PLC0415 - see above

        if make and not self._key.exists():
            self._make_key(Fernet.generate_key())
        try:
            return Fernet(self._key.read_bytes())
        except FileNotFoundError:
            raise NoSecret(f"{self._key} is missing; bring it back, or put the secrets anew") from None
        except ValueError:
            raise NoSecret(f"{self._key} holds no key; bring it back, or remove it and put the secrets anew") from None

    def _make_key(self, key: bytes) -> None:
        """Make the key, for its owner only; where several do the first decides."""
        made = self._folder / f"key.{uuid4().hex}"
        write_whole(made, key, mode=0o600)
        with suppress(FileExistsError):
            self._key.hardlink_to(made)
        made.unlink()
        sync_folder(self._key.parent)


def _file(name: str) -> str:
    # By the sign in front, a name is never that of another file, and leads nowhere else.
    return f"={quote(name, safe='')}"


def _named(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(unquote(path.name[1:]) for path in folder.iterdir() if path.name.startswith("="))
