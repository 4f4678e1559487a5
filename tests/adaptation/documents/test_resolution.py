"""Laws of resolution: every selection is a sound plain document, and the document says which selection it is."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.document_reader import is_dynamic
from adaptation.documents import NotAResolution, Selection, choices_in, resolve
from tests.adaptation.drawn import canonical, dynamic_documents, read


@settings(max_examples=40)
@given(value=dynamic_documents(), data=st.data())
def test_any_selection_resolves_to_a_sound_document_that_says_which_it_is(value: dict[str, Any], data: Any) -> None:
    """Whatever is chosen together, since each alternate passed alone."""
    dynamic = read(value)
    choice = Selection(
        alternates={task.id: data.draw(st.sampled_from(list(task.alternates))) for task in dynamic.tasks.values()},
        opened={stream: data.draw(st.booleans()) for stream in dynamic.streams},
    )
    plain = json.loads(json.dumps(resolve(dynamic, choice)))
    dataflow = canonical(json.dumps(plain).encode())
    assert not is_dynamic(plain)
    assert choice == choices_in(plain, dynamic)
    # Tasks keep their positions, so that problems and reconfigurations name the same ones.
    assert [each["id"] for each in value["tasks"]] == [each["id"] for each in plain["tasks"][: len(value["tasks"])]]
    gates = {stream.gate for stream in dynamic.streams.values()}
    assert gates == {each["id"] for each in plain["tasks"] if each["type"] == "gate"} == gates & dataflow.places.keys()


def test_a_document_of_something_else_is_no_resolution() -> None:
    """It is refused rather than taken for the first alternate."""
    dynamic = read(
        {
            "version": 1,
            "name": "n",
            "tasks": [
                {"id": "s", "type": "source", "config": {"source": "meters"}},
                {
                    "id": "a",
                    "alternates": [
                        {"name": "x", "type": "noop", "value": 1, "cost": 1},
                        {"name": "y", "type": "where", "config": {"expression": "kw > 1"}, "value": 1, "cost": 1},
                    ],
                },
                {"id": "k", "type": "output"},
            ],
            "streams": [
                {"from": "s", "to": "a", "when": {"activate": {"metric": "rate", "above": 1}}},
                {"from": "a", "to": "k"},
            ],
        }
    )
    plain = resolve(dynamic, dynamic.first)
    for change in ({"type": "map"}, {"config": {"a": 1}}):
        with pytest.raises(NotAResolution):
            choices_in({**plain, "tasks": [plain["tasks"][0], {**plain["tasks"][1], **change}]}, dynamic)
    with pytest.raises(NotAResolution):
        choices_in({**plain, "tasks": plain["tasks"][:3]}, dynamic)


@pytest.mark.parametrize("long", ["x" * 100, "x"])
def test_gates_have_ids_of_their_own(long: str) -> None:
    """Also where the name of a stream is too long or taken, and where two streams join the same tasks."""
    guard = {"when": {"activate": {"metric": "rate", "above": 1}}}
    value = {
        "version": 1,
        "name": "n",
        "tasks": [
            {"id": long, "type": "source", "config": {"source": "meters"}},
            {"id": f"{long}>k", "type": "noop"},
            {"id": "k", "type": "output"},
            {"id": "l" * 100, "type": "output"},
        ],
        "streams": [
            {"from": long, "to": f"{long}>k"},
            {"from": f"{long}>k", "to": "k"},
            {"from": long, "to": "k", **guard},
            {"from": long, "to": "l" * 100, **guard},
        ],
    }
    dynamic = read(value)
    plain = resolve(dynamic, dynamic.first)
    ids = [each["id"] for each in plain["tasks"]]
    assert len(ids) == len(set(ids)) == 6
    assert [f"{long}>k", f"{long}>{'l' * 100}"] == list(dynamic.streams)
    canonical(json.dumps(plain).encode())
