"""The disk space that tenants must leave free."""

from pathlib import Path

from bridge.files import DiskSpace
from engine.side_effect import OutsideUnreachable


def check_room(folder: Path) -> None:
    """Raise if the disk of an existing folder is too full for tenants to write."""
    space = DiskSpace.of(folder)
    if space.free < space.spare:
        raise OutsideUnreachable(
            f"the disk is too full to write to places: {space.free:,} bytes are free, and {space.spare:,} must "
            "stay free; make room"
        )
