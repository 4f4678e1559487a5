"""The consumers of a spool: each commits for itself how far it is, in a file of its own."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from bridge.machine.files import Steps, make_folder, no_steps, sync_folder, write_whole
from bridge.spools.log import damage_named

_CONSUMERS, _POSITION = "consumers", ".position"
_LONGEST = 200
"""Bytes of a file's name; file systems take 255, and a little has to be left for the ending."""


def commit(folder: Path, consumer: str, position: int, step: Steps = no_steps) -> None:
    """Say that a consumer needs nothing before a position any more; the first time, it joins by that."""
    path = _path(folder, consumer)
    make_folder(path.parent)
    write_whole(path, str(position).encode(), step)


def leave(folder: Path, consumer: str) -> None:
    """Say that a consumer needs nothing any more."""
    path = _path(folder, consumer)
    if path.exists():
        path.unlink()
        sync_folder(path.parent)


def consumers(folder: Path) -> dict[str, int]:
    """Every consumer with how far it is."""
    there = folder / _CONSUMERS
    positions = dict[str, int]()
    for path in there.glob(f"*{_POSITION}"):
        # One that leaves meanwhile is gone.
        with suppress(FileNotFoundError):
            text = path.read_bytes()
            with damage_named(path):
                positions[unquote(path.name.removesuffix(_POSITION), errors="surrogatepass")] = int(text)
    return positions


def unread_since(folder: Path) -> float | None:
    """When the last consumer left; None where there is one, or never was."""
    there = folder / _CONSUMERS
    if any(there.glob(f"*{_POSITION}")):
        return None
    try:
        # It changes when a file goes.
        return there.stat().st_mtime
    except FileNotFoundError:
        return None


def _path(folder: Path, consumer: str) -> Path:
    quoted = quote(consumer, safe="", errors="surrogatepass")
    if not 0 < len(quoted) <= _LONGEST:
        raise ValueError(f"{consumer!r} cannot name a consumer: give it between 1 and {_LONGEST} bytes, once quoted")
    # The ending keeps names such as ".." and "tmp" from being folders.
    return folder / _CONSUMERS / f"{quoted}{_POSITION}"
