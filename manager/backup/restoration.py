"""The restoration of a backup into an empty root and an empty database, while no service runs on them.

It restores:

- The committed state, exactly as it was at the backup: tenants, keys, sources, dataflows, plans, the journal, dead
  letters.
- Every job in the state that it had then. With the events of the spools, it first processes those. Without them, it
  continues with the next event that arrives, and the events that waited then are lost.
- Every output at its number then, in a higher epoch. Numbers that a reader has received since then are given to other
  events, so a reader that drops duplicates has to start again at the new epoch.

A restored service leads in a higher term than any before, and its new instances, jobs and epochs have numbers that were
never used. So hosts, jobs and streams of the old service that still live are refused. Every host is at home, without
copies, until its machine has made new ones.
"""

import shutil
import tempfile
import time
from pathlib import Path

from sqlalchemy import select
from sqlmodel import Session

from bridge.machine.files import link_whole, make_folder, sync_folder
from bridge.machine.private_files import make_private_folder
from bridge.spools.log import LOG
from manager.answers import OperationKind
from manager.backup.archive import DATABASE, BackupManifest, BackupRefused, extract, verified
from manager.backup.database import check_empty, load
from manager.committer.rows import OPERATOR
from manager.store.database import DatabaseDown, Store, sqlite_url
from manager.store.tables import CarriageRow, Leadership, OperationRow

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
            _empty(root, itself=made)
            raise
    return manifest


def _advance(database: Path, manifest: BackupManifest) -> None:
    """Raise the term and all ids, so that nothing of the old service is taken for part of the new one."""
    try:
        store = Store(sqlite_url(database))
    except DatabaseDown as error:
        raise BackupRefused(f"this Braid cannot restore what {manifest.braid} made: {error}") from error
    try:
        with store.write() as session:
            row = session.get_one(Leadership, 1)
            row.leader, row.until = "", 0.0
            # The time is higher than any number of take-overs, and than the term of any earlier restoration.
            row.term = max(row.term + 1, int(time.time()))
            row.next_instance += _IDS_AHEAD
            row.next_job += _IDS_AHEAD
            _bring_home(session, row.term)
            session.add(
                OperationRow(
                    at=time.time(),
                    kind=OperationKind.RESTORE,
                    who=OPERATOR,
                    subject=manifest.made.isoformat(timespec="seconds"),
                    seconds=0.0,
                )
            )
    finally:
        store.close()


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
    for each in sorted(unfinished.iterdir()):
        each.rename(root / each.name)
    unfinished.rmdir()
    sync_folder(root)
    # Last, because a root without a database belongs to no service yet.
    load(database, url)
    sync_folder(root)


def _empty(root: Path, *, itself: bool) -> None:
    if not root.is_dir():
        return
    for each in root.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    if itself:
        root.rmdir()
