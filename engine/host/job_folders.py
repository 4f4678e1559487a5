"""The folders of a host's jobs, whether they run or not."""

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from engine.host.consumers import cut_streams
from engine.log_lines import about
from engine.plan import Plan
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder

log = logging.getLogger("braid.host")


class HostFolders:
    """The job folders below a root, of which some belong to jobs of this host."""

    def __init__(self, root: Path, host: str) -> None:
        self._root = root
        self._host = host

    def all(self) -> list[JobFolder]:
        """The folders of all hosts' jobs."""
        return [JobFolder(path) for path in sorted((self._root / "jobs").glob("*"))]

    def of_host(self) -> Iterator[tuple[JobFolder, list[Plan]]]:
        """The folders of this host's jobs, with their plans; a damaged one is logged and passed over."""
        for folder in self.all():
            plans: list[Plan] = []
            try:
                plans = self.plans(folder)
            except DAMAGE as error:
                log_damage(job_name(folder), error)
            if plans:
                yield folder, plans

    def plans(self, folder: JobFolder) -> list[Plan]:
        """The plans of a job of this host; none if it is another's."""
        plans = [entry.plan for entry in folder.entries(1)]
        return plans if plans and plans[-1].host == self._host else []

    def needed_streams(self) -> frozenset[str] | None:
        """The streams that jobs of any host may still read; None if some folder is damaged."""
        try:
            return frozenset(stream for folder in self.all() for stream in _needed_streams(folder))
        except DAMAGE as error:
            log.warning("what the broker keeps for streams that nobody reads stays there: %s", error)
            return None


def job_name(folder: JobFolder) -> str:
    """The name of the job that a folder belongs to."""
    return unquote(folder.path.name)


def log_damage(job: str, error: Exception) -> None:
    """Log that files of a job are damaged, without a traceback: the error says where, and what to do."""
    with about(job=job):
        log.error("job %s: %s", job, error)


def _needed_streams(folder: JobFolder) -> frozenset[str]:
    plans = () if folder.is_stopped() else [entry.plan for entry in folder.entries(1)]
    return frozenset(stream for plan in plans for stream in plan.streams) | cut_streams(folder)
