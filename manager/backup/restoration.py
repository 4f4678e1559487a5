"""Restoring a backup into an empty root and an empty database, while no service runs on them.

What is given back:

- What was committed, exactly as it was when the backup was made: tenants, keys, sources, dataflows, plans, the journal,
  dead letters.
- Every job in the state that it had then. Without the spools' contents what came since, and what waited in the spools,
  is lost to it: it goes on with what comes next. With them it first works off what waited.
- Every output goes on at its number then, in a higher epoch. Numbers that somebody got since stand for other events
  from now on, so whoever drops what came twice has to begin anew at the epoch.

A restored service leads under a term that is higher than any before, and gives instances, jobs and epochs numbers that
none had before: hosts, jobs and streams of the old one that still live are refused.
"""

import shutil
import tempfile
import time
from pathlib import Path

from bridge.machine.files import link_whole, make_folder, sync_folder
from bridge.machine.private_files import make_private_folder
from bridge.spools.log import LOG
from manager.answers import OperationKind
from manager.backup.archive import DATABASE, BackupRefused, Manifest, take_out, verified
from manager.backup.database import check_empty, load
from manager.committer.rows import OPERATOR
from manager.store.database import DatabaseDown, Store, sqlite_url
from manager.store.tables import Leadership, OperationRow

_IDS_AHEAD = 1_000_000
"""More instances and jobs than a service makes between a backup and the loss of what it was made of."""
_UNFINISHED = "restoring"
"""In the root: what is not whole yet."""


def restore(path: Path, root: Path, url: str) -> Manifest:
    """Restore an archive; nothing is written before all of it was found sound."""
    manifest = verified(path)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise BackupRefused(f"{root} is not empty; name another root, or move away what is in it")
    made = not root.exists()
    with tempfile.TemporaryDirectory(prefix="braid-restore-") as folder:
        # Not in the root: whether this Braid can use the database shows only when it is open.
        taken = Path(folder)
        take_out(path, taken, only=DATABASE)
        _advance(taken / DATABASE, manifest)
        check_empty(url)
        try:
            _fill(path, root, taken / DATABASE, url)
        except BaseException:
            # Else it would be neither empty, so that it can be tried again, nor whole.
            _empty(root, itself=made)
            raise
    return manifest


def _advance(database: Path, manifest: Manifest) -> None:
    """Make the database one of a service that nothing of the old one can be taken for."""
    try:
        store = Store(sqlite_url(database))
    except DatabaseDown as error:
        raise BackupRefused(f"this Braid cannot restore what {manifest.braid} made: {error}") from error
    try:
        with store.write() as session:
            row = session.get_one(Leadership, 1)
            row.leader, row.until = "", 0.0
            # A clock that never goes back is higher than any number of take-overs, and than any restore before.
            row.term = max(row.term + 1, int(time.time()))
            row.next_instance += _IDS_AHEAD
            row.next_job += _IDS_AHEAD
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


def _fill(path: Path, root: Path, database: Path, url: str) -> None:
    make_private_folder(root)
    sync_folder(root.parent)
    unfinished = root / _UNFINISHED
    unfinished.mkdir(mode=0o700)
    take_out(path, unfinished, without=DATABASE)
    for spool in (unfinished / "spools").glob("*"):
        # By it whoever reads a spool sees that there is one.
        (spool / LOG).mkdir(exist_ok=True)
    for job in (unfinished / "jobs").glob("*"):
        runs = job / "runs"
        make_folder(runs)
        # The next start's number raises the epoch of all that the job sends.
        link_whole(runs / f"{int(time.time()):08d}", b"")
    for each in sorted(unfinished.iterdir()):
        each.rename(root / each.name)
    unfinished.rmdir()
    sync_folder(root)
    # Last: a root without a database is no service's yet.
    load(database, url)
    sync_folder(root)


def _empty(root: Path, *, itself: bool) -> None:
    if not root.is_dir():
        return
    for each in root.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    if itself:
        root.rmdir()
