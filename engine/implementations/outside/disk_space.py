"""Room: how much of the disk tenants leave to everything else."""

import shutil
from pathlib import Path

from engine.side_effect import OutsideUnreachable

_SPARE = 2**30
"""Bytes that stay free, so that what hosts record and keep finds room whatever tenants write."""
_PART = 20
"""On a small disk one part in so many stays free."""


def check_room(folder: Path) -> None:
    """Raise where a disk is so full that tenants may write no more; the folder is there."""
    usage = shutil.disk_usage(folder)
    spare = min(_SPARE, usage.total // _PART)
    if usage.free < spare:
        raise OutsideUnreachable(
            f"no more is written to places: {usage.free:,} bytes of the disk are free, and {spare:,} have to stay so; "
            "make room"
        )
