"""The store of published sources: a file in the root for each, named by the digest of its content.

The manager puts them there, and all hosts and workers share the root. So a source reaches a running job at once, and a
worker needs no more than the digest, which it verifies.
"""

import hashlib
from pathlib import Path

from bridge.files import link_whole, make_folder

CODE_FOLDER = "code"
MOST_SOURCE_BYTES = 64 * 1024


class NoCode(LookupError):
    """A source is not available, or not acceptable. Says which, why, and what to do."""


class CodeStore:
    """The store of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / CODE_FOLDER

    def put(self, digest: str, text: str) -> None:
        """Keep a source, durably, before any plan names it; idempotent. Raises `NoCode` if it cannot be kept."""
        content = text.encode("utf-8", "surrogatepass")
        if len(content) > MOST_SOURCE_BYTES:
            raise NoCode(f"the source has {len(content):,} bytes; the most allowed are {MOST_SOURCE_BYTES:,}")
        if (actual := digest_of(text)) != digest:
            raise NoCode(f"the digest of the source is {actual}, not {digest}; send both again")
        path = Path(self.path(digest))
        if not path.exists() or path.read_bytes() != content:
            make_folder(self._folder)
            # One that was damaged is replaced.
            path.unlink(missing_ok=True)
            link_whole(path, content)

    def path(self, digest: str) -> str:
        """The path of a source, whether it is there or not."""
        return str(self._folder / f"{digest}.py")


def read_source(path: str) -> str:
    """A source that is verified by the digest in its path. Raises `NoCode`."""
    digest = Path(path).stem
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise NoCode(f"the source {digest} is not in the root; publish it again") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise NoCode(f"the file of the source {digest} is damaged; publish it again")
    return content.decode("utf-8", "surrogatepass")


def digest_of(text: str) -> str:
    """The digest of a source.

    >>> digest_of("def entry(event): return event")[:8]
    '93cc91cf'
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
