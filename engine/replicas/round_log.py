"""The log of rounds of a copy: a round that is in it counts, even if not all of its files are written yet."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from bridge.files import Steps, make_folder, no_steps, sync_folder

_LENGTH, _DIGEST = 8, 32


class LoggedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a round."""

    path: str
    mtime_ns: int
    data: bytes | None
    """None if it waits beside the log."""


class LoggedRound(msgspec.Struct, frozen=True, array_like=True):
    """All that a round changes."""

    files: list[LoggedFile]
    folders: list[str]
    removed: list[str]
    removed_folders: list[str]


_DECODER = msgspec.msgpack.Decoder(LoggedRound)


class RoundLog:
    """The files of the log, in the order of their names; the last one is written."""

    def __init__(self, folder: Path, step: Steps = no_steps) -> None:
        self._folder = folder
        self._step = step
        self._last: Path | None = None
        self.size = 0
        """The bytes in the last file."""

    def parts(self) -> list[Path]:
        """The files of the log."""
        return sorted(self._folder.glob("rounds.*"))

    def append(self, logged: LoggedRound) -> None:
        """Append a round; it counts once this returns."""
        body = msgspec.msgpack.encode(logged)
        if self._last is None:
            self.turn()
        assert self._last is not None  # noqa: S101 - for the type checker
        self._step("log")
        handle = os.open(self._last, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        try:
            os.lseek(handle, self.size, os.SEEK_SET)
            try:
                rest = memoryview(len(body).to_bytes(_LENGTH, "big") + sha256(body).digest() + body)
                written = len(rest)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                self._step("sync log")
                os.fsync(handle)
            except OSError:
                # On a full disk: it does not count, and what was written would keep the disk full.
                os.ftruncate(handle, self.size)
                raise
        finally:
            os.close(handle)
        self.size += written

    def turn(self) -> list[Path]:
        """Go on in another file; the files before it may be removed once all their rounds are written and synced."""
        before = self.parts()
        number = int(before[-1].suffix[1:]) + 1 if before else 1
        make_folder(self._folder)
        path = self._folder / f"rounds.{number:08d}"
        path.touch()
        sync_folder(self._folder)
        self._last, self.size = path, 0
        return before

    def rounds(self) -> Iterator[LoggedRound]:
        """The rounds that count; what a crash cut off does not."""
        for path in self.parts():
            with path.open("rb") as file:
                while len(head := file.read(_LENGTH + _DIGEST)) == _LENGTH + _DIGEST:
                    # A part of a round is what a crash left of the last one.
                    body = file.read(int.from_bytes(head[:_LENGTH], "big"))
                    if sha256(body).digest() != head[_LENGTH:]:
                        return
                    yield _DECODER.decode(body)

    def clear(self) -> None:
        """Remove all of it."""
        self._last, self.size = None, 0
        # The oldest first: a round is never done again without those after it.
        for path in self.parts():
            path.unlink()
            sync_folder(self._folder)
