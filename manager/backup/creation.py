"""Making a backup, while everything runs or while nothing does.

What is in it: the database as of one moment; of each job the plans, the checkpoint, the records and the cuts; of each
spool how far it is, and where asked for what lies in it; who may do what on the broker; what tenants keep secret; and
where asked the first operator's API key, and the key to what is secret. The database is taken last, so that it knows of
every plan and instance that a job does. While tasks move from job to job it waits.

Not in it: the files that tasks write; the broker, its ports and its password, which are made anew; and whatever only
living processes mean.
"""

import shutil
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bridge import Lease, LeaseTaken
from bridge.machine.files import make_folder
from engine.vault import VAULT_FOLDER as SECRETS
from engine.vault import VAULT_KEY as SECRETS_KEY
from manager.backup.archive import DATABASE, BackupRefused, Contents, Manifest, write_archive
from manager.backup.database import counted, dump, moves, scheme, sqlite_file
from manager.backup.live_copy import copy_live
from manager.process.settings import KEY_FILE

_PATIENCE = 60.0
"""Seconds that a backup waits for a move to end."""
_LOOK_EVERY = 0.5
"""Seconds between two looks whether it has."""
_FOLDER = "backup"
"""In the root: where the picture is taken, on the file system that it is taken of."""


def back_up(root: Path, url: str, path: Path, *, with_spools: bool = False, with_key: bool = False) -> Manifest:
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
    picture = root / _FOLDER / "picture"
    with lease:
        # One that was killed may have left its own.
        shutil.rmtree(picture, ignore_errors=True)
        try:
            return _archive(root, url, path, picture, with_spools=with_spools, with_key=with_key)
        finally:
            shutil.rmtree(picture, ignore_errors=True)


def _archive(  # noqa: PLR0913 - where from, where to, and with what
    root: Path, url: str, path: Path, picture: Path, *, with_spools: bool, with_key: bool
) -> Manifest:
    jobs = _still(root, url, picture, with_spools=with_spools)
    files = [(DATABASE, picture / DATABASE)]
    for folder, name in ((picture, "jobs"), (picture, "spools"), (root, "access"), (root, SECRETS)):
        files += [(str(each.relative_to(folder)), each) for each in _files(folder / name)]
    # Without the key to them, secrets in a backup tell nobody anything.
    files += [(name, root / name) for name in (KEY_FILE, SECRETS_KEY) if with_key and (root / name).is_file()]
    contents = Contents(
        braid=version("braid"),
        scheme=scheme(picture / DATABASE),
        made=datetime.now(UTC),
        counts=counted(picture / DATABASE),
        jobs=jobs,
        spools=with_spools,
        key=any(name == KEY_FILE for name, _ in files),
    )
    return write_archive(path, files, contents)


def _still(root: Path, url: str, picture: Path, *, with_spools: bool) -> int:
    """Take the picture while no task moves from job to job: else its state would be in a job that is not in it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        make_folder(picture)
        dump(url, picture / DATABASE)
        before = moves(picture / DATABASE)
        if not before[1]:
            (picture / DATABASE).unlink()
            jobs = copy_live(root, picture, with_spools=with_spools)
            dump(url, picture / DATABASE)
            if moves(picture / DATABASE) == before:
                return jobs
        shutil.rmtree(picture)
        if time.monotonic() > deadline:
            raise BackupRefused(
                "tasks are being moved from job to job; make the backup again in a moment, and where no service runs "
                "start it, which ends that"
            )
        time.sleep(_LOOK_EVERY)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "tmp" not in path.relative_to(folder).parts)
