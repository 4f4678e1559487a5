"""What programs build: the documents that are written by hand beside them, and documents that pass all checks."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptation.document_reader import read_dynamic
from dags.builder import Program, metric, rule
from dags.builder.streams import routes
from engine.tasks.expressions import Node, read, written
from tests.dags.builder.programs import DYNAMIC_SCRIPTS, GOLDEN, SCRIPTS, Script, canonical, followed
from tests.tasks.agreeing import few
from tests.tasks.expressions import EVENTS, TRUTHS, computed

WRITTEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_program_builds_the_document_that_is_written_by_hand(name: str) -> None:
    """To the last id, and its text is the same each time."""
    assert GOLDEN[name]().document() == WRITTEN[name]
    assert GOLDEN[name]().text() == GOLDEN[name]().text()
    assert json.loads(GOLDEN[name]().text()) == WRITTEN[name]


@pytest.mark.parametrize("name", ["plain", "joined"])
def test_a_built_document_has_the_signatures_of_one_written_otherwise(name: str) -> None:
    """Ids, and the order of tasks and streams, are the program's own; what is computed is the same."""
    by_hand = json.loads(json.dumps(WRITTEN[name]))
    ids = {task["id"]: f"t{at}" for at, task in enumerate(by_hand["tasks"])}
    for task in by_hand["tasks"]:
        task["id"] = ids[task["id"]]
    for stream in by_hand["streams"]:
        stream |= {"from": ids[stream["from"]], "to": ids[stream["to"]]}
    by_hand["tasks"].reverse()
    by_hand["streams"].reverse()
    one, other = canonical(GOLDEN[name]().text()), canonical(json.dumps(by_hand))
    signatures = {id_: one.tasks[place].key.signature for id_, place in one.places.items()}
    assert signatures == {id_: other.tasks[other.places[ids[id_]]].key.signature for id_ in one.places}


def test_the_dynamic_document_is_read() -> None:
    """With its alternates, guards and policy; all alternates pass the checks of plain documents."""
    found = read_dynamic(GOLDEN["dynamic"]().text(), canonical=canonical)
    assert (["forecast"], ["forecast>detail"]) == (list(found.tasks), list(found.streams))


@few
@given(script=SCRIPTS)
def test_whatever_is_built_passes_all_checks(script: Script) -> None:
    """Equal programs give equal texts, whatever the order of keys; with other names they compute the same."""
    text = followed(script).text()
    assert text == followed(script).text() == followed(script, turned=True).text()
    one, other = canonical(text), canonical(followed(script, named=True).text())
    assert {task.key.signature for task in one.tasks} == {task.key.signature for task in other.tasks}


@few
@given(script=DYNAMIC_SCRIPTS)
def test_whatever_is_built_with_alternates_passes_all_checks(script: Script) -> None:
    """With each alternate."""
    text = followed(script).text()
    assert text == followed(script).text()
    read_dynamic(text, canonical=canonical)


@few
@given(expressions=st.lists(TRUTHS, min_size=1, max_size=3), events=EVENTS)
def test_each_event_takes_one_way_of_a_split(expressions: list[Node], events: list[dict[str, Any]]) -> None:
    """That of the first expression that is true, or the last one; null is not true."""
    ways = [read(each) for each in routes([written(each) for each in expressions])]
    for event in events:
        true = [computed(each, event) is True for each in expressions]
        expected = true.index(True) if True in true else len(expressions)
        assert [at == expected for at in range(len(ways))] == [computed(each, event) is True for each in ways]


def test_a_rule_names_paths_as_the_reader_does() -> None:
    """With their ports where two of them join the same tasks, and all paths of a stream that several steps read."""
    program = Program("paths")
    summary = program.stream("north").window(time="at", seconds=9).summary("t")
    busy = metric("rate").above(9)
    early, late = summary.when(busy), summary.port("late").when(busy)
    early.merge(late).output("both")
    early.output("again")
    program.policy(rules=[rule("open", metric("rate").above(20), {early: True}), rule("shut", busy, {late: False})])
    found = read_dynamic(program.text(), canonical=canonical)
    names = ["tumbling_window.out>both.in", "tumbling_window.late>both.in", "tumbling_window>again"]
    assert names == list(found.streams)
    assert [{names[0]: True, names[2]: True}, {names[1]: False}] == [each.choose for each in found.policy.rules]
