"""Workloads are loaded by name, and folders of results are read; what is wrong is said with its place."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bridge.raw_events import events_in
from dags import Kind, Schema
from tests.workloads.replay import test_dry_replay
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
from workloads.workload import WrongWorkload, generated_events, load_workload


def test_a_folder_is_a_workload(tmp_path: Path) -> None:
    """Its dataflows are called as their files, and its sources have endless events."""
    workload = load_workload(str(test_dry_replay.make(tmp_path / "toy")))
    assert ["a", "b", "c"] == list(workload.dataflows)
    assert ["a", "b", "c"] == [document["name"] for document in workload.dataflows.values()]
    (source,) = workload.sources
    assert ("street", 20.0, {"made": "by hand"}) == (source.name, source.per_second, workload.about)
    assert source.events is not None
    assert [0, 1, 2] == [event["n"] for event in islice(source.events(1), 3)]


def test_made_up_events_fit_their_schema_and_are_the_same_for_the_same_seed() -> None:
    """Of whatever kind their fields are."""
    schema = Schema.of({f"a {kind}": kind for kind in Kind})
    events = list(islice(generated_events(schema, 5), 50))
    taken, unfit = events_in([json.dumps(events).encode()], schema)
    assert (50, ()) == (len(taken), unfit)
    assert events == list(islice(generated_events(schema, 5), 50))
    assert events != list(islice(generated_events(schema, 6), 50))


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("workload.json", "{", "workload.json: is not JSON"),
        ("workload.json", "[]", "workload.json: is not the description of a workload"),
        ("workload.json", '{"version": 1}', "workload.json: 'sources' is missing"),
        ("workload.json", '{"version": 2, "sources": []}', "workload.json: has version 2"),
        (
            "workload.json",
            '{"version": 1, "sources": [{"name": "s", "schema": {"n": "number"}, "per_second": 1}]}',
            "workload.json: 'number' is not a valid Kind",
        ),
        (
            "workload.json",
            '{"version": 1, "sources": [{"name": "s", "schema": {}, "per_second": 0}]}',
            "it needs more than 0",
        ),
        ("dataflows/b.json", "[]", "b.json: is no document of a dataflow"),
    ],
)
def test_a_folder_that_holds_no_workload_says_where_and_why(file: str, text: str, reason: str, tmp_path: Path) -> None:
    """In one line that begins with the file."""
    folder = test_dry_replay.make(tmp_path / "toy")
    (folder / file).write_text(text)
    with pytest.raises(WrongWorkload, match=r"^/.*json: ") as caught:
        load_workload(str(folder))
    assert reason in str(caught.value)


def test_a_name_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    """Also one that only begins like one of them."""
    for name in ("nothing", "riotbench:x", "opmw-2"):
        with pytest.raises(
            WrongWorkload, match="choose from opmw, opmw:SEED, opmw-join, opmw-join:SEED, riotbench, riotbench:SEED, or"
        ):
            load_workload(name)


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
