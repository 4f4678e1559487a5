"""The results folder of a replay that is running: a JSON line for each step, and the tables at its end."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workloads.replay.machine import machine, versions
from workloads.results import ReplayManifest, StepRow, TenantCoresRow, UsersRow, WindowRow
from workloads.results_tables import MANIFEST_FILE, Results, WrongResults, read_manifest, write_manifest, write_results

STEP_LINES = "steps.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step."""

    step: StepRow
    users: tuple[UsersRow, ...] = ()
    windows: tuple[WindowRow, ...] = ()
    tenants: tuple[TenantCoresRow, ...] = ()
    between: tuple[float, float] | None = None
    """The start and end of the measurement, by the clock of `time.time`."""


class ResultsFolder:
    """The results folder of one replay; it resumes an interrupted one of the same replay."""

    def __init__(self, folder: Path, manifest: ReplayManifest) -> None:
        self.folder = folder
        self._path = folder / STEP_LINES
        before = _before(folder)
        if before is not None and not _same(before, manifest):
            raise WrongResults(f"{folder}: holds the results of another replay; choose another folder, or remove it")
        folder.mkdir(parents=True, exist_ok=True)
        # A replay that was killed while it wrote the tables still has its steps.
        self.complete = before is not None and before.complete and not self._path.exists()
        self.manifest = before or manifest
        self.found: list[StepResult] = [] if before is None else _read(self._path)
        if before is None:
            self._path.unlink(missing_ok=True)
            write_manifest(manifest, folder)

    def keep(self, found: StepResult) -> None:
        """Write a step durably."""
        self.found.append(found)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(found), ensure_ascii=False)}\n")
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, steps: int) -> None:
        """Keep only so many steps: those that the replays beside it have done too."""
        if steps < len(self.found):
            self.found = self.found[:steps]
            lines = "".join(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in self.found)
            self._path.write_text(lines, encoding="utf-8")

    def finish(self) -> None:
        """Write the tables and mark the replay as complete."""
        self.manifest = replace(self.manifest, complete=True, ended=now())
        write_results(
            Results(
                manifest=self.manifest,
                steps=tuple(each.step for each in self.found),
                users=tuple(row for each in self.found for row in each.users),
                windows=tuple(row for each in self.found for row in each.windows),
                tenants=tuple(row for each in self.found for row in each.tenants),
            ),
            self.folder,
        )
        self._path.unlink(missing_ok=True)
        self.complete = True


def manifest_of(  # noqa: PLR0913 - a manifest has these fields
    *,
    mode: str,
    placement: str,
    defragment: str,
    dry: bool,
    trace: Mapping[str, Any],
    workload: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> ReplayManifest:
    """The manifest of a replay that begins now on this machine."""
    return ReplayManifest(
        mode=mode,
        placement=placement,
        defragment=defragment,
        dry=dry,
        complete=False,
        trace=trace,
        workload=workload,
        settings=settings,
        versions=versions(),
        machine=machine(),
        begun=now(),
        ended=None,
    )


def now() -> str:
    """This moment, in the format of manifests."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _before(folder: Path) -> ReplayManifest | None:
    return read_manifest(folder) if (folder / MANIFEST_FILE).exists() else None


def _same(one: ReplayManifest, other: ReplayManifest) -> bool:
    """True if two manifests are of the same replay on the same machine, begun at any time."""
    return bool(_identity(one) == _identity(other))


def _identity(manifest: ReplayManifest) -> Any:
    content = asdict(manifest)
    for name in ("complete", "begun", "ended"):
        del content[name]
    return json.loads(json.dumps(content))


def _read(path: Path) -> list[StepResult]:
    """Read the complete lines; cut off one that was being written when the replay was killed."""
    found: list[StepResult] = []
    whole = 0
    lines: Sequence[bytes] = path.read_bytes().splitlines(keepends=True) if path.exists() else ()
    for line in lines:
        try:
            content = json.loads(line)
        except ValueError:
            break
        whole += len(line)
        found.append(
            StepResult(
                step=StepRow(**content["step"]),
                users=tuple(UsersRow(**each) for each in content["users"]),
                windows=tuple(WindowRow(**each) for each in content["windows"]),
                tenants=tuple(TenantCoresRow(**each) for each in content["tenants"]),
                between=tuple(content["between"]) if content["between"] else None,
            )
        )
    if lines:
        os.truncate(path, whole)
    return found
