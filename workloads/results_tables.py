"""The files of a results folder: tables in Parquet and a manifest in JSON, written by replays and read by reports."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import pyarrow as pa
from pyarrow import parquet

from workloads.results import ReplayManifest, StepRow, TenantCoresRow, UsersRow, WindowRow

Row = TypeVar("Row")
_VERSION = 1
"""The version of the manifest's format."""
MANIFEST_FILE = "manifest.json"
_STEPS = "steps.parquet"
_WINDOWS = "windows.parquet"
_USERS = "users.parquet"
_TENANTS = "tenants.parquet"
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
    _write(results.steps, StepRow, folder / _STEPS)
    _write(results.windows, WindowRow, folder / _WINDOWS)
    _write(results.users, UsersRow, folder / _USERS)
    _write(results.tenants, TenantCoresRow, folder / _TENANTS)
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
    return Results(
        manifest=manifest,
        steps=tuple(_read(StepRow, folder / _STEPS)),
        windows=tuple(_read(WindowRow, folder / _WINDOWS)),
        users=tuple(_read(UsersRow, folder / _USERS)),
        tenants=tuple(_read(TenantCoresRow, folder / _TENANTS)),
    )


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
    kinds = get_type_hints(ReplayManifest)
    for field in fields(ReplayManifest):
        if field.name not in content:
            raise WrongResults(f"{path}: {field.name!r} is missing; {_AGAIN}")
        if not isinstance(content[field.name], _accepted(kinds[field.name])):
            raise WrongResults(f"{path}: {field.name!r} has the wrong type: {content[field.name]!r}; {_AGAIN}")
    return ReplayManifest(**{field.name: content[field.name] for field in fields(ReplayManifest)})


def _accepted(kind: Any) -> type | UnionType:
    """The type that a value read from JSON must have."""
    found: type | UnionType = dict if getattr(kind, "__origin__", None) is Mapping else kind
    return found


def _schema(kind: type[Any]) -> Any:
    """The columns of a table, one for each field of its rows."""
    columns = []
    for name, hint in get_type_hints(kind).items():
        held = [each for each in get_args(hint) or (hint,) if each is not type(None)]
        columns.append(pa.field(name, _KINDS[held[0]], nullable=type(None) in get_args(hint)))
    return pa.schema(columns)


def _write(rows: tuple[Row, ...], kind: type[Row], path: Path) -> None:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every kind of row is a dataclass
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    parquet.write_table(pa.table(columns, schema=_schema(kind)), path)


def _read(kind: type[Row], path: Path) -> Iterator[Row]:
    try:
        with path.open("rb") as file:
            found = parquet.read_table(file)
    except OSError as error:
        raise WrongResults(f"{path}: cannot be read: {error.strerror or error}; {_AGAIN}") from None
    except pa.ArrowInvalid as error:
        raise WrongResults(f"{path}: is not Parquet: {error}; {_AGAIN}") from None
    wanted = _schema(kind)
    for column in wanted:
        if column.name not in found.schema.names:
            raise WrongResults(f"{path}: the column {column.name!r} is missing; {_AGAIN}")
        there = found.schema.field(column.name)
        if there.type != column.type:
            raise WrongResults(f"{path}: the column {column.name!r} holds {there.type}, not {column.type}; {_AGAIN}")
        if not column.nullable and found.column(column.name).null_count:
            raise WrongResults(f"{path}: the column {column.name!r} has empty cells; {_AGAIN}")
    for row in found.select(wanted.names).to_pylist():
        yield kind(**row)
