"""Outlines of documents that may have problems."""

import json
from typing import Any

import pytest

from dags import Kind
from dags.canonical import canonicalise, outline
from dags.canonical.outlines import Outline
from tests.catalogue import CATALOGUE, SOURCES
from tests.notation import document

WHOLE = "s:source > a:map > c:count{'by': 'place'} > k:sink"


def outlined(text: str, **changes: Any) -> Outline:
    raw = json.dumps(document(text) | changes)
    return outline(raw, dataflow="flow", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)


@pytest.mark.parametrize("cut", ["s:source", "s:source > a:map", "s:source > a:map > c:count{'by': 'place'}", WHOLE])
def test_what_is_sound_has_the_keys_that_it_has_in_the_whole(cut: str) -> None:
    """Whatever is still missing below."""
    whole = canonicalise(
        json.dumps(document(WHOLE)), dataflow="flow", tenant="ann", catalogue=CATALOGUE, sources=SOURCES
    )
    sound = outlined(cut).sound
    assert {id_: whole.tasks[whole.places[id_]].key for id_ in sound.places} == {
        id_: sound.tasks[place].key for id_, place in sound.places.items()
    }
    assert len(document(cut)["tasks"]) == len(sound.places)


def test_a_task_is_sound_once_all_above_it_are() -> None:
    """A problem leaves out its own task and all below, not those beside."""
    found = outlined("s:source > a:mapp > c:count{'by': 'place'} > k:sink s > b:map > k b > c")
    assert {"s", "b"} == set(found.sound.places)
    assert {"unknown-type"} == {problem.code for problem in found.problems}


def test_what_is_sound_has_the_same_keys_after_what_is_not() -> None:
    """A task with a problem that stands before others changes nothing about them."""
    alone, beside = (outlined(text).sound for text in ("s:source > b:map", "x:sourced > k:sink s:source > b:map > k"))
    assert {"s": 0, "b": 1} == alone.places == beside.places
    assert [task.key for task in alone.tasks] == [task.key for task in beside.tasks]


def test_fields_are_known_where_they_arrive_and_leave() -> None:
    """Even at a task whose config is wrong, whose reads are unknown as long."""
    by_id = {task.id: task for task in outlined("s:source > c:count{'by': 3} > k:sink").tasks}
    weather = SOURCES["weather"].schema
    assert {"out": weather} == by_id["s"].outputs
    assert ({"in": weather}, (), {"out": None}) == (by_id["c"].inputs, by_id["c"].reads, by_id["c"].outputs)
    assert {"in": None} == by_id["k"].inputs
    right = {task.id: task for task in outlined(WHOLE).tasks}
    assert ["place"] == [read.field for read in right["c"].reads]
    kept = right["k"].inputs["in"]
    assert kept is not None
    assert Kind.STRING == kept.fields["place"]


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("s:source > a:map > b:map > a", {}),
        ("s:source > k:sink", {"tasks": 5}),
        ("s:source > k:sink", {"tasks": [], "streams": []}),
        ("s:source > k:sink", {"tasks": [{"id": "s", "type": "source", "config": {"source": "weather"}}] * 2}),
    ],
)
def test_nothing_is_sound_where_nothing_can_be(text: str, changes: dict[str, Any]) -> None:
    """In a cycle, without tasks, and where two have the same id; the problems say why."""
    found = outlined(text, **changes)
    assert found.problems
    assert {} == found.sound.places
