"""Documents as large as they may be, sound and broken: an answer, in time that grows with the document.

No clock is read here. A check that took quadratic time would keep these tests running for minutes.
"""

import json
from collections import Counter
from typing import Any

import pytest

from dags import Config, Kind, Read, Schemas, Source, TaskType
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS
from dags.json_text import MOST_DOCUMENT_BYTES
from tests.catalogue import SCHEMA, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems

pytestmark = pytest.mark.full
MIDDLE = MOST_TASKS - 2
SOURCE = {"id": "s", "type": "source", "config": {"source": "weather"}}
SINK = {"id": "k", "type": "sink"}
NAMES = [f"t{i}" for i in range(MIDDLE)]


class StepConfig(Config):
    number: int


CALLS: Counter[str] = Counter()


def counted(hook: str, answer: Any) -> Any:
    """A hook that counts its calls."""

    def asked(config: StepConfig, *more: Any) -> Any:
        CALLS[hook] += 1
        return answer(config, *more)

    return asked


def one_field_more(config: StepConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].plus(f"f{config.number}", Kind.FLOAT)}


CATALOGUE = catalogue_with(
    TaskType(
        name="step",
        config=StepConfig,
        reads=counted("reads", lambda _: (Read(at="", field="value"),)),
        output_schema=counted("output_schema", lambda _, inputs: {"out": inputs["in"]}),
        normalise=counted("normalise", lambda config: config),
    ),
    TaskType(name="widen", config=StepConfig, output_schema=one_field_more),
    *(TaskType(name=f"type {'x' * 150} {i}", config=NoConfig) for i in range(150)),
)


def steps(kind: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": kind, "config": {"number": i}} for i, name in enumerate(NAMES)]


def written(tasks: list[dict[str, Any]], streams: list[tuple[str, str]]) -> dict[str, Any]:
    return {"version": 1, "name": "n", "tasks": tasks, "streams": [{"from": a, "to": b} for a, b in streams]}


def chain(kind: str = "step") -> dict[str, Any]:
    """Every task after the one before."""
    return written([SOURCE, *steps(kind), SINK], list(zip(["s", *NAMES], [*NAMES, "k"], strict=True)))


def star() -> dict[str, Any]:
    """Every task between the source and the sink."""
    return written([SOURCE, *steps("step"), SINK], [pair for name in NAMES for pair in (("s", name), (name, "k"))])


@pytest.mark.parametrize("text", [chain(), star()], ids=["chain", "star"])
def test_hooks_are_called_once_per_task(text: dict[str, Any]) -> None:
    """For the largest number of tasks, however they are connected."""
    CALLS.clear()
    canonical = canonicalise(text, catalogue=CATALOGUE)
    assert MOST_TASKS == len(canonical.tasks) == len(canonical.places)
    assert {"reads": MIDDLE, "output_schema": MIDDLE, "normalise": MIDDLE} == CALLS


def test_a_chain_of_equal_tasks_has_no_equal_signatures() -> None:
    """Each has another depth."""
    canonical = canonicalise(written([SOURCE, *({"id": n, "type": "map"} for n in NAMES), SINK], _links(chain())))
    assert MOST_TASKS == len({task.key.signature for task in canonical.tasks})
    assert [canonical.places[name] for name in NAMES] == list(range(1, MIDDLE + 1))


def test_a_star_of_equal_tasks_collapses() -> None:
    """Into one task, whose stream to the sink has their number as multiplicity."""
    canonical = canonicalise(written([SOURCE, *({"id": n, "type": "map"} for n in NAMES), SINK], _links(star())))
    assert 3 == len(canonical.tasks)
    assert MIDDLE == canonical.tasks[2].inputs[0].times


def test_the_most_streams_that_are_allowed() -> None:
    """Two layers, with a stream from every task of one to every task of the other."""
    layers = [[f"{layer}{i}" for i in range(many)] for layer, many in (("a", 220), ("b", 225))]
    names = [name for layer in layers for name in layer]
    streams = [("s", name) for name in layers[0]] + [(name, "k") for name in layers[1]]
    streams += [(above, below) for above in layers[0] for below in layers[1]]
    streams += [("s", name) for name in layers[1][: MOST_DOCUMENT_STREAMS - len(streams)]]
    tasks = [{"id": name, "type": "step", "config": {"number": i}} for i, name in enumerate(names)]
    assert MOST_DOCUMENT_STREAMS == len(streams)
    canonical = canonicalise(written([SOURCE, *tasks, SINK], streams), catalogue=CATALOGUE)
    assert 447 == len(canonical.tasks)
    assert MOST_DOCUMENT_STREAMS == sum(given.times for task in canonical.tasks for given in task.inputs)


def test_as_many_unknown_types_as_tasks() -> None:
    """Each problem suggests the most similar of many long names."""
    tasks = [{"id": name, "type": f"type {'x' * 150} {i}x"} for i, name in enumerate(NAMES)]
    found = problems(written(tasks, []), catalogue=CATALOGUE)
    assert MIDDLE == len(found)
    assert found[0].remedy.startswith("did you mean 'type xxx")


def test_as_many_unknown_ids_as_streams() -> None:
    """At both ends of each."""
    text = json.dumps(
        written([SOURCE, SINK], [(f"a{i}", "b") for i in range(MOST_DOCUMENT_STREAMS)]), separators=(",", ":")
    )
    found = problems(text)
    assert 2 * MOST_DOCUMENT_STREAMS == len(found)
    assert ("/streams/49999/to", "unknown-task") == (found[-1].pointer, found[-1].code)


def test_as_many_broken_entries_as_there_may_be() -> None:
    """Streams with only unknown fields, and tasks that are not objects."""
    text = json.dumps(
        {**written([], []), "tasks": [0] * MOST_TASKS, "streams": [{"a": 0, "b": 0}] * MOST_DOCUMENT_STREAMS}
    )
    assert [(f"/tasks/{i}", "wrong-type") for i in range(1_000)] == codes(text)


def test_a_cycle_of_all_tasks() -> None:
    """One problem, with the first names and their number."""
    text = written(
        [SOURCE, *steps("step"), SINK], [*zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True), ("s", "t0"), ("t0", "k")]
    )
    [found] = problems(text, catalogue=CATALOGUE)
    assert "cycle" == found.code
    assert found.message.endswith(f", … ({MIDDLE} in all)")


