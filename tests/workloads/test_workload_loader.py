"""Workloads are loaded by name, and what is wrong with one is reported with its place."""

import json
from itertools import islice
from pathlib import Path

import pytest

from bridge.raw_events import events_in
from dags import Kind, Schema
from tests.workloads.replay import toy
from workloads.workload import WrongWorkload, generated_events, load_workload


def test_a_folder_is_a_workload(tmp_path: Path) -> None:
    """Its dataflows are called as their files, and its sources have endless events."""
    workload = load_workload(str(toy.make(tmp_path / "toy")))
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
    folder = toy.make(tmp_path / "toy")
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
