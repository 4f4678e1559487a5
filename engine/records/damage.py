"""Damage: files of one job or stream that cannot be read or written, which is the trouble of nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge import PositionsGone, SpoolClosed, SpoolDamaged
from engine.records.record_file import RecordDamaged

DAMAGE = (RecordDamaged, SpoolDamaged, SpoolClosed, PositionsGone, OSError)
"""What is raised where files are damaged or missing, or a disk is full: tried again, since somebody may mend it."""


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Whatever cannot be read inside is damage of this file of a job."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise RecordDamaged(f"{path} cannot be read: {error}; restore it") from error
