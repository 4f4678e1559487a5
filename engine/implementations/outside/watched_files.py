"""The client of connectors of kind `files`: takes each file of a folder or bucket once.

**Which files.** Every so many seconds it looks. A file that two looks in a row find with the same size and time is
complete, and is put on a list, those of one look in the order of their times and names. So a file may come late: the
list is in the order in which files were found, and what makes a file a new one is that its name is not on the list.
Names with a level that begins with a dot or `_`, or that ends in `.tmp` or `.part`, are left out, and links are.

**Where it is.** The positions are the number of the file under way on the list, the next row in it, and the version of
the file that the rows before were read from. They are kept with the events, and the list beside the spool; see
`file_list`. So a crash neither doubles nor loses events, and positions take the same room for any number of files.

**What it reports.** A file that is not of its format is left at that place, and the next is taken. A file is not read
again if it changes after it was taken, and not read on if it has changed or is gone in the middle. One that is gone
before it is taken is taken if it comes back. All this is reported as rejected, with the name. What cannot be reached is
trouble: nothing is passed over, and it is tried again.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from typing import BinaryIO, cast

import pyarrow as pa

from bridge.connectors.connector_run import ClientAssignment, ConnectorTrouble, TakenEvents
from bridge.files import Steps, no_steps
from bridge.formats.file_pieces import FilePiece, UnreadableFile, format_of_name, pieces
from bridge.raw_events import Unfit, arrow_schema
from dags.connectors import FilesConnector
from dags.message_formats import UnusableFormat
from engine.behaviour import NoBehaviour
from engine.implementations.outside.file_list import FileList, FileListDamaged, ListedFile
from engine.implementations.outside.file_stores import FileStore, FolderFile, Missing, file_store
from engine.side_effect import OutsideUnreachable

FILE_LIST = "files"
"""The folder of the list, in that of the spool."""
MOST_FILES = 1_000_000
"""Files that are remembered of a source."""
_FILE, _ROW, _VERSION = "file", "row", "version"
_UNFINISHED = (".tmp", ".part")
_MOST_ROWS, _MOST_BYTES = 10_000, 1_000_000
"""What is taken at once, about: a file of the spool costs more than the events in it."""
_VERSION_BYTES = 7
"""Bytes of a version, so that it fits into a position."""


class WatchedFiles:
    """The files in a folder, as they are taken; used by one thread."""

    def __init__(
        self,
        connector: FilesConnector,
        assignment: ClientAssignment,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        step: Steps = no_steps,
    ) -> None:
        self._connector = connector
        self._assignment = assignment
        self._clock = clock
        self._sleep = sleep
        positions = assignment.positions
        self._begins = not positions
        self._number, self._row = positions.get(_FILE, 0), positions.get(_ROW, 0)
        self._version = positions.get(_VERSION, 0)
        self._reading: Generator[FilePiece] | None = None
        self._seen: dict[str, int] = {}
        """The versions of the files in the last look."""
        self._look_at = clock()
        self._unfit: list[Unfit] = []
        """What is to be reported with what is taken next."""
        try:
            self._store: FileStore = file_store(connector.folder)
            self._list = FileList(assignment.folder / FILE_LIST, step)
        except (NoBehaviour, FileListDamaged) as error:
            raise ConnectorTrouble(str(error)) from None
        if self._begins:
            self._list.clear()
        if self._number > len(self._list):
            raise ConnectorTrouble(
                f"the list of files in {assignment.folder / FILE_LIST} has {len(self._list):,} names, and "
                f"{self._number:,} were taken; restore it, or register the source anew to take all files again"
            )
        self._look()

    def take(self, seconds: float) -> TakenEvents | None:
        """Return the events of the next rows, of one file or several."""
        if self._begins:
            self._begins = False
            return self._arrived([])
        before = self._positions
        until = self._clock() + seconds
        taken: list[FilePiece] = []
        rows = size = 0
        while self._clock() < until and rows < _MOST_ROWS and size < _MOST_BYTES:
            if self._clock() >= self._look_at:
                self._look()
            if self._number < len(self._list):
                for piece in self._next():
                    taken.append(piece)
                    rows, size = rows + piece.rows, size + piece.events.nbytes
            elif self._positions != before or self._unfit:
                break
            else:
                self._sleep(max(0.0, min(until, self._look_at) - self._clock()))
        return self._arrived(taken) if self._positions != before or self._unfit else None

    def spooled(self) -> None:
        """Nothing is let go: files stay where they are."""

    def close(self, *, for_good: bool) -> None:
        """Close the file under way. The list stays until the source is read anew."""
        _ = for_good
        self._end_reading()

    def _arrived(self, taken: list[FilePiece]) -> TakenEvents:
        unfit = [*(unfit for piece in taken for unfit in piece.unfit), *self._unfit]
        self._unfit = []
        columns = arrow_schema(self._assignment.schema)
        table = pa.Table.from_batches([piece.events for piece in taken], columns).combine_chunks()
        (events,) = table.to_batches() or (pa.RecordBatch.from_pylist([], schema=columns),)
        return TakenEvents(events=events, unfit=tuple(unfit), positions=self._positions)

    @property
    def _positions(self) -> Mapping[str, int]:
        return {_FILE: self._number, _ROW: self._row, _VERSION: self._version}

    def _look(self) -> None:
        """Put the files on the list that are new and complete, and report those that have changed."""
        self._look_at = self._clock() + self._connector.every
        try:
            files = [file for file in self._store.files() if self._is_meant(file.name)]
        except (OutsideUnreachable, NoBehaviour) as error:
            raise ConnectorTrouble(str(error)) from None
        seen = {file.name: _version(file) for file in files}
        new: list[FolderFile] = []
        for file in files:
            version = seen[file.name]
            if (number := self._list.number(file.name)) is None:
                if self._seen.get(file.name) == version:
                    new.append(file)
            elif number < self._number and self._list[number].version != version:
                self._report(
                    file.name, "it changed after it was taken, and is not read again; write what is new to another file"
                )
                self._list.note(number, version)
        self._seen = seen
        if len(self._list) + len(new) > MOST_FILES:
            raise ConnectorTrouble(
                f"the folder has or had more than {MOST_FILES:,} files; register a source for another folder, or with "
                "a narrower pattern"
            )
        new.sort(key=lambda file: (file.changed, file.name))
        self._list.append([ListedFile(file.name, seen[file.name]) for file in new])

    def _is_meant(self, name: str) -> bool:
        levels = name.split("/")
        if any(level.startswith((".", "_")) for level in levels) or name.endswith(_UNFINISHED):
            return False
        if self._connector.format is None and format_of_name(name) is None:
            return False
        pattern = self._connector.pattern.split("/")
        ends = levels[-len(pattern) :]
        return len(ends) == len(pattern) and all(map(fnmatchcase, ends, pattern))

    def _next(self) -> list[FilePiece]:
        """Take the next piece of the file under way; nothing if the file ends here."""
        name = self._list[self._number].name
        if self._list.number(name) != self._number:
            # It was withdrawn.
            self._number += 1
            return []
        try:
            if self._reading is None:
                self._reading = self._opened(name)
            piece = next(self._reading, None)
            if piece is None:
                self._check_unchanged(name)
        except (Missing, UnreadableFile) as error:
            rows = f"; its first {self._row:,} rows were taken" if self._row else ""
            reason = "it is gone" if isinstance(error, Missing) else str(error)
            self._report(name, f"{reason}{rows}")
            if isinstance(error, Missing) and not self._row:
                # Perhaps only its folder is away.
                self._list.withdraw(name)
                self._seen.pop(name, None)
            piece = None
        except (OutsideUnreachable, NoBehaviour, UnusableFormat) as error:
            raise ConnectorTrouble(str(error)) from None
        if piece is None:
            self._end_reading()
            self._number, self._row, self._version = self._number + 1, 0, 0
            return []
        self._row += piece.rows
        return [replace(piece, unfit=tuple(_of(name, unfit) for unfit in piece.unfit))]

    def _opened(self, name: str) -> Generator[FilePiece]:
        """Begin to read a file, or read on in it."""
        version = _version(self._store.file(name))
        self._list.note(self._number, version)
        if self._row and version != self._version:
            raise UnreadableFile("it has changed while it was taken, and is not read on")
        self._version = version
        stream = cast(BinaryIO, BufferedReader(self._store.open(name), _MOST_BYTES))
        content = self._connector.format or format_of_name(name)
        if content is None:
            raise UnreadableFile("its ending stands for no format")
        schema, kinds = self._assignment.schema, self._assignment.kinds
        return _closing(stream, partial(pieces, stream, name, content, schema, kinds, self._row))

    def _check_unchanged(self, name: str) -> None:
        """Report a file that has changed while it was read."""
        try:
            version = _version(self._store.file(name))
        except Missing:
            return
        if version != self._version:
            self._report(name, "it changed while it was taken; what changed may not have been read")
            self._list.note(self._number, version)

    def _end_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()

    def _report(self, name: str, reason: str) -> None:
        self._unfit.append(_of(name, Unfit(event=_shown(name), reason=reason)))


def _closing(stream: BinaryIO, read: Callable[[], Iterator[FilePiece]]) -> Generator[FilePiece]:
    with stream:
        yield from read()


def _of(name: str, unfit: Unfit) -> Unfit:
    return replace(unfit, reason=f"{_shown(name)}: {unfit.reason}")


def _shown(name: str) -> str:
    """A name as a text to show: those of files may be any bytes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _version(file: FolderFile) -> int:
    """What a file is like, as a number: it differs if size or time do."""
    text = f"{file.size} {file.changed}".encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(text, digest_size=_VERSION_BYTES).digest())
