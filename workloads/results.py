"""The results of a replay: one folder with a manifest and a few tables, written by replays and read by reports.

    manifest.json     the trace, the settings and the machine; `complete` once every step is in the tables
    steps.parquet     a row for each step
    windows.parquet   a row for each window of a measured step; none of a dry run
    users.parquet     for each step the number of running tasks that serve so many dataflows
    tenants.parquet   for each measured step each tenant's share of the cores; none of a dry run

During a replay each step is a JSON line in `steps.jsonl`, from which an interrupted replay resumes. The tables are
written from it at the end.
"""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import psutil
import pyarrow as pa
from pyarrow import parquet

from workloads.traces import Trace, Way, trace_json
from workloads.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """The state after a step; counts are exact in dry and live runs alike."""

    step: int
    action: str
    dataflow: str
    phase: str
    dataflows: int
    """Submitted dataflows."""
    submitted_tasks: int
    """The tasks of all dataflows, each by itself without its duplicates: what runs where nothing is shared."""
    submitted_sources: int
    """The sources among them."""
    submitted_outputs: int
    """The outputs among them; the rest are steps."""
    running_tasks: int
    running_sources: int
    running_outputs: int
    work_alone: float
    """The work of all dataflows, each by itself: the events that its tasks take in a second, times their costs.

    It follows from the rates of the sources and the costs in the manifest's settings, and is the same in every way.
    """
    work_running: float
    """The work of the running tasks."""
    paused_tasks: int
    jobs: int
    bridges: int
    measured: bool
    """True if there are windows of this step."""
    seconds: float
    """Seconds until the dataflow ran or was gone; 0 in a dry run."""

    @property
    def running_steps(self) -> int:
        """The running tasks that are neither sources nor outputs."""
        return self.running_tasks - self.running_sources - self.running_outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRow:
    """A measurement over a time in which nothing changed; cores are means over the window."""

    step: int
    window: int
    seconds: float
    cores: float
    """The cores of the whole process tree with the broker, without the manager."""
    cores_broker: float
    cores_driver: float
    cores_jvm: float
    cores_workers: float
    cores_manager: float
    latency_p50: float | None
    """Seconds from a raw event's arrival to the outputs it causes, over all outputs; None if there were no events."""
    latency_p99: float | None
    lag_events: int
    events_out: float
    """Events of all outputs per second."""
    alone_launched: float | None
    """The service's estimate of the cores that the same dataflows need without sharing, each in a job of its own."""
    alone_packed: float | None
    """The same, packed into as few jobs as possible."""
    behind: str
    """Why the window is discarded: how the service was behind; empty if the window is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersRow:
    """The number of running tasks that serve so many dataflows after a step."""

    step: int
    users: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCoresRow:
    """A tenant's share at a measured step; the operator's overhead has no tenant."""

    step: int
    tenant: str | None
    cores: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayManifest:
    """The replay that the results belong to; `trace` and `workload` are their own descriptions."""

    mode: str
    """`default` (nothing is shared) or `reuse`."""
    placement: str
    defragment: str
    """`off`, `itself` (the service decides) or `step` (requested after each step)."""
    dry: bool
    complete: bool
    trace: Mapping[str, Any]
    workload: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    begun: str
    ended: str | None


_VERSION = 1
"""The version of the manifest's format."""
MANIFEST_FILE = "manifest.json"
_TABLES: Mapping[str, type[Any]] = {
    "steps": StepRow,
    "windows": WindowRow,
    "users": UsersRow,
    "tenants": TenantCoresRow,
}
"""The kind of row of each table, by the name of its file without the suffix."""
_KINDS: Mapping[type, Any] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
}
_AGAIN = "replay the trace again with `braid replay`"


class WrongResults(ValueError):
    """A folder without usable results; the message names the file, the problem and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """All results of a replay; the rows of each table are in the order of the steps."""

    manifest: ReplayManifest
    steps: tuple[StepRow, ...]
    windows: tuple[WindowRow, ...] = ()
    users: tuple[UsersRow, ...] = ()
    tenants: tuple[TenantCoresRow, ...] = ()


def write_results(results: Results, folder: Path) -> None:
    """Write results to a folder, which is made if needed; the manifest is last, when the tables are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in _TABLES.items():
        schema, rows = _schema(kind), getattr(results, name)
        columns = {column: [getattr(row, column) for row in rows] for column in schema.names}
        parquet.write_table(pa.table(columns, schema=schema), folder / f"{name}.parquet")
    write_manifest(results.manifest, folder)


def write_manifest(manifest: ReplayManifest, folder: Path) -> None:
    """Replace the manifest of a results folder atomically."""
    text = json.dumps({"version": _VERSION} | asdict(manifest), indent=2, ensure_ascii=False, allow_nan=False)
    new = folder / f"{MANIFEST_FILE}.new"
    new.write_text(f"{text}\n", encoding="utf-8")
    new.replace(folder / MANIFEST_FILE)


def read_results(folder: Path) -> Results:
    """Read the results of a complete replay."""
    manifest = read_manifest(folder)
    if not manifest.complete:
        raise WrongResults(
            f"{folder / MANIFEST_FILE}: the replay is not complete; resume it with the command that started it"
        )
    tables = {name: tuple(_read_rows(kind, folder / f"{name}.parquet")) for name, kind in _TABLES.items()}
    return Results(manifest=manifest, **tables)


