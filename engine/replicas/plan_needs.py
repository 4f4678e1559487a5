"""What a job needs besides its own folder: the spools that its logged plans read, and jobs whose states they import."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from engine.plan_messages import read_entry
from engine.records.job_folder import spool_folder
from engine.replicas.root_folders import FileVersion, RootFolders


class PlanNeeds(NamedTuple):
    """The folders that a job needs besides its own."""

    spools: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()


class NeedsReader:
    """Reads each plan once; used by one thread."""

    def __init__(self, root: Path, folders: RootFolders) -> None:
        self._root = root
        self._folders = folders
        self._read: dict[str, dict[str, tuple[FileVersion, PlanNeeds]]] = {}

    def of(self, job: str) -> PlanNeeds | None:
        """The needs of the job in a folder; None if a plan cannot be read."""
        files = self._folders.seen(f"{job}/plans").files
        before = self._read.get(job, {})
        now: dict[str, tuple[FileVersion, PlanNeeds]] = {}
        for name, version in files.items():
            if (read := before.get(name)) is not None and read[0] == version:
                now[name] = read
                continue
            try:
                plan = read_entry((self._root / job / "plans" / name).read_bytes()).plan
            except FileNotFoundError:
                continue
            except ValueError:
                return None
            now[name] = (
                version,
                PlanNeeds(
                    frozenset(f"spools/{spool_folder(Path(), stream).name}" for stream in plan.streams),
                    frozenset(f"jobs/{quote(each.job, safe='')}" for each in plan.imports) - {job},
                ),
            )
        self._read[job] = now
        needs = [each for _, each in now.values()]
        return PlanNeeds(
            frozenset().union(*(each.spools for each in needs)), frozenset().union(*(each.jobs for each in needs))
        )
