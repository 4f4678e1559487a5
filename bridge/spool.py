"""The spool: the durable, ordered log of one stream that enters jobs.

What is appended gets its position, is written as one numbered file, and is there for good once `append` returns; only
then may whoever delivered it forget it. What the spool expects of each producer is written in the same file as the
events, so that after a crash at any instruction neither knows more than the other. Every consumer reads at a position
of its own and commits how far it is; files that all have passed are removed. The high-water mark outlives the files, so
that no position is given twice.

The one owner, who holds the lease, appends and removes. Anybody may read, and each consumer commits for itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from bridge.files import Steps, clear_unfinished, make_folder, no_steps, sync_folder, write_whole
from bridge.intake import Expected
from bridge.lease import Lease
from bridge.log import (
    Item,
    LogFile,
    Placed,
    SpoolDamaged,
    damage_named,
    expected_in,
    items_in,
    log_files,
    log_path,
    packed_expected,
    unpacked_expected,
    written,
)

_LOG, _CONSUMERS, _HIGH_WATER = "log", "consumers", "high-water"


class SpoolState(StrEnum):
    """Whether a spool takes more."""

    READY = "ready"
    FULL = "full"


class SpoolFull(RuntimeError):
    """A spool holds as many bytes as it may."""


class Spool:
    """A spool as its owner has it."""

    def __init__(self, folder: Path, *, most_bytes: int, step: Steps = no_steps) -> None:
        self.folder = folder
        self._most_bytes = most_bytes
        self._step = step
        self._lease = Lease(folder)
        try:
            make_folder(folder / _LOG)
            clear_unfinished(folder / _LOG)
            self._files = log_files(folder / _LOG)
            self._sizes = {file: file.path.stat().st_size for file in self._files}
            self.end, self.producers = self._recovered()
        except BaseException:
            # Whoever repairs the spool opens it again, perhaps in this process.
            self._lease.release()
            raise

    @property
    def first(self) -> int:
        """The earliest position that can still be read."""
        return self._files[0].first if self._files else self.end

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return sum(self._sizes.values())

    @property
    def state(self) -> SpoolState:
        """Whether it takes more."""
        return SpoolState.READY if self.size < self._most_bytes else SpoolState.FULL

    def append(self, items: Sequence[Item], producers: Mapping[str, Expected] | None = None) -> int:
        """Make items durable, with what is expected of their producers after them; the first position they got."""
        if self.state is SpoolState.FULL:
            raise SpoolFull(f"the spool {self.folder} holds {self.size:,} bytes; wait until its consumers have read")
        first, expected = self.end, {**self.producers, **(producers or {})}
        if items:
            end = first + sum(item.count for item in items)
            file = LogFile(first, end, log_path(self.folder / _LOG, first, end))
            content = written(items, expected)
            write_whole(file.path, content, self._step)
            self._files.append(file)
            self._sizes[file] = len(content)
            self.end = end
        elif expected != self.producers:
            self._write_mark(expected)
        self.producers = expected
        return first

    def prune(self) -> None:
        """Remove the files that every consumer has passed."""
        passed = min(consumers(self.folder).values(), default=self.end)
        gone = [file for file in self._files if file.end <= passed]
        if gone and gone == self._files:
            self._write_mark(self.producers)
        for file in gone:
            # The oldest first: whatever is left after a crash has no hole.
            self._step("remove")
            file.path.unlink()
            self._files.remove(file)
            del self._sizes[file]

    def close(self) -> None:
        """Give the lease back."""
        self._lease.release()

    def _write_mark(self, expected: Mapping[str, Expected]) -> None:
        mark = json.dumps({"end": self.end, "producers": packed_expected(expected).decode()})
        write_whole(self.folder / _HIGH_WATER, mark.encode(), self._step)

    def _recovered(self) -> tuple[int, dict[str, Expected]]:
        end, producers = 0, dict[str, Expected]()
        if (mark := self.folder / _HIGH_WATER).exists():
            with damage_named(mark):
                told = json.loads(mark.read_bytes())
                end, producers = told["end"], unpacked_expected(told["producers"])
        if not self._files:
            return end, producers
        last = self._files[-1]
        if last.end < end:
            raise SpoolDamaged(
                f"{last.path} is not the last file, the log went up to {end}; restore what came after it"
            )
        # A mark at the end of the last file was written after it, and knows at least as much.
        return (end, producers) if last.end == end else (last.end, expected_in(last))


def read(folder: Path, start: int, most_bytes: int) -> Iterator[Placed]:
    """What lies in a spool from a position on: up to so many bytes, but one item at least where there is one."""
    left = most_bytes
    for file in log_files(folder / _LOG):
        for placed in items_in(file) if file.end > start else ():
            if placed.end <= start:
                continue
            found = placed.since(start)
            size = len(found.item.payload)
            if size > left and left < most_bytes:
                return
            left -= size
            yield found


def commit(folder: Path, consumer: str, position: int) -> None:
    """Say that a consumer needs nothing before a position any more; the first time, it joins by that."""
    make_folder(folder / _CONSUMERS)
    write_whole(folder / _CONSUMERS / consumer, str(position).encode())


def leave(folder: Path, consumer: str) -> None:
    """Say that a consumer needs nothing any more."""
    if consumer in consumers(folder):
        (folder / _CONSUMERS / consumer).unlink()
        sync_folder(folder / _CONSUMERS)


def consumers(folder: Path) -> dict[str, int]:
    """Every consumer with how far it is."""
    there = folder / _CONSUMERS
    positions = dict[str, int]()
    for path in there.iterdir() if there.exists() else ():
        # One that leaves meanwhile is gone; what is half written lies in a folder.
        with suppress(FileNotFoundError, IsADirectoryError):
            text = path.read_bytes()
            with damage_named(path):
                positions[path.name] = int(text)
    return positions
