"""Backup and restore of the whole: the database, and of the root what jobs go on from, in one archive.

`back_up` makes one while everything runs; `restore` fills an empty root and an empty database from it. What is and is
not given back stands with them.
"""

from manager.backup.archive import BackupRefused, Manifest
from manager.backup.creation import back_up
from manager.backup.restoration import restore

__all__ = ["BackupRefused", "Manifest", "back_up", "restore"]
