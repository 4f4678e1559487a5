"""Outside: what a host's root knows of the world beside its streams, looked up when a worker makes behaviours."""

from functools import cached_property
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from bridge.machine.files import link_whole, make_folder
from engine.behaviour import NoBehaviour
from engine.reachable_hosts import REACHABLE, barred
from engine.vault import NoSecret, Vault

FILES = "files"
"""In the root: the files of tenants, a folder for each."""


class HostOutside:
    """The outside of a root; made by each worker."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._vault = Vault(root)

    def secret(self, owner: str, name: str) -> str:
        """What a tenant keeps secret under a name."""
        try:
            return self._vault.reveal(owner, name)
        except NoSecret as error:
            raise NoBehaviour(str(error)) from None

    def place(self, owner: str, path: str) -> str:
        """Where a path of a tenant's lies on this machine."""
        if not owner:
            raise NoBehaviour(f"nobody owns the place {path!r}; the plan has to say who")
        return str(self._root / FILES / quote(owner, safe="").replace(".", "%2E") / path)

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host; empty where they may."""
        return barred(host, self._root / REACHABLE)

    @property
    def version(self) -> tuple[int, int]:
        """Changes whenever what was looked up may be another."""
        return self._vault.version

    @cached_property
    def deployment(self) -> str:
        """The id of the root. A root that was restored has another: what it does again counts as new."""
        path = self._root / "deployment"
        if not path.exists():
            make_folder(self._root)
            link_whole(path, uuid4().hex[:12].encode())
        return path.read_text()
