"""Damage: files of one job or stream that cannot be read or written, which must not affect others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge import PositionsGone, SpoolClosed, SpoolDamaged
from engine.records.record_file import RecordDamaged

DAMAGE = (RecordDamaged, SpoolDamaged, SpoolClosed, PositionsGone, OSError)
"""The exceptions for damaged or missing files and full disks. They are retried, since an operator may fix the cause."""


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Raise read errors within the context as damage of this file of a job."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise RecordDamaged(f"{path} cannot be read: {error}; restore it") from error
