"""The archive of Braid's code: with it the workers of a cluster run the same code as their host.

Braid's own dependencies, and packages with behaviours of third parties, have to be installed on every worker: they may
hold compiled code, which cannot be loaded from an archive.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from bridge.files import link_whole, make_folder

PACKAGES = ("bridge", "dags", "engine")
"""The packages of Braid that a worker imports."""
_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that the same code gets the same name."""


def pack_code(folder: Path) -> Path:
    """Make an archive of Braid's code, named by its content.

    It has to outlive this process, because executors fetch it when they start.
    """
    content = io.BytesIO()
    # Not compressed: it is read far more often than sent.
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for package in PACKAGES:
            for name, source in _modules(package, resources.files(package)):
                archive.writestr(zipfile.ZipInfo(name, _TIME), source)
    found = folder / f"braid-{hashlib.sha256(content.getvalue()).hexdigest()[:16]}.zip"
    if not found.exists():
        make_folder(folder)
        link_whole(found, content.getvalue())
    return found


def _modules(name: str, found: Traversable) -> Iterator[tuple[str, bytes]]:
    """The modules in a package and in those below it, in order."""
    for each in sorted(found.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _modules(f"{name}/{each.name}", each)
        elif each.name.endswith(".py"):
            yield f"{name}/{each.name}", each.read_bytes()
