"""Hard links to files that never change once they are complete, the means of a live copy."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bridge.machine.files import make_folder
from engine.records.damage import DAMAGE
from manager.backup.archive import BackupRefused

_TRIES = 5
"""Attempts to copy a job or a spool that changes too fast."""


class ChangedMeanwhile(Exception):
    """The linked files do not belong together, because their source changed meanwhile."""


def retried(copy: Callable[[], None], into: Path | None, what: str) -> None:
    """Copy until the linked files belong together; `into` is cleared before each attempt."""
    for _ in range(_TRIES):
        if into is not None:
            _clear(into)
        with suppress(ChangedMeanwhile):
            try:
                copy()
            except DAMAGE as error:
                raise BackupRefused(f"{what}: {error}") from error
            return
    raise BackupRefused(f"{what} changes too fast to be copied, or is damaged; try again, or stop the service")


def link_files(source: Path, target: Path, names: Iterable[str], *, most: int | None = None, ending: str = "") -> None:
    """Link files and all files in folders; `most` leaves out files that are named by a later batch."""
    for name in names:
        path = source / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = file.relative_to(source)
            # Without incomplete files, and without those that belong to a living process.
            if not file.is_file() or "tmp" in relative.parts or file.name.startswith(".") or file.name == "lease":
                continue
            # A shard's record is named by its batch and its shard.
            batch = file.name.partition(".")[0]
            if most is not None and batch.isdigit() and int(batch) > most:
                continue
            if not file.name.endswith(ending):
                continue
            linked = target / relative
            make_folder(linked.parent)
            with suppress(FileNotFoundError, FileExistsError):
                linked.hardlink_to(file)


def numbers_in(folder: Path) -> Iterator[int]:
    """Yield the names of the entries of a folder that are numbers, as numbers."""
    return (int(path.name) for path in entries_of(folder) if path.name.isdigit())


def entries_of(folder: Path) -> list[Path]:
    """Return the entries of a folder in order; none if there is no such folder."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True) if folder.exists() else ():
        path.rmdir() if path.is_dir() else path.unlink()