def test_tasks_that_lead_nowhere_by_the_thousand() -> None:
    """All of them are reported."""
    assert 2 * MIDDLE + 2 == len(problems(written([SOURCE, *steps("step"), SINK], []), catalogue=CATALOGUE))


def test_a_chain_that_widens_its_stream_stops_where_it_is_too_wide() -> None:
    """At the first task beyond the limit."""
    message = "the events that leave this task have 251 fields"
    assert [problem("/tasks/249", "too-many-fields", message, "have at most 250")] == problems(
        chain("widen"), catalogue=CATALOGUE
    )


def test_a_million_values_that_cannot_be_kept() -> None:
    """The first thousand are reported."""
    values = ",".join(["NaN"] * 1_000_000)
    text = f'{{"version":1,"name":"n","tasks":[{{"id":"a","type":"map","config":{{"add":[{values}]}}}}],"streams":[]}}'
    assert [(f"/tasks/0/config/add/{i}", "not-finite") for i in range(1_000)] == codes(text)


@pytest.mark.parametrize(
    "character", ["[", '{"a":', "[0,", "\\", "9", '"', "0", "1e", "-", "é", " ", "\n", "\\ud800", "\ud800"]
)
def test_as_much_of_one_text_as_a_document_may_have(character: str) -> None:
    """As the whole document, and as a text, key and number within one."""
    size = len(character.encode("utf-8", "surrogatepass"))
    assert 1 == len(problems(character * (MOST_DOCUMENT_BYTES // size)))
    much = character * ((MOST_DOCUMENT_BYTES - 200) // size)
    for text in (f'{{"version": 1, "name": "{much}"}}', f'{{"{much}": 1}}', f'{{"version": {much}}}'):
        assert 1 <= len(problems(text)) <= 6


@pytest.mark.parametrize(
    ("digits", "code"),
    [
        ("9" * 4_000_000, "integer-too-large"),
        ("9" * 4_000_000 + ".5", "not-finite"),
        ("1e" + "9" * 4_000_000, "not-finite"),
        ("0." + "123456789" * 400_000, "wrong-type"),
    ],
    ids=["integer", "number", "exponent", "fraction"],
)
def test_numbers_of_millions_of_digits(digits: str, code: str) -> None:
    """Read without computing them."""
    text = f'{{"version":1,"name":"n","tasks":[{{"id":"a","type":"map","config":{{"add":{digits}}}}}],"streams":[]}}'
    assert ("/tasks/0/config/add", code) in codes(text)


def test_many_sources_to_suggest() -> None:
    """They are not searched for each task."""
    sources = {f"s{i}": Source(name=f"s{i}", owner="ann", schema=SCHEMA) for i in range(10_000)}
    tasks = [{"id": name, "type": "source", "config": {"source": f"x{i}"}} for i, name in enumerate(NAMES)]
    found = problems(written(tasks, []), sources=sources)
    assert MIDDLE + 1 == len(found)
    assert found[1].remedy.endswith("… (10000 in all)")


def _links(text: dict[str, Any]) -> list[tuple[str, str]]:
    return [(stream["from"], stream["to"]) for stream in text["streams"]]
