"""Backup and restore of a service: its database and the state of its jobs, in one archive.

`back_up` makes an archive while the service runs; `restore` fills an empty root and an empty database from it.
"""

from manager.backup.archive import BackupManifest, BackupRefused
from manager.backup.restoration import back_up, restore

__all__ = ["BackupManifest", "BackupRefused", "back_up", "restore"]
