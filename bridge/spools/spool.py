"""The spool: the durable, ordered log of one stream that enters jobs.

What is appended gets its position, is written as one numbered file, and is there for good once `append` returns; only
then may whoever delivered it forget it. What the spool expects of each producer is written in the same file as the
events, so that after a crash at any instruction neither knows more than the other. Every consumer reads at a position
of its own and commits how far it is; files that all have passed are removed. The high-water mark outlives the files, so
that no position is given twice.

The one owner, who holds the lease, appends and removes. Anybody may read, and each consumer commits for itself.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Protocol

from bridge.consumers import consumers
from bridge.events.numbered_events import remembered
from bridge.intake import Expected
from bridge.machine.files import Steps, clear_unfinished, make_folder, no_steps, write_whole
from bridge.machine.lease import Lease
from bridge.spools.log import (
    LOG,
    Item,
    LogFile,
    Mark,
    SpoolDamaged,
    log_files,
    log_path,
    read_mark,
    write_mark,
)
from bridge.spools.log_file import expected_in, written


class SpoolState(StrEnum):
    """Whether a spool takes more."""

    READY = "ready"
    FULL = "full"


class SpoolFull(RuntimeError):
    """A spool holds as many bytes as it may."""


class SpoolClosed(RuntimeError):
    """A spool is used that was closed, or that closed itself because a write failed half-way."""


class SpoolOwner(Protocol):
    """What receivers and generators need of a spool that they fill; `Spool` has it, and `MemorySpool`."""

    @property
    def first(self) -> int:
        """The earliest position that can still be read."""

    @property
    def end(self) -> int:
        """The position that comes next."""

    @property
    def producers(self) -> Mapping[str, Expected]:
        """What is expected of each producer."""

    @property
    def size(self) -> int:
        """How many bytes it holds."""

    @property
    def state(self) -> SpoolState:
        """Whether it takes more."""

    def append(self, items: Sequence[Item], producers: Mapping[str, Expected] | None = None) -> int:
        """Make items durable, with what is expected of their producers after them; the first position they got."""

    def prune(self) -> None:
        """Remove what every consumer has passed; costs little where that is nothing."""

    def close(self) -> None:
        """Give the lease back."""


class Spool:
    """A spool as its owner has it."""

    def __init__(self, folder: Path, *, most_bytes: int, step: Steps = no_steps) -> None:
        self.folder = folder
        self._log = folder / LOG
        self._most_bytes = most_bytes
        self._step = step
        self._closed = ""
        """Why nothing may be written any more."""
        self._using = Lock()
        """Held while something is written or removed: one thread may fill a spool, and another prune it."""
        self._lease = Lease(folder)
        try:
            make_folder(self._log)
            clear_unfinished(self._log)
            self._files = log_files(self._log)
            self._sizes = {file: file.path.stat().st_size for file in self._files}
            self.size = sum(self._sizes.values())
            """How many bytes it holds."""
            self.end, self.producers = self._recovered()
        except BaseException:
            # Whoever repairs the spool opens it again, perhaps in this process.
            self._lease.release()
            raise

    @property
    def first(self) -> int:
        """The earliest position that can still be read."""
        with self._using:
            return self._files[0].first if self._files else self.end

    @property
    def state(self) -> SpoolState:
        """Whether it takes more."""
        return SpoolState.READY if self.size < self._most_bytes else SpoolState.FULL

    def append(self, items: Sequence[Item], producers: Mapping[str, Expected] | None = None) -> int:
        """Make items durable, with what is expected of their producers after them; the first position they got."""
        with self._using:
            return self._append(items, producers or {})

    def prune(self) -> None:
        """Remove the files that every consumer has passed."""
        with self._using:
            self._prune()

    def close(self) -> None:
        """Give the lease back."""
        with self._using:
            self._closed = self._closed or "it was closed"
            self._lease.release()

    def _append(self, items: Sequence[Item], producers: Mapping[str, Expected]) -> int:
        self._check_open()
        if self.state is SpoolState.FULL:
            raise full(self.folder, self.size)
        first, expected = self.end, remembered({**self.producers, **producers})
        if items:
            end = end_after(first, items)
            file = LogFile(first, end, log_path(self._log, first, end))
            content = written(items, expected)
            self._write(file.path, content)
            self._files.append(file)
            self._sizes[file] = len(content)
            self.size += len(content)
            self.end = end
        elif expected != self.producers:
            write_mark(self.folder, Mark(self.end, expected), self._step)
        self.producers = expected
        return first

    def _prune(self) -> None:
        self._check_open()
        if not self._files:
            return
        passed = min(consumers(self.folder).values(), default=self.end)
        gone = list(takewhile(lambda file: file.end <= passed, self._files))
        if gone == self._files:
            write_mark(self.folder, Mark(self.end, self.producers), self._step)
        for file in gone:
            # The oldest first: whatever is left after a crash has no hole.
            self._step("remove")
            file.path.unlink()
            del self._files[0]
            self.size -= self._sizes.pop(file)

    def _check_open(self) -> None:
        if self._closed:
            raise SpoolClosed(f"the spool {self.folder} takes nothing, {self._closed}; close it and open it again")

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content, self._step)
        except BaseException:
            if path.exists():
                # Readers may have it already, and it may go with the power: whether it is there, opening has to find.
                self._closed = f"nobody knows whether {path.name} is there for good"
            raise

    def _recovered(self) -> tuple[int, dict[str, Expected]]:
        mark = read_mark(self.folder)
        if not self._files:
            return mark.end, dict(mark.producers)
        last = self._files[-1]
        if last.end < mark.end:
            raise SpoolDamaged(
                f"{last.path} is not the last file, the log went up to {mark.end}; restore what came after it"
            )
        # A mark at the end of the last file was written after it, and knows at least as much.
        return last.end, dict(mark.producers) if last.end == mark.end else expected_in(last)


def full(name: Path | str, size: int) -> SpoolFull:
    """The refusal of a spool that is full."""
    return SpoolFull(f"the spool {name} holds {size:,} bytes; wait until its consumers have read")


def end_after(first: int, items: Sequence[Item]) -> int:
    """The position after items that are appended at a position."""
    if any(item.count < 1 for item in items):
        raise ValueError("an item without events has no position; leave it out")
    return first + sum(item.count for item in items)
