"""The jobs of a host as consumers of spools: they join, move on and leave, and what they leave behind is removed.

A spool keeps what any consumer still needs. So a job joins a spool before it reads it. It leaves once no batch that
read the stream can be run again, and every cut that names the stream is released.

**Slow readers.** A spool that is full takes nothing more, so a job that cannot keep up would in the end keep the events
from every other reader. If it is the only one that is so far behind, the costliest of the tasks that the stream reaches
is stopped, and the job works off the rest untried.

**The sweep.** A job that was stopped may be started again, and then continues where it was. So its folder stays for a
while, and so do the events that it had not read yet. Then both are removed: else the disk would fill up with what
removed dataflows leave behind.
"""

import logging
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

from bridge import Lease, LeaseTaken, Spool, SpoolIndex, commit, consumers, leave, position_since, unread_since
from bridge.files import make_folder, sync_folder
from bridge.spools.log import LOG, log_files
from bridge.spools.spool import SpoolState
from engine.host.spools import HostSpools
from engine.job.health import JobHealth
from engine.job.plan_log import returning
from engine.job.query import SparkJob
from engine.log_lines import about
from engine.plan import Ingress, Plan
from engine.plan_messages import RefusedPlan
from engine.records.files import DAMAGE
from engine.records.job_folder import JobFolder, spool_folder

HELD_UP = 60.0
"""Seconds after which a reader that holds up a spool is stopped."""
_FARTHER = 2
"""How much farther behind such a reader is than any other."""


def holding_up(end: int, positions: Mapping[str, int]) -> str | None:
    """The one reader that holds up a full spool, by the positions that all have come to; None if there is none.

    >>> holding_up(100, {"slow": 10, "quick": 95}), holding_up(100, {"slow": 10, "slow too": 20})
    ('slow', None)
    """
    behind = sorted((end - position, name) for name, position in positions.items())
    if len(behind) <= 1 or behind[-1][0] <= _FARTHER * behind[-2][0]:
        return None
    return behind[-1][1]


class SlowReaders:
    """The slow readers of the streams of one host, which looks for them at its beats."""

    def __init__(self, full: Callable[[], Mapping[str, int]], positions: Callable[[str], Mapping[str, int]]) -> None:
        """`full` gives the end of each full spool, `positions` those of the consumers of a stream."""
        self._full = full
        self._positions = positions
        self._since: dict[tuple[str, str], float] = {}

    def stop(self, jobs: Mapping[str, JobHealth], now: float) -> None:
        """Have those of a host's jobs that have held up a stream for long enough fail their costliest tasks."""
        ends = self._full().items()
        holding = {(job, stream) for stream, end in ends if (job := holding_up(end, self._positions(stream)))}
        self._since = {held_up: self._since.get(held_up, now) for held_up in holding}
        for job, stream in sorted(held_up for held_up, since in self._since.items() if now - since >= HELD_UP):
            # It counts anew from now on.
            del self._since[job, stream]
            if job in jobs:
                jobs[job].stop_costliest(stream, now)


log = logging.getLogger("braid.host")


