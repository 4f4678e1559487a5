"""The creation of a backup, while the service runs or not; and its restoration, while no service runs.

A backup contains the database as of one moment; the plans, records and cuts of each job; the end of each spool; the
access lists of the broker; and the tenants' secrets. On request it contains the events in the spools, and the first
operator's API key with the key to the secrets. The database is copied last, so that it has every plan and instance that
a job knows. A backup waits while tasks move between jobs. It does not contain the files that tasks write, the broker
with its ports and its password, which are made again, and files that only living processes need.

A restoration fills an empty root and an empty database with:

- The committed state, exactly as it was at the backup: tenants, keys, sources, dataflows, plans, the journal, dead
  letters.
- Every job in the state that it had then. With the events of the spools, it first processes those. Without them, it
  continues with the next event that arrives, and the events that waited then are lost.
- Every output at its number then, in a higher epoch. Numbers that a reader has received since then are given to other
  events, so a reader that drops duplicates has to start again at the new epoch.

A restored service leads in a higher term than any before, and its new instances, jobs and epochs have numbers
that were never used. So hosts, jobs and streams of the old service that still live are refused. Every host is at
home, without copies, until its machine has made new ones.
"""

import shutil
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import select
from sqlmodel import Session

from braid_client.answers.overview import OperationKind
from bridge import Lease, LeaseTaken
from bridge.files import link_whole, make_folder, make_private_folder, sync_folder
from bridge.spools.log import LOG
from engine.code.store import CODE_FOLDER
from engine.outside import VAULT_FOLDER as SECRETS
from engine.outside import VAULT_KEY as SECRETS_KEY
from manager.backup.archive import DATABASE, BackupManifest, BackupRefused, Contents, extract, verified, write_archive
from manager.backup.database import check_empty, described, dump, load, moves, sqlite_file
from manager.backup.live_copy import clear, copy_live
from manager.kernel.draft import OPERATOR
from manager.settings import KEY_FILE
from manager.store.database import DatabaseDown, Store, sqlite_url
from manager.store.machine_tables import CarriageRow
from manager.store.tables import Leadership, OperationRow

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
        files += [(str(entry.relative_to(folder)), entry) for entry in _files(folder / name)]
    # Without their key, the secrets in a backup cannot be read.
    files += [(name, root / name) for name in (KEY_FILE, SECRETS_KEY) if with_key and (root / name).is_file()]
    scheme, counts = described(copy / DATABASE)
    contents = Contents(
        braid=version("braid"),
        scheme=scheme,
        made=datetime.now(UTC),
        counts=counts,
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


_IDS_AHEAD = 1_000_000
"""More instances and jobs than a service makes between a backup and its loss."""
_UNFINISHED = "restoring"
"""The folder in the root for an incomplete restoration."""


def restore(path: Path, root: Path, url: str) -> BackupManifest:
    """Restore an archive; nothing is written before all of it is verified."""
    manifest = verified(path)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise BackupRefused(f"{root} is not empty; name another root, or move away what is in it")
    made = not root.exists()
    with tempfile.TemporaryDirectory(prefix="braid-restore-") as folder:
        # Outside the root, because only opening the database shows if this release can use it.
        taken = Path(folder)
        extract(path, taken, only=DATABASE)
        _advance(taken / DATABASE, manifest)
        check_empty(url)
        try:
            _fill(path, root, taken / DATABASE, url)
        except BaseException:
            # Emptied, so that the restoration can be tried again.
            clear(root)
            if made and root.is_dir():
                root.rmdir()
            raise
    return manifest


def _advance(database: Path, manifest: BackupManifest) -> None:
    """Raise the term and all ids, so that nothing of the old service is taken for part of the new one."""
    try:
        store = Store(sqlite_url(database))
    except DatabaseDown as error:
        raise BackupRefused(f"this Braid cannot restore what {manifest.braid} made: {error}") from error
    made = manifest.made.isoformat(timespec="seconds")
    with closing(store), store.write() as session:
        row = session.get_one(Leadership, 1)
        row.leader, row.until = "", 0.0
        # The time is higher than any number of take-overs, and than the term of any earlier restoration.
        row.term = max(row.term + 1, int(time.time()))
        row.next_instance += _IDS_AHEAD
        row.next_job += _IDS_AHEAD
        _bring_home(session, row.term)
        session.add(OperationRow(at=time.time(), kind=OperationKind.RESTORE, who=OPERATOR, subject=made, seconds=0.0))


def _bring_home(session: Session, term: int) -> None:
    """Have every carried host be at its own machine, in a term of its own. Copies are of what was, so none counts."""
    for carriage in session.scalars(select(CarriageRow)):
        if carriage.machine:
            carriage.machine, carriage.root, carriage.heir = carriage.host, "", ""
        carriage.term, carriage.version = max(carriage.term + 1, term), carriage.version + 1
        carriage.peers, carriage.roots, carriage.kept_by = [], [], []


def _fill(path: Path, root: Path, database: Path, url: str) -> None:
    make_private_folder(root)
    sync_folder(root.parent)
    unfinished = root / _UNFINISHED
    unfinished.mkdir(mode=0o700)
    extract(path, unfinished, without=DATABASE)
    for spool in (unfinished / "spools").glob("*"):
        # Readers recognize a spool by this folder.
        (spool / LOG).mkdir(exist_ok=True)
    for job in (unfinished / "jobs").glob("*"):
        runs = job / "runs"
        make_folder(runs)
        # The number of the next start raises the epoch of all that the job sends.
        link_whole(runs / f"{int(time.time()):08d}", b"")
    for entry in sorted(unfinished.iterdir()):
        entry.rename(root / entry.name)
    unfinished.rmdir()
    sync_folder(root)
    # Last, because a root without a database belongs to no service yet.
    load(database, url)
    sync_folder(root)
