"""Which job of a host reads which spool, and from where: jobs join spools, move on in them, and leave.

A spool keeps what any consumer still needs. So a job joins before it reads, and stays until no batch can be run again
that read the stream, and until every cut that names it is released.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from bridge import FolderReader, commit, consumers, leave, position_since
from bridge.spools.log import LOG, log_files
from engine.host.spools import HostSpools
from engine.job.job import SparkJob
from engine.job.pace import ReadableSpool
from engine.job.start import returning
from engine.plan import Ingress, Plan
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import JobFolder, spool_folder

log = logging.getLogger("braid.host")


class HostConsumers:
    """The consumers among a host's jobs; called from its main thread."""

    def __init__(self, root: Path, spools: HostSpools) -> None:
        self._root = root
        self._spools = spools
        self._read: dict[str, frozenset[str]] = {}
        self._passed: dict[tuple[str, str], int] = {}

    def owned(self, stream: str) -> ReadableSpool | None:
        """The spool of a stream, where this host fills it; from any thread."""
        return self._spools.owned(stream)

    def rejoin(self, job: SparkJob) -> None:
        """Have all that a job reads supplied again, before it runs; pass over what went while it was stopped."""
        # It may not have left what it read once when its host died.
        self._read[job.name] = frozenset(stream for entry in job.entries for stream in entry.plan.streams)
        gone, at = job.folder.gone(), job.position()
        for entry in job.in_effect():
            for ingress in entry.plan.ingress:
                stream = ingress.stream
                position = max(at.get(stream, 0), entry.starts[stream], gone.get(stream, 0))
                there = self._joined(job, stream, position)
                if there > position:
                    gone[stream] = there
                    # Durable before it runs: the batch that it was stopped in may have been planned over some of this.
                    job.folder.save_gone(gone)
                    told = "job %s reads %s on at %d: %d positions before that went while it was stopped"
                    log.warning(told, job.name, stream, there, there - position)
                self._spools.need(entry.plan, ingress)

    def join(self, job: SparkJob, plan: Plan) -> dict[str, int]:
        """Have the streams of a new plan supplied; where the job begins in each that it does not read yet."""
        # Joined first, so that what comes as soon as a stream is supplied is not taken for what was there before.
        left = returning(job.folder.cuts.all(), plan).values()
        back = {stream: position for cut in left for stream, position in cut.positions.items()}
        starts = {ingress.stream: self._start(job, ingress, back.get(ingress.stream)) for ingress in plan.ingress}
        # At once: the job may have stopped again by the next time that its streams are looked at.
        self._read[job.name] = self._read.get(job.name, frozenset()) | plan.streams
        for ingress in plan.ingress:
            self._spools.need(plan, ingress)
        return starts

    def unjoin(self, job: SparkJob, streams: frozenset[str]) -> None:
        """Leave streams at once, because no batch has read them."""
        for stream in streams:
            leave(spool_folder(self._root, stream), job.name)
            self._spools.drop(job.name, stream)

    def tidy(self, job: SparkJob) -> None:
        """Let go what a job needs no more."""
        # What was cut goes on being supplied until somebody has taken it over and released the cut.
        streams = job.streams() | cut_streams(job.folder)
        if job.follower is not None:
            for stream, position in job.follower.passed().items():
                if stream in streams and self._passed.get((job.name, stream)) != position:
                    commit(spool_folder(self._root, stream), job.name, position)
                    self._passed[job.name, stream] = position
        for stream in self._read.get(job.name, frozenset()) - streams:
            leave(spool_folder(self._root, stream), job.name)
            self._passed.pop((job.name, stream), None)
            self._spools.drop(job.name, stream)
        self._read[job.name] = streams

    def forget(self, job: SparkJob) -> None:
        """Know nothing of a job any more that is over, and has let go all that it read."""
        self._read.pop(job.name, None)

    def ends(self, job: SparkJob) -> dict[str, int]:
        """Where the spools end that a job reads by its latest plan; one that is stopped reads none."""
        return {stream: self._end(job, stream) for stream in job.plan.streams & job.streams()} if job.plan else {}

    def _end(self, job: SparkJob, stream: str) -> int:
        # What another host appends to has been looked at by the job a moment ago, unless it has just begun.
        for found in (self._spools.end(stream), job.seen_end(stream)):
            if found is not None:
                return found
        log = spool_folder(self._root, stream) / LOG
        return next((file.end for file in reversed(log_files(log))), 0) if log.is_dir() else 0

    def leave(self, folder: JobFolder, plans: Sequence[Plan]) -> None:
        """Let a job that is stopped, and that no host runs, hold up no spool."""
        for stream in {stream for plan in plans for stream in plan.streams} - cut_streams(folder):
            leave(spool_folder(self._root, stream), plans[-1].job)

    def _start(self, job: SparkJob, ingress: Ingress, back: int | None) -> int:
        stream, wanted = ingress.stream, back if ingress.start is None else ingress.start
        for entry in job.entries[-1:]:
            if stream in entry.starts:
                return entry.starts[stream]
        folder = spool_folder(self._root, stream)
        reader = FolderReader(folder) if _exists(folder) else None
        if reader is not None and wanted is None and ingress.since is not None:
            # Joined first, so that nothing goes while it is looked for.
            return position_since(folder, _held(reader, job.name, reader.first), round(ingress.since * 1000))
        first, end = (reader.first, reader.end) if reader else (0, 0)
        position = end if wanted is None else wanted
        if not first <= position <= end:
            raise RefusedPlan(
                f"job {job.name!r} is to read {stream!r} from {position}, and its spool has {first} to {end}"
            )
        # It may have read the stream until a moment ago, and may need some of that still.
        commit(folder, job.name, min(position, consumers(folder).get(job.name, position)))
        return position

    def _joined(self, job: SparkJob, stream: str, position: int) -> int:
        """Make a job a consumer again, should it have left; the position, or the first that is there after it."""
        folder = spool_folder(self._root, stream)
        if not _exists(folder):
            return position
        if job.name not in consumers(folder):
            return _held(FolderReader(folder), job.name, position)
        # Its host may have died when it had joined and not said yet what is gone; until that is done it is stopped.
        return max(position, FolderReader(folder).first) if job.folder.is_stopped() else position


def _held(reader: FolderReader, name: str, position: int) -> int:
    """Have a spool keep what a consumer needs from a position on; the position, or the first that is there after it."""
    while True:
        reader.commit(name, position)
        # Whoever owns the spool may have removed some until just now.
        reader.refresh()
        if reader.first <= position:
            return position
        position = reader.first


def _exists(folder: Path) -> bool:
    """Whether anybody ever owned a spool."""
    return (folder / LOG).is_dir()


def cut_streams(folder: JobFolder) -> frozenset[str]:
    """The streams of which a job keeps cuts."""
    return frozenset(stream for cut in folder.cuts.all() for stream in cut.positions)
