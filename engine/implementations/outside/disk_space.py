"""The disk space that tenants must leave free."""

import shutil
from pathlib import Path

from engine.side_effect import OutsideUnreachable

_SPARE = 2**30
"""The bytes that stay free for records and other files of hosts."""
_PART = 20
"""On a small disk, one part in this many stays free."""


def check_room(folder: Path) -> None:
    """Raise if the disk of an existing folder is too full for tenants to write."""
    usage = shutil.disk_usage(folder)
    spare = min(_SPARE, usage.total // _PART)
    if usage.free < spare:
        raise OutsideUnreachable(
            f"the disk is too full to write to places: {usage.free:,} bytes are free, and {spare:,} must stay free; "
            "make room"
        )
