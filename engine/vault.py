"""The vault: the secrets of tenants, as encrypted files in the root.

The manager writes secrets. A worker reads those that a config names, when it makes the behaviour. The key is also in
the root, readable by its owner only. So it protects copies that leave the root, such as backups and copied folders.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from bridge.files import make_folder, sync_folder, write_whole

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

VAULT_KEY = "secrets.key"
VAULT_FOLDER = "secrets"


class NoSecret(LookupError):
    """A secret is not available. Says which, why, and what to do."""


class Vault:
    """The vault of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / VAULT_FOLDER
        self._key = root / VAULT_KEY

    def put(self, owner: str, name: str, secret: str) -> None:
        """Save a secret. Replaces the owner's secret of that name."""
        make_folder(self._folder / _file(owner))
        content = json.dumps({"owner": owner, "name": name, "secret": secret}).encode()
        write_whole(self._path(owner, name), self._cipher(make=True).encrypt(content), mode=0o600)
        self._changed()

    def remove(self, owner: str, name: str) -> bool:
        """Remove a secret; False if there was none."""
        path = self._path(owner, name)
        if not path.exists():
            return False
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        self._changed()
        return True

    def names(self, owner: str) -> list[str]:
        """The names of a tenant's secrets."""
        return _named(self._folder / _file(owner))

    def owners(self) -> list[str]:
        """The tenants that have secrets, or had some."""
        return _named(self._folder)

    def reveal(self, owner: str, name: str) -> str:
        """The secret itself."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - most workers have no secrets and do not need it

        try:
            kept = self._path(owner, name).read_bytes()
        except FileNotFoundError:
            raise NoSecret(f"{owner!r} has no secret {name!r}; put it with `braid secrets put {name}`") from None
        try:
            content = json.loads(self._cipher().decrypt(kept))
        except InvalidToken:
            content = {}
        if (content.get("owner"), content.get("name")) != (owner, name):
            raise NoSecret(
                f"the secret {name!r} of {owner!r} cannot be read with the key in {self._key}; restore the key that it "
                f"was written with, or put it again with `braid secrets put {name}`"
            )
        return str(content["secret"])

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes with every change of a secret."""
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
            raise NoSecret(f"{self._key} is missing; restore it, or put the secrets again") from None
        except ValueError:
            raise NoSecret(f"{self._key} is not a key; restore it, or remove it and put the secrets again") from None

    def _make_key(self, key: bytes) -> None:
        """Make the key, readable by its owner only. If several processes make it, the first one counts."""
        made = self._folder / f"key.{uuid4().hex}"
        write_whole(made, key, mode=0o600)
        with suppress(FileExistsError):
            self._key.hardlink_to(made)
        made.unlink()
        sync_folder(self._key.parent)


def _file(name: str) -> str:
    # The prefix keeps a name apart from those of other files, and inside the folder.
    return f"={quote(name, safe='')}"


def _named(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(unquote(path.name[1:]) for path in folder.iterdir() if path.name.startswith("="))
