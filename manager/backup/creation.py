"""The creation of a backup, while the service runs or not.

A backup contains the database as of one moment; the plans, records and cuts of each job; the end of each
spool; the access lists of the broker; and the tenants' secrets. On request it contains the events in the spools, and
the first operator's API key with the key to the secrets. The database is copied last, so that it has every plan and
instance that a job knows. A backup waits while tasks move between jobs.

It does not contain the files that tasks write, the broker with its ports and its password, which are made again, and
files that only living processes need.
"""

import shutil
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bridge import Lease, LeaseTaken
from bridge.machine.files import make_folder
from engine.code.store import CODE_FOLDER
from engine.vault import VAULT_FOLDER as SECRETS
from engine.vault import VAULT_KEY as SECRETS_KEY
from manager.backup.archive import DATABASE, BackupManifest, BackupRefused, Contents, write_archive
from manager.backup.database import counted, dump, moves, scheme, sqlite_file
from manager.backup.live_copy import copy_live
from manager.process.settings import KEY_FILE

_PATIENCE = 60.0
"""Seconds that a backup waits for a move to end."""
_LOOK_EVERY = 0.5
"""Seconds between two checks for the end of the move."""
_FOLDER = "backup"
"""The folder for the copy, in the root so that it is on the same file system."""


def back_up(root: Path, url: str, path: Path, *, with_spools: bool = False, with_key: bool = False) -> BackupManifest:
    """Back up a root and its database into an archive."""
    if not root.is_dir():
        raise BackupRefused(f"there is no root at {root}; name the root of a service")
    if (file := sqlite_file(url)) is not None and not file.is_file():
        raise BackupRefused(f"there is no database at {file}; name the root of a service")
    if path.exists():
        raise BackupRefused(f"{path} is there already; choose another name, or remove it first")
    try:
        lease = Lease(root / _FOLDER)
    except LeaseTaken:
        raise BackupRefused(f"another backup of {root} is being made; wait for it") from None
    copy = root / _FOLDER / "picture"
    with lease:
        # A backup that was killed may have left its copy.
        shutil.rmtree(copy, ignore_errors=True)
        try:
            return _archive(root, url, path, copy, with_spools=with_spools, with_key=with_key)
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _archive(  # noqa: PLR0913 - the arguments of `back_up`, and the folder for the copy
    root: Path, url: str, path: Path, copy: Path, *, with_spools: bool, with_key: bool
) -> BackupManifest:
    jobs = _consistent_copy(root, url, copy, with_spools=with_spools)
    files = [(DATABASE, copy / DATABASE)]
    for folder, name in ((copy, "jobs"), (copy, "spools"), (root, "access"), (root, SECRETS), (root, CODE_FOLDER)):
        files += [(str(each.relative_to(folder)), each) for each in _files(folder / name)]
    # Without their key, the secrets in a backup cannot be read.
    files += [(name, root / name) for name in (KEY_FILE, SECRETS_KEY) if with_key and (root / name).is_file()]
    contents = Contents(
        braid=version("braid"),
        scheme=scheme(copy / DATABASE),
        made=datetime.now(UTC),
        counts=counted(copy / DATABASE),
        jobs=jobs,
        spools=with_spools,
        key=any(name == KEY_FILE for name, _ in files),
    )
    return write_archive(path, files, contents)


def _consistent_copy(root: Path, url: str, copy: Path, *, with_spools: bool) -> int:
    """Copy the service while no task moves between jobs, and return the number of jobs.

    The state of a moving task could be in a job that is not in the copy.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        make_folder(copy)
        dump(url, copy / DATABASE)
        before = moves(copy / DATABASE)
        if not before[1]:
            (copy / DATABASE).unlink()
            jobs = copy_live(root, copy, with_spools=with_spools)
            dump(url, copy / DATABASE)
            if moves(copy / DATABASE) == before:
                return jobs
        shutil.rmtree(copy)
        if time.monotonic() > deadline:
            raise BackupRefused(
                "tasks are being moved between jobs; make the backup again in a moment, or start the service if none "
                "runs, which ends the move"
            )
        time.sleep(_LOOK_EVERY)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "tmp" not in path.relative_to(folder).parts)
