"""The outside world of a host: secrets, files and reachable hosts, which workers look up in its root."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from bridge.files import link_whole, make_folder
from engine.behaviour import NoBehaviour
from engine.code.store import CodeStore
from engine.code.vouchers import Voucher, VoucherFile
from engine.code.wheel_store import WheelStore
from engine.reachable_hosts import REACHABLE, barred, reachable_addresses
from engine.vault import NoSecret, Vault

FILES = "files"
DEPLOYMENT = "deployment"
"""The folder in the root with the files of tenants, a folder for each."""


class HostOutside:
    """Access to the outside world by the root's files; made by each worker."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._vault = Vault(root)
        self._code = CodeStore(root)
        self._wheels = WheelStore(root)
        self._vouchers = VoucherFile(root)

    def secret(self, owner: str, name: str) -> str:
        """The tenant's secret of that name."""
        try:
            return self._vault.reveal(owner, name)
        except NoSecret as error:
            raise NoBehaviour(str(error)) from None

    def place(self, owner: str, path: str) -> str:
        """The path on this machine of a tenant's file or folder."""
        if not owner:
            raise NoBehaviour(f"the place {path!r} has no owner; name it in the plan")
        return str(self._root / FILES / quote(owner, safe="").replace(".", "%2E") / path)

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host; empty if they may."""
        return barred(host, self._root / REACHABLE)

    def addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host that tasks of tenants may connect to. Raises OSError if they may not."""
        return reachable_addresses(host, self._root / REACHABLE)

    def code(self, digest: str) -> str:
        """The path on this machine of a published source, whether it is there or not."""
        return self._code.path(digest)

    def wheel(self, digest: str) -> str:
        """The path on this machine of a wheel that published code imports from, whether it is there or not."""
        return self._wheels.path(digest)

    def vouched(self, owner: str, digest: str, entry: str, per: str) -> bool:
        """Whether an operator vouches for a published function now: its own, or one of a tenant."""
        return not owner or self._vouchers.has(Voucher(owner=owner, digest=digest, entry=entry, per=per))

    @property
    def version(self) -> tuple[int, int]:
        """A value that changes whenever a secret may have changed."""
        return self._vault.version

    @cached_property
    def deployment(self) -> str:
        """The id of the root. A restored root gets a new one, so that its repeated effects count as new."""
        path = self._root / DEPLOYMENT
        if not path.exists():
            make_folder(self._root)
            link_whole(path, uuid4().hex[:12].encode())
        return path.read_text()