class HostConsumers:
    """The jobs of a host as consumers of spools; called from the host's main thread."""

    def __init__(self, root: Path, spools: HostSpools) -> None:
        self._root = root
        self.spools = spools
        self._read: dict[str, frozenset[str]] = {}
        self._passed: dict[tuple[str, str], int] = {}
        self.slow = SlowReaders(self._full, lambda stream: consumers(spool_folder(root, stream)))

    def rejoin(self, job: SparkJob) -> None:
        """Have all streams of a job supplied before it runs again; pass over events that were removed meanwhile."""
        # Streams that it reads no longer are among them: its host may have died before it left them.
        self._read[job.name] = frozenset(stream for entry in job.plans.entries for stream in entry.plan.streams)
        gone, at = job.folder.gone(), job.plans.positions()
        for entry in job.plans.in_effect():
            for ingress in entry.plan.ingress:
                stream = ingress.stream
                position = max(at.get(stream, 0), entry.starts[stream], gone.get(stream, 0))
                first = self._join_again(job, stream, position)
                if first > position:
                    gone[stream] = first
                    # On disk before it runs: the batch that it was stopped in may have been planned to read them.
                    job.folder.save_gone(gone)
                    warning = "job %s reads %s on at %d: %d positions before that went while it was stopped"
                    log.warning(warning, job.name, stream, first, first - position)
                self.spools.need(entry.plan, ingress)

    def join(self, job: SparkJob, plan: Plan) -> dict[str, int]:
        """Have the streams of a new plan supplied; the position that the job begins at in each new stream."""
        # Joined first, so that the first events of a stream that is supplied from now on are not missed.
        left = returning(job.folder.cuts.all(), plan).values()
        back = {stream: position for cut in left for stream, position in cut.positions.items()}
        starts = {ingress.stream: self._start(job, ingress, back.get(ingress.stream)) for ingress in plan.ingress}
        # At once: the job may be stopped again before `tidy` is called.
        self._read[job.name] = self._read.get(job.name, frozenset()) | plan.streams
        for ingress in plan.ingress:
            self.spools.need(plan, ingress)
        return starts

    def unjoin(self, job: SparkJob, streams: frozenset[str]) -> None:
        """Leave streams at once that no batch reads."""
        for stream in streams:
            leave(spool_folder(self._root, stream), job.name)
            self._passed.pop((job.name, stream), None)
            self.spools.drop(job.name, stream)

    def tidy(self, job: SparkJob) -> None:
        """Commit the positions of a job, and leave the streams that it needs no longer."""
        # A stream that was cut is supplied until another job has taken it over and the cut is released.
        streams = job.streams() | cut_streams(job.folder)
        if job.follower is not None:
            for stream, position in job.follower.needed_from().items():
                if stream in streams and self._passed.get((job.name, stream)) != position:
                    commit(spool_folder(self._root, stream), job.name, position)
                    self._passed[job.name, stream] = position
        self.unjoin(job, self._read.get(job.name, frozenset()) - streams)
        self._read[job.name] = streams

    def forget(self, job: SparkJob) -> None:
        """Forget a job that is over and has left all its streams."""
        self._read.pop(job.name, None)

    def ends(self, job: SparkJob) -> dict[str, int]:
        """The ends of the spools that a job reads by its latest plan; a stopped job reads none."""
        plan = job.plans.plan
        return {stream: self._end(job, stream) for stream in plan.streams & job.streams()} if plan else {}

    def _full(self) -> dict[str, int]:
        """The position after the last item of each full spool of the host."""
        full = [stream for stream, state in self.spools.states().items() if state == SpoolState.FULL]
        return {stream: end for stream in full if (end := self.spools.end(stream)) is not None}

    def _end(self, job: SparkJob, stream: str) -> int:
        # A spool of another host was looked at by the job a moment ago, unless the job has just begun.
        for end in (self.spools.end(stream), job.spools.end(stream)):
            if end is not None:
                return end
        folder = spool_folder(self._root, stream)
        return next((file.end for file in reversed(log_files(folder / LOG))), 0) if _exists(folder) else 0

    def leave(self, folder: JobFolder, plans: Sequence[Plan]) -> None:
        """Remove a stopped job from the spools that it holds up; no host runs it."""
        for stream in {stream for plan in plans for stream in plan.streams} - cut_streams(folder):
            leave(spool_folder(self._root, stream), plans[-1].job)

    def _start(self, job: SparkJob, ingress: Ingress, back: int | None) -> int:
        stream, wanted = ingress.stream, back if ingress.start is None else ingress.start
        if job.plans.latest is not None and stream in job.plans.latest.starts:
            return job.plans.latest.starts[stream]
        folder = spool_folder(self._root, stream)
        reader = SpoolIndex(folder) if _exists(folder) else None
        if reader is not None and wanted is None and ingress.since is not None:
            # Joined first, so that nothing is removed during the search.
            return position_since(folder, _hold(reader, job.name, reader.first), round(ingress.since * 1000))
        first, end = (reader.first, reader.end) if reader else (0, 0)
        position = end if wanted is None else wanted
        if not first <= position <= end:
            raise RefusedPlan(
                f"job {job.name!r} is to read {stream!r} from {position}, and its spool has {first} to {end}"
            )
        # It may have read the stream until a moment ago, and may still need some of its events.
        commit(folder, job.name, min(position, consumers(folder).get(job.name, position)))
        return position

    def _join_again(self, job: SparkJob, stream: str, position: int) -> int:
        """Make a job a consumer again if it has left; the position, or the first one that is left after it."""
        folder = spool_folder(self._root, stream)
        if not _exists(folder):
            return position
        if job.name not in consumers(folder):
            return _hold(SpoolIndex(folder), job.name, position)
        # Its host may have died after it joined and before it noted what is gone; the job counts as stopped until then.
        return max(position, SpoolIndex(folder).first) if job.folder.is_stopped() else position


def _hold(reader: SpoolIndex, name: str, position: int) -> int:
    """Have a spool keep a consumer's events from a position on; the position, or the first that is left after it."""
    while True:
        commit(reader.folder, name, position)
        # The owner of the spool may have removed some in the meantime.
        reader.refresh()
        if reader.first <= position:
            return position
        position = reader.first


def _exists(folder: Path) -> bool:
    """Whether a spool was ever filled."""
    return (folder / LOG).is_dir()


def cut_streams(folder: JobFolder) -> frozenset[str]:
    """The streams of which a job keeps cuts."""
    return frozenset(stream for cut in folder.cuts.all() for stream in cut.positions)


KEEPING = 86_400.0
"""Seconds that the folder of a job stays after it was stopped, and a spool's events after its last reader left."""
_MOST = 100
"""The most jobs, and the most spools, that are swept at once, because the next beat waits for it."""


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
            _attempt(folder.path, partial(_take_away, folder, swept, now))
    unread = (path for path in sorted((root / "spools").glob("*/")) if (unread_since(path) or now) < now - KEEPING)
    spools = (path for path in unread if any((path / LOG).glob("0*")))
    for path in islice(spools, _MOST):
        _attempt(path, partial(_empty, path))
    _remove(swept)


def _attempt(path: Path, act: Callable[[], None]) -> None:
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
    with closing(Spool(spool, most_bytes=1)) as owned:
        owned.prune()


def _remove(swept: Path) -> None:
    if swept.exists():
        shutil.rmtree(swept)
