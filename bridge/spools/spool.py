"""The spool: the durable, ordered log of one stream that enters jobs, and the positions of its consumers.

Items that are appended get their positions and are written as one numbered file. They are durable once `append`
returns, and only then may their sender forget them. What the spool expects of each producer and which deliveries are in
doubt is in the same file as the events, so all of it agrees after a crash at any instruction. Each consumer reads at
its own position and commits it, in a file of its own; files that all consumers have passed are removed. The high-water
mark outlives the files, so that no position is used twice.

Only the owner, which holds the lease, appends and removes. Any process may read, and each consumer commits for itself.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote

from bridge.files import RowLease, Steps, clear_unfinished, make_folder, no_steps, sync_folder, write_whole
from bridge.intake import Expected, remembered
from bridge.spools.deliveries import InDoubt
from bridge.spools.log import (
    LOG,
    Item,
    LogFile,
    Mark,
    SpoolDamaged,
    damage_named,
    log_files,
    log_path,
    mark_in,
    read_mark,
    write_mark,
    written,
)

_CONSUMERS, _POSITION = "consumers", ".position"
_LONGEST = 200
"""Bytes of a quoted name: file systems take 255, and the ending needs a few."""


def commit(folder: Path, consumer: str, position: int, step: Steps = no_steps) -> None:
    """Note that a consumer needs nothing before a position; its first commit lets it join."""
    path = _path(folder, consumer)
    make_folder(path.parent)
    write_whole(path, str(position).encode(), step)


def leave(folder: Path, consumer: str) -> None:
    """Remove a consumer."""
    path = _path(folder, consumer)
    if path.exists():
        path.unlink()
        sync_folder(path.parent)


def consumers(folder: Path) -> dict[str, int]:
    """The position of each consumer."""
    positions = dict[str, int]()
    for path in (folder / _CONSUMERS).glob(f"*{_POSITION}"):
        # It may leave meanwhile.
        with suppress(FileNotFoundError):
            text = path.read_bytes()
            with damage_named(path):
                positions[unquote(path.name.removesuffix(_POSITION), errors="surrogatepass")] = int(text)
    return positions


def unread_since(folder: Path) -> float | None:
    """The time when the last consumer left; None if there is one, or there never was."""
    members = folder / _CONSUMERS
    if any(members.glob(f"*{_POSITION}")):
        return None
    try:
        # It changes when a file is removed.
        return members.stat().st_mtime
    except FileNotFoundError:
        return None


def _path(folder: Path, consumer: str) -> Path:
    quoted = quote(consumer, safe="", errors="surrogatepass")
    if not 0 < len(quoted) <= _LONGEST:
        raise ValueError(f"{consumer!r} cannot name a consumer: use a name of 1 to {_LONGEST} bytes when quoted")
    # The ending keeps names such as ".." and "tmp" from naming folders.
    return folder / _CONSUMERS / f"{quoted}{_POSITION}"


class SpoolState(StrEnum):
    """The states of a spool: it takes more, or holds as much as it may."""

    READY = "ready"
    FULL = "full"


class SpoolFull(RuntimeError):
    """A spool that holds as many bytes as it may."""


class SpoolClosed(RuntimeError):
    """A spool that was closed, or that closed itself because a write failed half-way."""


class Spool:
    """A spool in a folder, as its owner uses it."""

    def __init__(self, folder: Path, *, most_bytes: int, step: Steps = no_steps) -> None:
        self.folder = folder
        self._log = folder / LOG
        self._most_bytes = most_bytes
        self._step = step
        self._closed = ""
        """The reason why nothing may be written any more; empty if it may."""
        self._using = Lock()
        """Held while writing and removing: one thread may fill a spool while another prunes it."""
        self._lease = RowLease(folder)
        try:
            make_folder(self._log)
            clear_unfinished(self._log)
            self._files = log_files(self._log)
            self._sizes = {file: file.path.stat().st_size for file in self._files}
            self.size = sum(self._sizes.values())
            """The bytes that it holds."""
            self.end, self.producers, self.in_doubt = self._recovered()
        except BaseException:
            # The spool may be repaired and opened again in this process.
            self._lease.release()
            raise

    @property
    def first(self) -> int:
        """The earliest position that can still be read."""
        with self._using:
            return self._files[0].first if self._files else self.end

    @property
    def state(self) -> SpoolState:
        """The state: ready or full."""
        return SpoolState.READY if self.size < self._most_bytes else SpoolState.FULL

    def settled_end(self) -> int:
        """The next position, once what is being written can be read."""
        with self._using:
            return self.end

    def append(
        self,
        items: Sequence[Item],
        producers: Mapping[str, Expected | None] | None = None,
        in_doubt: InDoubt | None = None,
    ) -> int:
        """Make items durable, with the expectations of their producers after them; returns their first position.

        A producer of whom nothing is expected any more is forgotten. `in_doubt` replaces what was in doubt.
        """
        with self._using:
            self._check_open()
            if items and self.state is SpoolState.FULL:
                raise full(self.folder, self.size)
            first, after = self.end, {**self.producers, **(producers or {})}
            expected = remembered({name: known for name, known in after.items() if known is not None})
            in_doubt = self.in_doubt if in_doubt is None else in_doubt
            if items:
                end = end_after(first, items)
                file = LogFile(first, end, log_path(self._log, first, end))
                content = written(items, expected, in_doubt)
                self._write(file.path, content)
                self._files.append(file)
                self._sizes[file] = len(content)
                self.size += len(content)
                self.end = end
            elif (expected, in_doubt) != (self.producers, self.in_doubt):
                write_mark(self.folder, Mark(self.end, expected, in_doubt), self._step)
            self.producers, self.in_doubt = expected, in_doubt
            return first

    def prune(self) -> None:
        """Remove the files that all consumers have passed."""
        with self._using:
            self._check_open()
            if not self._files:
                return
            gone = self._unneeded(consumers(self.folder).values())
            if gone == self._files:
                write_mark(self.folder, Mark(self.end, self.producers, self.in_doubt), self._step)
            for file in gone:
                # The oldest first, so that a crash leaves no hole.
                self._step("remove")
                file.path.unlink()
                del self._files[0]
                self.size -= self._sizes.pop(file)

    def close(self) -> None:
        """Release the lease."""
        with self._using:
            self._closed = self._closed or "it was closed"
            self._lease.release()

    def _unneeded(self, positions: Collection[int]) -> list[LogFile]:
        """The oldest files, which consumers at these positions have passed."""
        passed = min(positions, default=self.end)
        return list(takewhile(lambda file: file.end <= passed, self._files))

    def _check_open(self) -> None:
        if self._closed:
            raise SpoolClosed(f"the spool {self.folder} takes nothing more: {self._closed}; close it and open it again")

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content, self._step)
        except BaseException:
            if path.exists():
                # Readers may have it already, and a power failure may remove it: only opening again can tell.
                self._closed = f"{path.name} may not be durable"
            raise

    def _recovered(self) -> Mark:
        mark = read_mark(self.folder)
        if not self._files:
            return mark
        last = self._files[-1]
        if last.end < mark.end:
            raise SpoolDamaged(
                f"{last.path} is not the last file: the log went up to {mark.end}; restore the files after it"
            )
        # A mark at the end of the last file was written after it, so it is at least as new.
        return mark if last.end == mark.end else mark_in(last)


def full(name: Path | str, size: int) -> SpoolFull:
    """The error of a spool that is full."""
    return SpoolFull(f"the spool {name} is full with {size:,} bytes; wait until its consumers have read")


def end_after(first: int, items: Sequence[Item]) -> int:
    """The position after items that begin at a position."""
    if any(item.count < 1 for item in items):
        raise ValueError("an item without events has no position; leave it out")
    return first + sum(item.count for item in items)
