"""Results folders: what was written is read, and what cannot be read is reported with file and remedy."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from tests.workloads.rows import step_row
from workloads.results import (
    ReplayManifest,
    Results,
    StepRow,
    TenantCoresRow,
    UsersRow,
    WindowRow,
    WrongResults,
    read_manifest,
    read_results,
    write_manifest,
    write_results,
)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
VALUES: dict[object, st.SearchStrategy[object]] = {
    str: st.text(),
    int: NUMBERS,
    float: FLOATS,
    bool: st.booleans(),
    str | None: st.none() | st.text(),
    float | None: st.none() | FLOATS,
}
MANIFEST = ReplayManifest(
    mode="reuse",
    placement="launch",
    defragment="off",
    dry=True,
    complete=True,
    trace={"name": "SEQ", "workload": "w", "seed": 1, "steps": []},
    workload={"name": "w"},
    settings={"pace": 1.0},
    versions={"braid": "0"},
    machine={"cores": 2},
    begun="2026-01-01T00:00:00+00:00",
    ended=None,
)


def drawn(kind: type[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    values = {name: VALUES[hint] for name, hint in get_type_hints(kind).items()}
    return st.lists(st.builds(kind, **values), max_size=4).map(tuple)


RESULTS = st.builds(
    Results,
    manifest=st.builds(
        replace,
        st.just(MANIFEST),
        trace=st.dictionaries(st.text(), NUMBERS | st.text() | st.lists(FLOATS.filter(lambda each: abs(each) < 1e300))),
        ended=st.none() | st.text(),
    ),
    steps=drawn(StepRow),
    windows=drawn(WindowRow),
    users=drawn(UsersRow),
    tenants=drawn(TenantCoresRow),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of one step."""
    write_results(Results(manifest=MANIFEST, steps=(step_row(0),)), tmp_path / "results")
    return tmp_path / "results"


@settings(max_examples=40)
@given(results=RESULTS)
def test_what_was_written_is_read(results: Results) -> None:
    """All of it, in order, whatever the rows hold."""
    folder = Path(tempfile.mkdtemp(prefix="braid-tables-"))
    try:
        write_results(results, folder / "new" / "results")
        assert results == read_results(folder / "new" / "results")
    finally:
        shutil.rmtree(folder)


def test_a_replay_that_is_not_at_its_end_is_not_read(folder: Path) -> None:
    """Its manifest can be, so that it can be resumed."""
    write_manifest(replace(MANIFEST, complete=False), folder)
    assert not read_manifest(folder).complete
    with pytest.raises(WrongResults, match=r"manifest\.json: the replay is not complete; resume it"):
        read_results(folder)


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest[name]
        path.write_text(json.dumps(manifest))

    return change


def saying(name: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))

    return change


def columns(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        parquet.write_table(change(parquet.read_table(folder / "steps.parquet")), folder / "steps.parquet")

    return changed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), r"manifest\.json: No such file.*name a folder"),
        (lambda folder: (folder / "manifest.json").write_text("{"), r"manifest\.json: is not JSON.*replay"),
        (
            lambda folder: (folder / "manifest.json").write_text("[]"),
            r"has version None, but this program reads version 1",
        ),
        (saying("version", 9), r"manifest\.json: has version 9, but this program reads version 1"),
        (without("placement"), r"manifest\.json: 'placement' is missing"),
        (saying("trace", "SEQ"), r"manifest\.json: 'trace' has the wrong type: 'SEQ'"),
        (lambda folder: (folder / "users.parquet").unlink(), r"users\.parquet: cannot be read: No such file"),
        (lambda folder: (folder / "users.parquet").write_bytes(b"no"), r"users\.parquet: is not Parquet"),
        (columns(lambda table: table.drop_columns(["jobs"])), r"steps\.parquet: the column 'jobs' is missing"),
        (
            columns(lambda table: table.set_column(0, "step", pa.array(["one"]))),
            r"steps\.parquet: the column 'step' holds string, not int64",
        ),
        (
            columns(lambda table: table.set_column(0, "step", pa.array([None], pa.int64()))),
            r"steps\.parquet: the column 'step' has empty cells",
        ),
    ],
)
def test_what_cannot_be_read_is_reported_by_file_and_remedy(
    folder: Path, change: Callable[[Path], object], reason: str
) -> None:
    """A file that is missing, broken, of another version, or without what every such file has."""
    change(folder)
    with pytest.raises(WrongResults, match=reason):
        read_results(folder)
