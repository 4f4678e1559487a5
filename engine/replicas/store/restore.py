"""Restoring: the root of a host is filled from its store, for a machine that has nothing else."""

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from bridge.files import Steps, make_folder, no_steps
from engine.replicas.copy_folder import sync_all
from engine.replicas.copy_tree import CopyTree
from engine.replicas.file_kinds import FOLDERS
from engine.replicas.store.latest import LatestState, latest
from engine.replicas.store.objects import StoreDamaged, StoreObjects
from engine.replicas.store.sitting import Sitting
from engine.replicas.store.stored import StoredClaim, StoredFile
from engine.replicas.store.writer import StoreWriter


class NothingStored(ValueError):
    """A store from which a host cannot be restored."""


def restorable(objects: StoreObjects) -> LatestState:
    """The latest state in a store; raises NothingStored or StoreDamaged."""
    found = latest(objects)
    if not found.term:
        raise NothingStored(
            f"{objects.url} has no files of a host; see whether URL and name are those of the lost host"
        )
    if not found.whole:
        raise NothingStored(
            f"{objects.url} never got all files of the host, so no host can begin from it; start one without --restore"
        )
    return found


def restore(objects: StoreObjects, term: int, root: Path, claim: StoredClaim, *, step: Steps = no_steps) -> LatestState:
    """Fill an empty root as the carrier of a term, after which no earlier carrier's files count.

    Raises HigherTerm, NothingStored or StoreDamaged. If it ends early, it can be done again.
    """
    # A store with nothing in it is not claimed.
    restorable(objects)
    sitting = Sitting(objects, term, claim)
    found = restorable(objects)
    StoreWriter(objects, sitting, found, claim)
    for top in FOLDERS:
        # What an attempt left that came to no end.
        shutil.rmtree(root / top, ignore_errors=True)
        make_folder(root / top)
    unfinished = root / "restoring"
    tree = CopyTree(root, unfinished, step)
    for folder in sorted(found.files.folders):
        tree.check_folder(folder)
        tree.make(folder)
    for file, content in _contents(objects, found):
        tree.check_file(file.path)
        tree.write(file.path, content, file.mtime_ns)
    sync_all(root)
    unfinished.unlink(missing_ok=True)
    sitting.check()
    return found


def _contents(objects: StoreObjects, found: LatestState) -> Iterator[tuple[StoredFile, bytes]]:
    """Each file with its content; each object is read about once."""
    name, payload = "", b""
    for file in sorted(found.files.files.values(), key=lambda file: [(part.object, part.at) for part in file.parts]):
        content = bytearray()
        for part in file.parts:
            if part.object != name:
                payload, _ = objects.get(part.object, msgspec.Raw)
                name = part.object
            content += payload[part.at : part.at + part.size]
        if len(content) != file.size or sha256(content).digest() != file.digest:
            raise StoreDamaged(f"{objects.url}: {file.path} is damaged, in {name or 'no object'}")
        yield file, bytes(content)
