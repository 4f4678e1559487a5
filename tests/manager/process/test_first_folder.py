"""`braid init`: a folder to begin with."""

import json
import shlex
from pathlib import Path

import pytest

from dags import Kind, Schema, Source
from dags.canonical import canonicalise
from engine import installed_catalogue
from manager.exit_codes import ExitCode
from tests.braid_client.samples import DETAIL, SOURCE, SUBMITTED, TENANT
from tests.braid_client.scripted_service import ok, refusal
from tests.manager.braid_runner import Braid


def test_the_folder_has_what_its_lines_name(braid: Braid) -> None:
    """The dataflow is valid over the source, and all events but the impossible one are a window of it."""
    made = braid.printed_json("init", "first", "--tenant", "ann")
    folder = Path(made["folder"])
    assert {*made["files"]} == {path.name for path in folder.iterdir()}
    source = json.loads((folder / "source.json").read_text())
    schema = Schema.of({name: Kind(kind) for name, kind in source["schema"].items()})
    named = f"{source['owner']}:{source['name']}"
    dataflow = canonicalise(
        (folder / "dataflow.json").read_bytes(),
        dataflow="d",
        tenant="ann",
        catalogue=installed_catalogue(),
        sources={named: Source(name=named, owner="ann", schema=schema)},
    )
    _, plausible, average, _ = dataflow.tasks
    events = [json.loads(line)["temperature"] for line in (folder / "events.jsonl").read_text().splitlines()]
    kept = [value for value in events if plausible.config["min"] <= value <= plausible.config["max"]]
    assert (average.config["window"], len(events) - 1) == (len(kept), len(kept))


def test_the_lines_are_called_as_they_are_printed(braid: Braid) -> None:
    """All of them are in the script, which can be called from anywhere; the guides call that."""
    first, *printed = braid.printed_json("init", "my first")["commands"]
    assert "cd 'my first'" == first
    assert printed == Path("my first/run.sh").read_text().splitlines()[2:]
    answers = {
        "tenants": [ok(TENANT)],
        "sources": [ok(SOURCE)],
        "submit": [ok(SUBMITTED)],
        "tail": [ok(DETAIL), refusal(403, "forbidden")],
    }
    for line in printed:
        name, *words = shlex.split(line)[1:]
        if name == "send":
            assert ["me:street", "events.jsonl"] == words
            continue
        known = answers[name]
        paths = [str(Path("my first") / word) if word.endswith((".json", ".jsonl")) else word for word in words]
        code = braid(name, *paths, answers=known).exit_code
        assert (line, ExitCode.NOT_ALLOWED if name == "tail" else ExitCode.WELL) == (line, code)


@pytest.mark.parametrize("tenant", ['a"b', "a b", ""])
def test_a_tenant_that_cannot_be_admitted_gets_no_folder(braid: Braid, tenant: str) -> None:
    """Its lines could not be run."""
    result = braid("init", "first", "--tenant", tenant)
    assert (ExitCode.PROBLEMS, True) == (result.exit_code, result.stderr.startswith("name: "))
    assert not Path("first").exists()


def test_a_folder_with_files_is_left_alone(braid: Braid) -> None:
    """The message says what to do."""
    Path("mine").mkdir()
    Path("mine/file").touch()
    result = braid("init", "mine")
    assert (ExitCode.PROBLEMS, "mine: it is not empty; name another folder\n") == (result.exit_code, result.stderr)
    assert ["file"] == [path.name for path in Path("mine").iterdir()]
