"""The vouchers of a root: for which published functions of tenants an operator vouches.

They are in one file, which the manager writes and workers look up for each batch. So a voucher that is given or
withdrawn takes effect with the next batch of every job, whatever its plan. Without the file nobody vouches.
"""

from collections.abc import Collection
from pathlib import Path

import msgspec

from bridge.files import make_folder, write_whole

VOUCHERS = "vouchers.json"


class Voucher(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """An operator's voucher for a function as a tenant published it; made by the manager, and looked up by workers."""

    owner: str
    """The tenant."""
    digest: str
    """The digest of the source."""
    entry: str
    per: str


class VoucherFile:
    """The file of vouchers in a root. Any process may open it; the manager alone writes it."""

    def __init__(self, root: Path) -> None:
        self._path = root / VOUCHERS
        self._seen: tuple[int, int, int] | None = None
        self._read: frozenset[Voucher] = frozenset()

    def keep(self, vouchers: Collection[Voucher]) -> None:
        """Keep these vouchers and no others, durably."""
        content = msgspec.json.encode(sorted(vouchers))
        if not self._path.exists() or self._path.read_bytes() != content:
            make_folder(self._path.parent)
            write_whole(self._path, content)

    def has(self, voucher: Voucher) -> bool:
        """Whether an operator vouches for a function, at this moment."""
        try:
            found = self._path.stat()
            version = (found.st_ino, found.st_mtime_ns, found.st_size)
            if version != self._seen:
                self._read = frozenset(msgspec.json.decode(self._path.read_bytes(), type=list[Voucher]))
                self._seen = version
        except (FileNotFoundError, msgspec.MsgspecError):
            # What cannot be read vouches for nothing; the manager writes it again when it begins.
            self._read, self._seen = frozenset(), None
        return voucher in self._read
