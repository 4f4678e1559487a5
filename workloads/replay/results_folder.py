"""Keeping what a replay finds out: a JSON line for each step while it goes on, the tables once it is at its end."""

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
    """What was found out of one step."""

    step: StepRow
    users: tuple[UsersRow, ...] = ()
    windows: tuple[WindowRow, ...] = ()
    tenants: tuple[TenantCoresRow, ...] = ()
    between: tuple[float, float] | None = None
    """From when until when was measured, by the clock of `time.time`."""


class ResultsFolder:
    """The results folder of one replay; takes up one that was interrupted where it is of the same replay."""

    def __init__(self, folder: Path, manifest: ReplayManifest) -> None:
        self.folder = folder
        self._path = folder / STEP_LINES
        before = _before(folder)
        if before is not None and not _same(before, manifest):
            raise WrongResults(f"{folder}: holds the results of another replay; name another folder, or remove it")
        folder.mkdir(parents=True, exist_ok=True)
        # Where it was killed as it wrote the tables, the steps are there still.
        self.complete = before is not None and before.complete and not self._path.exists()
        self.manifest = before or manifest
        self.found: list[StepResult] = [] if before is None else _read(self._path)
        if before is None:
            self._path.unlink(missing_ok=True)
            write_manifest(manifest, folder)

    def keep(self, found: StepResult) -> None:
        """Keep a step; it is not lost any more, however the replay ends."""
        self.found.append(found)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asdict(found), ensure_ascii=False)}\n")
            file.flush()
            os.fsync(file.fileno())

    def cut(self, steps: int) -> None:
        """Forget what was found of steps from this one on: those that another replay beside it has yet to do."""
        if steps < len(self.found):
            self.found = self.found[:steps]
            lines = "".join(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in self.found)
            self._path.write_text(lines, encoding="utf-8")

    def end(self) -> None:
        """Write the tables; the replay is at its end."""
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


def manifest_of(  # noqa: PLR0913 - what a replay is
    *,
    mode: str,
    placement: str,
    defragment: str,
    dry: bool,
    trace: Mapping[str, Any],
    workload: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> ReplayManifest:
    """The manifest of a replay that begins now, on this machine."""
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
    """This moment, as manifests have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _before(folder: Path) -> ReplayManifest | None:
    return read_manifest(folder) if (folder / MANIFEST_FILE).exists() else None


def _same(one: ReplayManifest, other: ReplayManifest) -> bool:
    """Whether two manifests are of the same replay, whenever it was begun; but not on whatever machine."""
    return bool(_identity(one) == _identity(other))


def _identity(manifest: ReplayManifest) -> Any:
    told = asdict(manifest)
    for name in ("complete", "begun", "ended"):
        del told[name]
    return json.loads(json.dumps(told))


def _read(path: Path) -> list[StepResult]:
    """The steps that are whole; a line that was being written when the replay was killed is passed over."""
    found: list[StepResult] = []
    whole = 0
    lines: Sequence[bytes] = path.read_bytes().splitlines(keepends=True) if path.exists() else ()
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            break
        whole += len(line)
        found.append(
            StepResult(
                step=StepRow(**told["step"]),
                users=tuple(UsersRow(**each) for each in told["users"]),
                windows=tuple(WindowRow(**each) for each in told["windows"]),
                tenants=tuple(TenantCoresRow(**each) for each in told["tenants"]),
                between=tuple(told["between"]) if told["between"] else None,
            )
        )
    if lines:
        os.truncate(path, whole)
    return found
