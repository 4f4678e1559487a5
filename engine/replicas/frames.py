"""The frames between an owner and a peer.

```text
owner  Greeting                              Pieces ... CopyChanges ... Commit             Pieces ...
peer             PresentFiles ... (last)                                    Confirmed
```

At any time a peer may answer `OwnerRefused`, or `CannotKeep`, and hang up.
"""

from typing import Protocol, TypeAlias

import msgspec


class Greeting(msgspec.Struct, frozen=True, tag=True):
    """The first frame of an owner: whose files it is about to send, and as whose carrier."""

    host: str
    term: int
    machine: str


class PresentFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that a peer has."""

    path: str
    size: int
    mtime_ns: int
    digest: bytes = b""
    """Empty if size and time are enough to know it."""


class PresentFiles(msgspec.Struct, frozen=True, tag=True):
    """Some of the files and folders that a peer has; the last frame of them ends the answer to a `Greeting`."""

    files: list[PresentFile]
    folders: list[str]
    last: bool = False


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file, or all of it."""

    path: str
    size: int
    mtime_ns: int
    at: int
    data: bytes
    digest: bytes = b""
    """Of the whole file, with its last piece."""


class Pieces(msgspec.Struct, frozen=True, tag=True):
    """Files, or a part of one. They take effect with the next `Commit`."""

    pieces: list[Piece]


class CopyChanges(msgspec.Struct, frozen=True, tag=True):
    """What the next `Commit` does besides putting files."""

    folders: list[str] = []
    """Folders to make."""
    withdrawn: list[str] = []
    """Files that were sent since the last commit and do not count any more."""
    removed: list[str] = []
    removed_folders: list[str] = []
    """Folders to remove, the inner ones first."""


class Commit(msgspec.Struct, frozen=True, tag=True):
    """The end of a round: all of it takes effect, or nothing."""

    number: int
    whole: bool
    """Whether the copy then has exactly the owner's files."""
    portion: bool = False
    """Whether more belongs to it, without which no host could begin from the copy."""


class Confirmed(msgspec.Struct, frozen=True, tag=True):
    """A round is durable at the peer."""

    number: int


class OwnerRefused(msgspec.Struct, frozen=True, tag=True):
    """A peer takes nothing from this owner."""

    term: int
    """The highest term of the host that the peer knows."""
    why: str


class CannotKeep(msgspec.Struct, frozen=True, tag=True):
    """A peer cannot do its part for now."""

    why: str


Frame: TypeAlias = Greeting | PresentFiles | Pieces | CopyChanges | Commit | Confirmed | OwnerRefused | CannotKeep


class FrameChannel(Protocol):
    """An owner's end of a connection to something that keeps copies; used by one thread."""

    def send(self, frame: Frame) -> int:
        """Send a frame; returns its size."""

    def receive(self) -> Frame:
        """The next frame."""

    def hang_up(self) -> None:
        """End the connection; those who send or receive get an error. From any thread."""

    def close(self) -> None:
        """End the connection, and give its resources back."""


_DECODER: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)
encoded = msgspec.msgpack.Encoder().encode


def decoded(body: bytes | bytearray) -> Frame:
    """Read a frame. Raises `msgspec.DecodeError` for anything else."""
    return _DECODER.decode(body)
