"""The cleanup after jobs that were stopped long ago.

A job that was stopped may be started again, and then continues where it was. So its folder stays for a while, and so do
the events that it had not read yet. Without a cleanup, the disk would fill up with what removed dataflows leave behind.
"""

import logging
import shutil
from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

from bridge import Lease, LeaseTaken, Spool, unread_since
from bridge.files import make_folder, sync_folder
from bridge.spools.log import LOG
from engine.log_lines import about
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder

KEEPING = 86_400.0
"""Seconds that the folder of a job stays after it was stopped, and a spool's events after its last reader left."""
_MOST = 100
"""The most jobs, and the most spools, that are swept at once, because the next beat waits for it."""
log = logging.getLogger("braid.host")


def sweep(root: Path, host: str, *, stay: Collection[str], now: float) -> None:
    """Remove what nobody needs, up to a limit; a failure to remove something is logged, and hurts nothing else.

    A job stays if `stay` names it, if any host runs it, or if its states are kept for a cut. Only the events of a spool
    are removed: if it is read again its positions continue, so that none ever names two events.
    """
    swept = root / "hosts" / quote(host, safe="") / "swept"
    # Left by a host that died while it removed them.
    _remove(swept)
    folders = map(JobFolder, sorted((root / "jobs").glob("*")))
    old = (folder for folder in folders if unquote(folder.path.name) not in stay and _is_old(folder, now))
    for folder in islice(old, _MOST):
        with about(job=unquote(folder.path.name)):
            _each(folder.path, partial(_take_away, folder, swept, now))
    spools = (path for path in sorted((root / "spools").glob("*/")) if _is_unread(path, now) and _has_events(path))
    for path in islice(spools, _MOST):
        _each(path, partial(_empty, path))
    _remove(swept)


def _each(path: Path, act: Callable[[], None]) -> None:
    try:
        act()
    except LeaseTaken:
        # It is in use again.
        return
    except DAMAGE as error:
        log.warning("%s is left over and stays there for now: %s", path, error)


def _is_old(folder: JobFolder, now: float) -> bool:
    stopped = folder.stopped_at()
    return stopped is not None and stopped < now - KEEPING and folder.cuts.is_empty()


def _is_unread(spool: Path, now: float) -> bool:
    since = unread_since(spool)
    return since is not None and since < now - KEEPING


def _has_events(spool: Path) -> bool:
    return any((spool / LOG).glob("0*"))


def _take_away(folder: JobFolder, swept: Path, now: float) -> None:
    """Move a folder away in one step, so that nobody ever finds half of a job."""
    with Lease(folder.path):
        # It may have been started and stopped again since the check.
        if _is_old(folder, now):
            make_folder(swept)
            folder.path.rename(swept / folder.path.name)
            sync_folder(folder.path.parent)
            log.info("%s is removed: the job was stopped long ago", folder.path)


def _empty(spool: Path) -> None:
    owned = Spool(spool, most_bytes=1)
    try:
        owned.prune()
    finally:
        owned.close()


def _remove(swept: Path) -> None:
    if swept.exists():
        shutil.rmtree(swept)
