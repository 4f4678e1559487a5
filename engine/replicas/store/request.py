"""The request of an operator that a machine restore its host; it lies in the root that is to be filled."""

from pathlib import Path
from typing import Self

import msgspec

from bridge.files import make_folder, write_whole
from engine.replicas.file_kinds import FOLDERS
from engine.replicas.store.latest import LatestState
from engine.replicas.store.objects import StoreAway, StoreDamaged, StoreObjects
from engine.replicas.store.restore import NothingStored, restorable

_FILE = "restoration.json"


class NoRestoration(ValueError):
    """A restoration that cannot begin."""


class RestorationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, and whether it is done."""

    restores: str
    """The id of the root whose files are in the store."""
    accepts_loss: bool
    done: bool = False

    @classmethod
    def of(cls, root: Path) -> Self | None:
        """The request in a root, if there is one."""
        path = root / _FILE
        return msgspec.json.decode(path.read_bytes(), type=cls) if path.exists() else None

    def keep(self, root: Path) -> None:
        """Keep it durably."""
        make_folder(root)
        write_whole(root / _FILE, msgspec.json.encode(self))


def request_restoration(root: Path, host: str, url: str, *, accepts_loss: bool) -> str:
    """Have the machine that begins in an empty root restore its host; what it will restore, in words.

    Empty if that was asked before, and is done. Raises NoRestoration, and NoStore.
    """
    before = RestorationRequest.of(root)
    if before is not None and before.done:
        return ""
    if before is None and any((root / name).exists() for name in ("identity", *FOLDERS)):
        raise NoRestoration(f"{root} has files of a host already; give an empty folder, or start without --restore")
    found = _found(StoreObjects(url, host))
    RestorationRequest(restores=found.root, accepts_loss=accepts_loss).keep(root)
    return f"{len(found.files.files):,} files of machine {found.machine} in term {found.term}"


def _found(objects: StoreObjects) -> LatestState:
    try:
        return restorable(objects)
    except (NothingStored, StoreAway) as error:
        raise NoRestoration(str(error)) from error
    except StoreDamaged as error:
        raise NoRestoration(f"{error}; bring that object back, such as from a version that the store keeps") from error
