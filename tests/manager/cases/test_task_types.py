"""Task types: listed by name, each with the schema of its configs."""

from dags import Config, Namespace, State, TaskType
from manager.use_case import Paging
from tests.catalogue import CATALOGUE
from tests.manager.managers import Manager


class Smoothing(Config):
    """The smoothing of a number."""

    noise: float = 0.5
    """The variance of the sensor."""


def _made(name: str) -> TaskType[Smoothing] | None:
    return None if name == "made:not" else TaskType(name=name, version=3, config=Smoothing, state=State.KEY)


def test_all_types_are_listed_page_by_page(manager: Manager) -> None:
    """Each once, by name, whatever the size of a page."""
    names, after = list[str](), None
    while True:
        page = manager.service.task_types.page(Paging(after=after, limit=3))
        names += [each.name for each in page.items]
        if (after := page.next) is None:
            break
    assert sorted(CATALOGUE.types) == names


def test_a_type_has_the_schema_of_its_configs(manager: Manager) -> None:
    """With the descriptions of fields in the code; a type of a namespace is found by its name, though not listed."""
    manager.equip(catalogue=CATALOGUE.of([Namespace("made:", _made)]))
    (found,) = manager.service.task_types.page(Paging(), name="made:up").items
    assert ("made:up", 3, State.KEY) == (found.name, found.version, found.state)
    assert (("in",), ("out",)) == (found.inputs, found.outputs)
    noise = {"default": 0.5, "description": "The variance of the sensor.", "title": "Noise", "type": "number"}
    assert {"noise": noise} == found.config["properties"]
    for nothing in (None, "made:not", "unknown"):
        assert () == manager.service.task_types.page(Paging(), name=nothing).items
