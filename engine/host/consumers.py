"""The consumers of spools among the jobs of a host: jobs join spools, move on in them, and leave them.

A spool keeps what any consumer still needs. So a job joins a spool before it reads it. It leaves once no batch that
read the stream can be run again, and every cut that names the stream is released.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from bridge import FolderReader, commit, consumers, leave, position_since
from bridge.spools.log import LOG, log_files
from bridge.spools.spool import SpoolState
from engine.host.slow_readers import SlowReaders
from engine.host.spools import HostSpools
from engine.job.job import SparkJob
from engine.job.start import returning
from engine.plan import Ingress, Plan
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import JobFolder, spool_folder

log = logging.getLogger("braid.host")


class HostConsumers:
    """The jobs of a host as consumers of spools; called from the host's main thread."""

    def __init__(self, root: Path, spools: HostSpools) -> None:
        self._root = root
        self.spools = spools
        self._read: dict[str, frozenset[str]] = {}
        self._passed: dict[tuple[str, str], int] = {}
        self.slow = SlowReaders(self._full, self._positions)

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
        """Leave streams at once that no batch has read."""
        for stream in streams:
            leave(spool_folder(self._root, stream), job.name)
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
        for stream in self._read.get(job.name, frozenset()) - streams:
            leave(spool_folder(self._root, stream), job.name)
            self._passed.pop((job.name, stream), None)
            self.spools.drop(job.name, stream)
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

    def _positions(self, stream: str) -> dict[str, int]:
        return consumers(spool_folder(self._root, stream))

    def _end(self, job: SparkJob, stream: str) -> int:
        # A spool of another host was looked at by the job a moment ago, unless the job has just begun.
        for found in (self.spools.end(stream), job.spools.end(stream)):
            if found is not None:
                return found
        log = spool_folder(self._root, stream) / LOG
        return next((file.end for file in reversed(log_files(log))), 0) if log.is_dir() else 0

    def leave(self, folder: JobFolder, plans: Sequence[Plan]) -> None:
        """Remove a stopped job from the spools that it holds up; no host runs it."""
        for stream in {stream for plan in plans for stream in plan.streams} - cut_streams(folder):
            leave(spool_folder(self._root, stream), plans[-1].job)

    def _start(self, job: SparkJob, ingress: Ingress, back: int | None) -> int:
        stream, wanted = ingress.stream, back if ingress.start is None else ingress.start
        if job.plans.latest is not None and stream in job.plans.latest.starts:
            return job.plans.latest.starts[stream]
        folder = spool_folder(self._root, stream)
        reader = FolderReader(folder) if _exists(folder) else None
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
            return _hold(FolderReader(folder), job.name, position)
        # Its host may have died after it joined and before it noted what is gone; the job counts as stopped until then.
        return max(position, FolderReader(folder).first) if job.folder.is_stopped() else position


def _hold(reader: FolderReader, name: str, position: int) -> int:
    """Have a spool keep a consumer's events from a position on; the position, or the first that is left after it."""
    while True:
        reader.commit(name, position)
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
