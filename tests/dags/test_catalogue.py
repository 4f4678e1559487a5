"""Catalogues of task types and namespaces."""

from typing import Any

import pytest

from dags import AnyTaskType, Catalogue, Namespace, TaskType
from tests.catalogue import NoConfig


def named(name: str) -> AnyTaskType:
    return TaskType(name=name, config=NoConfig)


def nothing(_name: str) -> AnyTaskType | None:
    return None


A, B = named("a"), named("b")
NAMESPACE = Namespace("n:", lambda name: named(name) if name != "n:none" else None)


def test_types_are_found_by_name() -> None:
    """An unknown name gives None."""
    catalogue = Catalogue.of([A, B])
    assert catalogue.find("a") is A
    assert catalogue.find("b") is B
    assert catalogue.find("c") is None
    assert Catalogue().find("a") is None


def test_a_namespace_is_asked_for_names_with_its_prefix() -> None:
    """It gets the full name, and only if no type has that name."""
    catalogue = Catalogue.of([NAMESPACE, A])
    found = catalogue.find("n:x")
    assert found is not None
    assert "n:x" == found.name
    assert catalogue.find("n:none") is None
    assert catalogue.find("m:x") is None
    assert catalogue.find("n") is None
    assert catalogue.find("a") is A


def test_the_namespace_with_the_prefix_answers_among_several() -> None:
    """The order of namespaces does not matter."""
    other = Namespace("o:", named)
    for entries in ([NAMESPACE, other], [other, NAMESPACE]):
        catalogue = Catalogue.of(entries)
        assert ["n:x", "o:x"] == [found.name for name in ("n:x", "o:x") if (found := catalogue.find(name))]


def test_names_to_suggest_are_sorted_types_then_namespaces() -> None:
    """Namespaces have a star."""
    assert ("a", "b", "n:*", "m:*") == Catalogue.of([NAMESPACE, B, A, Namespace("m:", nothing)]).names()


def test_two_types_of_one_name_are_refused() -> None:
    """Even if they come from different packages."""
    with pytest.raises(ValueError, match="two task types") as refused:
        Catalogue.of([A, B, named("a")])
    assert "two task types are named 'a'; rename one, or install only one of them" == str(refused.value)


@pytest.mark.parametrize(
    ("entries", "prefix", "clash"),
    [
        ([named("n:x"), NAMESPACE], "n:", "n:x"),
        ([NAMESPACE, named("n:x")], "n:", "n:x"),
        ([NAMESPACE, Namespace("n:", nothing)], "n:", "n:"),
        ([NAMESPACE, Namespace("n:m:", nothing)], "n:", "n:m:"),
        ([Namespace("n:m:", nothing), NAMESPACE], "n:", "n:m:"),
        ([A, Namespace("", nothing)], "", "a"),
    ],
)
def test_a_namespace_that_covers_another_entry_is_refused(
    entries: list[AnyTaskType | Namespace], prefix: str, clash: str
) -> None:
    """The other entry is a type in it, the same namespace, or a part of it."""
    with pytest.raises(ValueError, match="also covers") as refused:
        Catalogue.of(entries)
    assert f"namespace '{prefix}' also covers '{clash}'; choose another prefix" == str(refused.value)


def test_entries_with_a_common_beginning_do_not_clash() -> None:
    """A type that is the beginning of a prefix, and namespaces side by side."""
    catalogue = Catalogue.of([named("n"), NAMESPACE, Namespace("n-", nothing)])
    assert ("n", "n:*", "n-*") == catalogue.names()


@pytest.mark.parametrize(("answer", "given"), [(5, "int"), (A, "'a'"), (TaskType, "type")])
def test_a_namespace_that_answers_with_something_else_is_refused(answer: Any, given: str) -> None:
    """It must return the type of the full name, or None."""
    catalogue = Catalogue.of([Namespace("n:", lambda _: answer)])
    with pytest.raises(TypeError) as refused:
        catalogue.find("n:x")
    assert f"the namespace 'n:' returned {given} instead of 'n:x'" == str(refused.value)
