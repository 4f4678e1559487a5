"""The store of wheels that published code imports from: a file in the root for each, named by its digest.

As with sources, the manager puts them there, and a worker needs only the digest. A cell may read those of its own code
and no others.
"""

import hashlib
from pathlib import Path

from bridge.files import link_whole, make_folder
from engine.code.store import CODE_FOLDER, NoCode

_FOLDER = "wheels"


class WheelStore:
    """The store of a root. Any process may open it."""

    def __init__(self, root: Path) -> None:
        self._folder = root / CODE_FOLDER / _FOLDER

    def put(self, content: bytes) -> None:
        """Keep a wheel, durably; idempotent."""
        path = Path(self.path(hashlib.sha256(content).hexdigest()))
        if not path.exists() or path.read_bytes() != content:
            make_folder(self._folder)
            # One that was damaged is replaced.
            path.unlink(missing_ok=True)
            link_whole(path, content)

    def remove(self, digest: str) -> None:
        """Keep a wheel no longer."""
        Path(self.path(digest)).unlink(missing_ok=True)

    def path(self, digest: str) -> str:
        """The path of a wheel, whether it is there or not."""
        return str(self._folder / f"{digest}.whl")


class WheelCheck:
    """The check of a task's wheels in a worker: whenever a file changes, it is verified by the digest in its path."""

    def __init__(self) -> None:
        self._sound: dict[str, tuple[int, int, int]] = {}

    def __call__(self, paths: tuple[str, ...]) -> None:
        """Raises `NoCode` if one is missing or damaged."""
        for path in paths:
            digest = Path(path).stem
            try:
                found = Path(path).stat()
                version = (found.st_ino, found.st_mtime_ns, found.st_size)
                if self._sound.get(path) == version:
                    continue
                actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except FileNotFoundError:
                raise NoCode(f"the wheel {digest} is not in the root; send it again") from None
            if actual != digest:
                raise NoCode(f"the file of the wheel {digest} is damaged; send it again")
            self._sound[path] = version
