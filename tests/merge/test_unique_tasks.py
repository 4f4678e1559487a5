"""Unique tasks: those that emit at most one event for each event of a source."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Catalogue, Config, Dataflow, canonicalise
from merge import Instance, RunningGraph, merge
from merge.reconfiguration.switches import unique_tasks
from merge.tasks import RunningTask
from tests.catalogue import SOURCES, TYPES
from tests.graphs import applied
from tests.notation import document
from tests.unique_types import OWN, UNIQUE_TYPES, FieldsConfig, OnceConfig

NOW = datetime(2024, 3, 1, tzinfo=UTC)
FORK = "s:source > re:pass > a:pass > j:once > k:sink re"


def flow(text: str) -> Dataflow:
    return canonicalise(
        json.dumps(document(text)), dataflow="flow", tenant="ann", catalogue=UNIQUE_TYPES, sources=SOURCES
    )


def running(text: str) -> tuple[Mapping[Instance, RunningTask], Mapping[str, Instance]]:
    """The tasks of a dataflow as they run, and where each runs."""
    graph = RunningGraph()
    graph = applied(graph, merge(graph, flow(text), NOW))
    return graph.tasks, graph.dataflow("flow").places


def unique(text: str) -> str:
    """The unique tasks of a dataflow."""
    tasks, places = running(text)
    known = unique_tasks(tasks.values())
    return " ".join(sorted(task for task, instance in places.items() if instance in known))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{FORK} > b:set{{'fields': ['value']}} > j", "j", id="another field is set on one way"),
        pytest.param(f"{FORK} > b:set{{'fields': ['place']}} > j", "", id="the field is set on one way"),
        pytest.param(f"{FORK} > b:map > j", "", id="nobody knows what is set on one way"),
        pytest.param(f"{FORK} > b:count > j", "", id="a type with state that does not say what it sets"),
        pytest.param("s:source > p:map > a:pass > j:once > k:sink p > j", "j", id="set before the fork"),
        pytest.param(
            "s:source > p:map > q:map{'add': 1} > a:pass > j:once > k:sink q > j", "j", id="set twice before the fork"
        ),
        pytest.param("s:source > p:map > j:once > k:sink s > j", "", id="the fork is at the source"),
        pytest.param(
            "s:source > p:spread{'fields': ['place']} > a:pass > j:once > k:sink p > j",
            "",
            id="set for each",
        ),
        pytest.param("s:source > p:spread > a:pass > j:once > k:sink p > j", "j", id="several with the same value"),
        pytest.param("s:source > l:map > j:once > k:sink t:source{'source': 'traffic'} > j", "j", id="two sources"),
        pytest.param(
            "s:source > l:map > j:once > k:sink s > j t:source{'source': 'traffic'} > j", "", id="two, and one forks"
        ),
        pytest.param(f"{FORK} > b:map > j > i:once{{'by': []}} > m:sink", "i", id="once for ever"),
        pytest.param("s:source > j:once{'again': True} > k:sink", "", id="the config decides"),
        pytest.param("s:source > j:pass > k:sink", "", id="a type without state"),
        pytest.param(
            "s:source > re:pass > a:pass > j:once > i:once > k:sink re > j",
            "j",
            id="a join after a join",
        ),
    ],
)
def test_unique_tasks(text: str, expected: str) -> None:
    """A task is unique if the fields by which it emits once have one value in all that an event of a source led to."""
    assert expected == unique(text)


def test_a_config_that_its_type_does_not_read_makes_no_task_unique() -> None:
    """Of a type that has changed since, nothing is known."""
    tasks, places = running(f"{FORK} > b:pass{{'generation': 1}} > j")
    for name in ("j", "a"):
        odd = replace(tasks[places[name]], type=replace(tasks[places[name]].type, config=Other))
        assert not unique_tasks([*(each for each in tasks.values() if each.instance != places[name]), odd])


@pytest.mark.parametrize(("unsteady", "expected"), [("j", False), ("a", False), ("p", False), ("k", True)])
def test_a_task_that_is_about_to_change_makes_none_unique(unsteady: str, expected: bool) -> None:  # noqa: FBT001 - expected
    """Neither itself nor those below, since nobody knows what it sets and how often it emits."""
    tasks, places = running("s:source > p:pass > re:pass > a:pass > j:once > k:sink re > j")
    assert expected == (places["j"] in unique_tasks(tasks.values(), {places[unsteady]}))


def test_what_a_type_declares_is_no_part_of_a_signature() -> None:
    """Tasks of a type run on as they are when it says that it emits once."""
    silent = Catalogue.of([*TYPES, *(replace(kind, unique_by=None) for kind in OWN)])
    text = json.dumps(document(f"{FORK} > b:set > j"))
    one, other = (
        canonicalise(text, dataflow="flow", tenant="ann", catalogue=catalogue, sources=SOURCES)
        for catalogue in (UNIQUE_TYPES, silent)
    )
    assert [task.key for task in one.tasks] == [task.key for task in other.tasks]
    assert [task.text for task in one.tasks] == [task.text for task in other.tasks]


class Other(Config):
    """A config that no task has."""

    missing: int


@dataclass(slots=True)
class Piece:
    """A piece of an event of a source."""

    cause: int
    values: dict[str, int] = field(default_factory=dict)


def emitted(task: RunningTask, piece: Piece, seen: set[object], chance: Random) -> Iterator[Piece]:
    """What a task gives for a piece, as its type says; it sets fields to anything."""
    config = task.typed_config
    if task.type.name == "once":
        assert isinstance(config, OnceConfig)
        key = (task.instance, *(piece.values[name] for name in config.by))
        if chance.randrange(4) and key not in seen:
            seen.add(key)
            yield Piece(piece.cause, {name: chance.randrange(2) for name in piece.values})
        return
    for _ in range(chance.randrange(3) if task.type.name == "spread" else 1):
        fields = config.fields if isinstance(config, FieldsConfig) else ()
        yield Piece(piece.cause, piece.values | {name: chance.randrange(50) for name in fields})


@given(st.integers(0, 2**32))
def test_a_unique_task_emits_once_for_an_event_of_a_source(seed: int) -> None:
    """In dataflows of any form, whatever tasks set, in whatever order pieces arrive; events may have equal values."""
    chance = Random(seed)
    for _ in range(3):
        passage(chance)


def passage(chance: Random) -> None:
    """Eight events of sources pass a drawn dataflow, and no unique task emits twice for one."""
    streams: list[str] = []
    above = ["s:source", "t:source{'source': 'traffic'}"]
    for number in range(chance.randrange(2, 7)):
        fields = chance.choice(["", "{'fields': ['value']}", "{'fields': ['place']}"])
        kind = chance.choice([f"set{fields}", f"spread{fields}", "pass", "once", "once{'by': ['value']}"])
        name = f"n{number}"
        named = f"{name}:{kind}"
        parents = {chance.choice(above[-3:]) for _ in range(chance.choice([1, 1, 2, 3]))}
        streams += [f"{parent} > {named}" for parent in sorted(parents)]
        above.append(named)
    read = {stream.partition(" > ")[0] for stream in streams}
    ends = [f"{name} > k{place}:sink" for place, name in enumerate(above) if name not in read]
    tasks, _ = running(" ".join([*streams, *ends]))
    known = unique_tasks(tasks.values())
    readers: dict[int, list[RunningTask]] = {}
    for task in tasks.values():
        for edge in task.inputs:
            readers.setdefault(edge.parent, []).extend([task] * edge.times)
    sources = [task for task in tasks.values() if not task.inputs]
    counted: Counter[tuple[Instance, int]] = Counter()
    seen: set[object] = set()
    waiting: list[tuple[RunningTask, Piece]] = []
    for cause in range(8):
        values = {"place": chance.randrange(4), "value": chance.randrange(2)}
        waiting += [(task, Piece(cause, values)) for task in readers.get(chance.choice(sources).instance, ())]
    while waiting:
        task, piece = waiting.pop(chance.randrange(len(waiting)))
        for new in emitted(task, piece, seen, chance):
            counted[task.instance, piece.cause] += 1
            waiting += [(reader, new) for reader in readers.get(task.instance, ())]
    assert {} == {key: count for key, count in counted.items() if key[0] in known and count > 1}
