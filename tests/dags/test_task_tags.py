"""Tags of tasks: what a host must offer, of which sharing knows nothing."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import InvalidDocument, TaskType
from tests.catalogue import TagsConfig
from tests.notation import document, flow
from tests.strategies import Document, documents

NO_TAGS: frozenset[str] = frozenset()


def tags_of(text: str) -> dict[str, frozenset[str]]:
    """The tags of each task of a line."""
    made = flow(text)
    return {task: made.tasks[place].tags for task, place in made.places.items()}


def test_tags_come_from_type_config_and_document() -> None:
    """A task needs those of its type, those that its config asks for, and those that its document names."""
    found = tags_of("s:source > a:map > b:gpu[big] > c:either[big,fast]{'needs': 'fpga'} > d:either > k:sink[near]")
    assert {
        "s": NO_TAGS,
        "a": NO_TAGS,
        "b": {"gpu", "big"},
        "c": {"gpu", "fpga", "big", "fast"},
        "d": {"gpu"},
        "k": {"near"},
    } == found


def test_equivalent_tasks_need_the_tags_of_all() -> None:
    """Tasks of one document that become one run where the tags of each are offered."""
    found = tags_of("s:source > a:map[gpu] > k:sink s > b:map[big] > l:sink")
    assert {"gpu", "big"} == found["a"] == found["b"]


@given(document=documents(), tags=st.lists(st.sampled_from(["gpu", "big"])))
def test_tags_have_no_effect_on_what_is_computed(document: Document, tags: list[str]) -> None:
    """The keys, texts and streams of a document are the same with whatever tags, so they change nothing in sharing."""
    other = {**document, "tasks": [{**task, "tags": tags} for task in document["tasks"]]}
    one, two = flow(document), flow(other)
    assert [replace(task, tags=NO_TAGS) for task in one.tasks] == [replace(task, tags=NO_TAGS) for task in two.tasks]
    assert one.places == two.places


@pytest.mark.parametrize(
    ("tags", "code", "pointer"),
    [
        ("gpu", "wrong-type", "/tasks/1/tags"),
        ([1], "wrong-type", "/tasks/1/tags/0"),
        (["gpu", ""], "too-short", "/tasks/1/tags/1"),
        (["a b"], "wrong-value", "/tasks/1/tags/0"),
        (["a,b"], "wrong-value", "/tasks/1/tags/0"),
        (["x" * 101], "too-long", "/tasks/1/tags/0"),
        (["x"] * 51, "wrong-value", "/tasks/1/tags"),
    ],
)
def test_unfit_tags_are_refused_in_their_place(tags: Any, code: str, pointer: str) -> None:
    """Tags are texts that a command line can name; anything else is a problem there."""
    written = document("s:source > a:map > k:sink")
    written["tasks"][1]["tags"] = tags
    assert [(pointer, code)] == [(each.pointer, each.code) for each in refused(written)]


def refused(written: Any) -> Any:
    with pytest.raises(InvalidDocument) as error:
        flow(written)
    return error.value.problems


def test_tags_of_a_config_that_are_none_are_the_fault_of_the_type() -> None:
    """A task type whose hook returns something else is reported, and nothing is accepted."""
    broken: Any = ["gpu"]
    kind = TaskType(name="broken", config=TagsConfig, config_tags=lambda _: broken)
    with pytest.raises(TypeError, match="config_tags returned list, not frozenset"):
        kind.of(TagsConfig())
