"""The consumers of a spool: each commits its own position, in a file of its own."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from bridge.machine.files import Steps, make_folder, no_steps, sync_folder, write_whole
from bridge.spools.log import damage_named

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