def read_manifest(folder: Path) -> ReplayManifest:
    """Read the manifest of a folder, even if its replay is not complete."""
    path = folder / MANIFEST_FILE
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongResults(f"{path}: {error.strerror}; name a folder that `braid replay` has written") from None
    except ValueError as error:
        raise WrongResults(f"{path}: is not JSON: {error}; {_AGAIN}") from None
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        version = content.get("version") if isinstance(content, dict) else None
        raise WrongResults(f"{path}: has version {version}, but this program reads version {_VERSION}; {_AGAIN}")
    given: dict[str, Any] = {}
    for name, kind in get_type_hints(ReplayManifest).items():
        if name not in content:
            raise WrongResults(f"{path}: {name!r} is missing; {_AGAIN}")
        if not isinstance(content[name], dict if get_origin(kind) is Mapping else kind):
            raise WrongResults(f"{path}: {name!r} has the wrong type: {content[name]!r}; {_AGAIN}")
        given[name] = content[name]
    return ReplayManifest(**given)


def _schema(kind: type[Any]) -> Any:
    """The columns of a table, one for each field of its rows."""
    columns = []
    for name, hint in get_type_hints(kind).items():
        # An optional value is a union with None as its last part.
        kinds = get_args(hint) or (hint,)
        columns.append(pa.field(name, _KINDS[kinds[0]], nullable=len(kinds) > 1))
    return pa.schema(columns)


def _read_rows(kind: type[Any], path: Path) -> Iterator[Any]:
    try:
        with path.open("rb") as file:
            rows = parquet.read_table(file)
    except OSError as error:
        raise WrongResults(f"{path}: cannot be read: {error.strerror or error}; {_AGAIN}") from None
    except pa.ArrowInvalid as error:
        raise WrongResults(f"{path}: is not Parquet: {error}; {_AGAIN}") from None
    wanted = _schema(kind)
    for column in wanted:
        if column.name not in rows.schema.names:
            raise WrongResults(f"{path}: the column {column.name!r} is missing; {_AGAIN}")
        there = rows.schema.field(column.name)
        if there.type != column.type:
            raise WrongResults(f"{path}: the column {column.name!r} holds {there.type}, not {column.type}; {_AGAIN}")
        if not column.nullable and rows.column(column.name).null_count:
            raise WrongResults(f"{path}: the column {column.name!r} has empty cells; {_AGAIN}")
    for row in rows.select(wanted.names).to_pylist():
        yield kind(**row)


_PACKAGES = ("braid", "pyspark", "pandas", "pyarrow", "numpy", "paho-mqtt")


def versions() -> Mapping[str, str]:
    """The versions of Braid, Python and the main packages."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


def machine() -> Mapping[str, Any]:
    """The cores, the memory and the kernel."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


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
        before = read_manifest(folder) if (folder / MANIFEST_FILE).exists() else None
        if before is not None and _identity(before) != _identity(manifest):
            raise WrongResults(f"{folder}: holds the results of another replay; choose another folder, or remove it")
        folder.mkdir(parents=True, exist_ok=True)
        # A replay that was killed while it wrote the tables still has its steps.
        self.complete = before is not None and before.complete and not self._path.exists()
        self.manifest = before or manifest
        self.step_results: list[StepResult] = [] if before is None else _read_steps(self._path)
        if before is None:
            self._path.unlink(missing_ok=True)
            write_manifest(manifest, folder)

    def keep(self, result: StepResult) -> None:
        """Write a step durably."""
        self.step_results.append(result)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(result))
            file.flush()
            os.fsync(file.fileno())

    def truncate(self, steps: int) -> None:
        """Keep only so many steps: those that the replays beside it have done too."""
        if steps < len(self.step_results):
            self.step_results = self.step_results[:steps]
            self._path.write_text("".join(map(_line, self.step_results)), encoding="utf-8")

    def finish(self) -> None:
        """Write the tables and mark the replay as complete."""
        self.manifest = replace(self.manifest, complete=True, ended=now())
        write_results(
            Results(
                manifest=self.manifest,
                steps=tuple(result.step for result in self.step_results),
                users=tuple(row for result in self.step_results for row in result.users),
                windows=tuple(row for result in self.step_results for row in result.windows),
                tenants=tuple(row for result in self.step_results for row in result.tenants),
            ),
            self.folder,
        )
        self._path.unlink(missing_ok=True)
        self.complete = True


def manifest_of(
    way: Way, trace: Trace, workload: Workload, settings: Mapping[str, Any], *, dry: bool
) -> ReplayManifest:
    """The manifest of a replay that begins now on this machine."""
    return ReplayManifest(
        **way._asdict(),
        dry=dry,
        complete=False,
        trace=trace_json(trace),
        workload={"name": workload.name, **workload.about},
        settings=settings,
        versions=versions(),
        machine=machine(),
        begun=now(),
        ended=None,
    )


def now() -> str:
    """This moment, in the format of manifests."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _identity(manifest: ReplayManifest) -> Any:
    """What is equal in manifests of the same replay on the same machine, begun at any time."""
    content = asdict(manifest)
    for name in ("complete", "begun", "ended"):
        del content[name]
    return json.loads(json.dumps(content))


def _line(result: StepResult) -> str:
    return f"{json.dumps(asdict(result), ensure_ascii=False)}\n"


def _read_steps(path: Path) -> list[StepResult]:
    """Read the complete lines; cut off one that was being written when the replay was killed."""
    results: list[StepResult] = []
    whole = 0
    lines: Sequence[bytes] = path.read_bytes().splitlines(keepends=True) if path.exists() else ()
    for line in lines:
        try:
            results.append(msgspec.json.decode(line, type=StepResult))
        except msgspec.DecodeError:
            break
        whole += len(line)
    if lines:
        os.truncate(path, whole)
    return results
