"""The built-in repository, templates as documents, and the command `braid opmw`."""

import json
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from typer.testing import CliRunner

from braid_client.answers.base import SourceName
from dags import Dataflow
from dags.canonical import canonicalise
from engine import installed_catalogue
from manager.command import app
from tests.documentation.pages import page
from workloads.opmw.builtin_workload import opmw
from workloads.opmw.document_encoder import (
    ITERATIONS,
    Inputs,
    SourcesBy,
    encode,
    events,
    registered,
    source_name,
    sources_of,
)
from workloads.opmw.sharing_counts import canonical, count_sharing, dataflows_of, work_saved, works
from workloads.opmw.templates import TARGETS, WORK_SAVED, Template, TemplateStep, Variable, is_chain, repository
from workloads.workload import load_workload

TEMPLATE = Template(
    name="words",
    steps=(
        TemplateStep(
            name="split/1", component="Split", uses=("left", "right"), gives=("pieces",), parameters={"size": 3}
        ),
        TemplateStep(name="count", component="Count", uses=("pieces", "stop words"), gives=("counts", "log")),
        TemplateStep(name="tick", component="Tick", parameters={"iterations": 9}),
    ),
    variables=(
        Variable(name="left", data_type="Text"),
        Variable(name="right", data_type="Text"),
        Variable(name="stop words", data_type=None),
        Variable(name="pieces", data_type="Text"),
        Variable(name="counts", data_type="Table"),
        Variable(name="log", data_type=None),
    ),
)


STOP_WORDS = source_name("stop words")


def canonical_of(document: Any) -> Dataflow:
    return canonicalise(
        json.dumps(document),
        dataflow=document["name"],
        tenant="ann",
        catalogue=installed_catalogue(),
        sources=registered(sources_of(document)),
    )


def feeds(document: Any) -> dict[str, str]:
    return {task["id"]: task["config"]["source"] for task in document["tasks"] if task["type"] == "source"}


def streams(document: Any) -> set[tuple[str, str]]:
    return {(stream["from"], stream["to"]) for stream in document["streams"]}


def test_steps() -> None:
    """A step's component is its task's type, its bound parameters the config, beside how much it computes."""
    document = encode(TEMPLATE, name="words")
    assert [
        {"id": "split-1", "type": "opmw:Split", "config": {"size": 3, "iterations": ITERATIONS}},
        {"id": "count", "type": "opmw:Count", "config": {"iterations": ITERATIONS}},
        {"id": "tick", "type": "opmw:Tick", "config": {"parameter iterations": 9, "iterations": ITERATIONS}},
    ] == document["tasks"][:3]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (SourcesBy.TYPE, {"left": "Text", "right": "Text", "stop words": STOP_WORDS, "start": "start"}),
        (SourcesBy.VARIABLE, {"left": "left", "right": "right", "stop words": STOP_WORDS, "start": "start"}),
        (SourcesBy.NONE, {"start": "start"}),
    ],
)
def test_sources(sources: SourcesBy, expected: dict[str, str]) -> None:
    """Each variable from outside has a source, named as asked for; what nothing feeds takes the common one."""
    assert expected == feeds(encode(TEMPLATE, name="words", sources=sources))


def test_outputs() -> None:
    """With sinks each unused variable has an output, without there is one; all streams are joined."""
    inner = {
        ("left", "split-1"),
        ("right", "split-1"),
        ("split-1", "count"),
        ("stop words", "count"),
        ("start", "tick"),
    }
    assert inner | {("count", "counts"), ("count", "log"), ("tick", "tick result")} == streams(
        encode(TEMPLATE, name="words")
    )
    assert inner | {("count", "result"), ("tick", "result")} == streams(encode(TEMPLATE, name="words", sinks=False))


def test_joining_steps() -> None:
    """Where steps join, one with several inputs has a port for each of them; one with a single input is as ever."""
    document = encode(TEMPLATE, name="words", inputs=Inputs.JOIN)
    assert ["opmw-join:Split", "opmw-join:Count", "opmw:Tick"] == [task["type"] for task in document["tasks"][:3]]
    ports = {(each["from"], each["to"]): each.get("to_port") for each in document["streams"]}
    assert {"in1", "in2"} == {ports["left", "split-1"], ports["right", "split-1"]}
    assert {"in1", "in2"} == {ports["split-1", "count"], ports["stop words", "count"]}
    assert ports["start", "tick"] is None
    assert len(canonical_of(document).tasks) == len(canonical_of(encode(TEMPLATE, name="words")).tasks)


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_joining_steps_stay_equal(one: list[int], other: list[int]) -> None:
    """Steps of two templates are equal where what they join is, however things are called and in whatever order."""
    found = []
    for order, letters in ((one, "abc"), (other, "xyz")):
        names = [letters[place] for place in order]
        steps = tuple(
            TemplateStep(name=names[place], component=f"Make{place}", uses=("in",), gives=(f"made {names[place]}",))
            for place in sorted(range(3), key=names.__getitem__)
        )
        last = TemplateStep(
            name="last", component="Merge", uses=tuple(f"made {name}" for name in sorted(names)), gives=("end",)
        )
        variables = tuple(Variable(name=name, data_type=None) for name in ("in", *last.uses, "end"))
        template = Template(name=letters, steps=(*steps, last), variables=variables)
        found.append({task.key for task in canonical_of(encode(template, name=letters, inputs=Inputs.JOIN)).tasks})
    assert found[0] == found[1]


def test_parameters_called_as_fields() -> None:
    """A parameter that is called as a field that steps have for themselves gets another name."""
    step = TemplateStep(name="s", component="Sort", uses=("a", "b"), parameters={"inputs": 7, "iterations": 1})
    template = Template(name="t", steps=(step,), variables=tuple(Variable(name=n, data_type=None) for n in "ab"))
    expected = {"parameter inputs": 7, "parameter iterations": 1, "iterations": ITERATIONS}
    for inputs, own in ((Inputs.INTERLEAVE, {}), (Inputs.JOIN, {"inputs": 2})):
        (task, *_) = encode(template, name="t", inputs=inputs)["tasks"]
        assert {**expected, **own} == task["config"]


NAMES = st.text(max_size=120)


@given(st.lists(NAMES, unique=True, max_size=6))
def test_source_names(names: list[str]) -> None:
    """Whatever letters data types have, each has a source of its own, whose name the service takes."""
    found = [TypeAdapter(SourceName).validate_python(source_name(name)) for name in names]
    assert len(names) == len(set(found))


def test_legible_source_names() -> None:
    """Names that fit stay; others are written in ASCII, with a digest that tells them apart."""
    assert ["Table", "v1.2_x"] == [source_name(name) for name in ("Table", "v1.2_x")]
    written = [source_name(name) for name in ("Größe", "Grüße", "Таблица", "表", "Table of words", "start", "", "é")]
    assert [
        "Grosse",
        "Grusse",
        "u0422u0430u0431u043Bu0438u0446u0430",
        "u8868",
        "Table-of-words",
        "start",
        "unnamed",
        "e",
    ] == [name.rpartition("-")[0] for name in written]
    assert len(written) == len(set(written))


def test_events() -> None:
    """A source's events are the same for the same seed, differ from another source's, and have its schema's fields."""

    def first(source: str, seed: int) -> list[Any]:
        drawn = events(source, seed)
        return [next(drawn) for _ in range(3)]

    assert first("Text", 1) == first("Text", 1)
    assert first("Text", 1) != first("Text", 2)
    assert first("Text", 1) != first("Table", 1)
    assert [{"value", "number"}] * 3 == [set(event) for event in first("Text", 1)]


def only(wanted: Any, found: Any) -> Any:
    """As much of what was found as is wanted."""
    return {name: only(each, found[name]) for name, each in wanted.items()} if isinstance(wanted, dict) else found


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"a": ()}, True),
        ({"a": (), "b": "a", "c": "b"}, True),
        ({"a": (), "b": "a", "c": "a"}, False),
        ({"a": (), "b": (), "c": "ab"}, False),
        ({"a": (), "b": ()}, False),
    ],
)
def test_chain(parents: dict[str, str], expected: bool) -> None:  # noqa: FBT001 - an example
    """A template is a chain where each step but the first follows one, and none is followed by several."""
    steps = tuple(
        TemplateStep(name=name, component="Sort", uses=tuple(uses), gives=(name,)) for name, uses in parents.items()
    )
    assert expected == is_chain(Template(name="t", steps=steps, variables=()))


def test_repository() -> None:
    """The 70 templates have exactly the statistics of the published ones, and save as much work, in every encoding."""
    reached = opmw().about["repository"]["reached"]
    assert TARGETS == only(TARGETS, reached)
    assert WORK_SAVED == pytest.approx({name: reached[name]["work saved"] for name in WORK_SAVED}, abs=0.005)


def test_documented() -> None:
    """The page on workloads has the counts of all 70 in every encoding, as they are."""
    reached = opmw().about["repository"]["reached"]

    def counts(*tasks: dict[str, Any]) -> str:
        total, distinct = (sum(each[name] for each in tasks) for name in ("total", "distinct"))
        return f"{total} → {distinct}, {1 - distinct / total:.1%}".replace("%", " %")

    rows = [
        (
            label,
            counts(found["steps"]),
            counts(found["sources"]),
            counts(found["steps and sources"]),
            counts(found["steps and sources"], found["outputs"]),
            f"{found['work saved']:.1%}".replace("%", " %"),
        )
        for label, found in (
            ("sources by data type", reached["by type"]),
            ("sources by variable name", reached["by variable"]),
            ("one source for all", reached["one source"]),
        )
    ]
    tables = page("docs/workloads.md").tables
    (table,) = (each for each in tables if each.rows[0][0].startswith("encoding of all 70"))
    assert rows == list(table.rows[1:])


@pytest.mark.parametrize(
    ("sources", "work"), [(SourcesBy.TYPE, 0.17), (SourcesBy.VARIABLE, 0.20), (SourcesBy.NONE, 0.29)]
)
def test_blind_draws(sources: SourcesBy, work: float) -> None:
    """35 drawn blindly save about as much work in the median as 35 of the published ones, in every encoding."""
    dataflows = dataflows_of(repository(), installed_catalogue(), sources)
    dice = random.Random(1)
    found = [work_saved(dice.sample(dataflows, 35)) or 0.0 for _ in range(400)]
    assert work == pytest.approx(median(found), abs=0.015)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 1_000_003])
def test_drawn(seed: int) -> None:
    """Whatever the seed, 35 dataflows look like the repository, share 40.0 % of their steps and sources, and save 23 %.

    Of the work, that is, which steps do.
    """
    workload = opmw(seed)
    dataflows = canonical(
        workload.dataflows.items(), installed_catalogue(), registered(tuple(each.name for each in workload.sources))
    )
    sizes = [sum(task["type"].startswith("opmw:") for task in each["tasks"]) for each in workload.dataflows.values()]
    assert (35, 1, 3, 18) == (len(sizes), min(sizes), median(sizes), max(sizes))
    assert 4.97 == pytest.approx(sum(sizes) / 35, abs=0.25)
    assert sizes.count(1) in {5, 6}
    assert workload.about["drawn"]["reached"]["chains"] in {17, 18, 19}
    counts = count_sharing(dataflows)
    assert 0.400 == pytest.approx(counts.tasks.share, abs=0.0025)
    assert 0.23 == pytest.approx(counts.work_saved, abs=0.0051)


def test_work() -> None:
    """A step works once for each event of each of its inputs, one that joins once for each complete set."""
    template = Template(
        name="t",
        steps=(
            TemplateStep(name="a", component="A", uses=("x", "y"), gives=("left",)),
            TemplateStep(name="b", component="B", uses=("left", "x"), gives=("right",)),
            TemplateStep(name="c", component="C", uses=("left", "right"), gives=("end",)),
        ),
        variables=tuple(Variable(name=name, data_type=None) for name in ("x", "y", "left", "right", "end")),
    )
    found = []
    for inputs in Inputs:
        document = encode(template, name="t", inputs=inputs)
        (dataflow,) = canonical([("t", document)], installed_catalogue(), registered(sources_of(document)))
        found.append(sorted(works(dataflow).values()))
    assert [[2, 3, 5], [1, 1, 1]] == found


def test_joined() -> None:
    """Where steps join, the dataflows are the same, and so is what they share; traces name the workload apart."""
    joined = opmw(3, inputs="join")
    assert "opmw-join:3" == joined.name
    assert load_workload(joined.name).dataflows == joined.dataflows
    assert opmw(3).dataflows.keys() == joined.dataflows.keys()
    types = {task["type"].partition(":")[0] for each in joined.dataflows.values() for task in each["tasks"]}
    assert {"opmw", "opmw-join", "source", "output"} == types
    registry = registered(tuple(each.name for each in joined.sources))
    apart, together = (
        count_sharing(canonical(each.dataflows.items(), installed_catalogue(), registry)) for each in (opmw(3), joined)
    )
    assert (apart.steps, apart.sources, apart.outputs) == (together.steps, together.sources, together.outputs)
    # Each step works once for each complete set, so that the work saved is the part of the steps that is shared.
    assert together.steps.share == pytest.approx(together.work_saved, abs=0.0006)


def test_seeds() -> None:
    """A seed always gives the same workload, another one another; documents are named as the dataflows are."""
    assert opmw(7).dataflows == opmw(7).dataflows
    assert set(opmw(7).dataflows) != set(opmw(8).dataflows)
    assert ("opmw", "opmw:7") == (opmw().name, opmw(7).name)
    assert all(name == document["name"] for name, document in opmw().dataflows.items())


FILES = Path(__file__).parent / "templates"


def test_workload_folder(tmp_path: Path) -> None:
    """Files of templates become a folder that loads as a workload; what was skipped is reported with its reason."""
    files = [str(FILES / name) for name in ("words.ttl", "model.owl", "odd.ttl", "torn.owl")]
    into = tmp_path / "made"
    result = CliRunner().invoke(app, ["opmw", *files, "--into", str(into), "--sinks"])
    assert 0 == result.exit_code, result.output
    assert "4 dataflows in" in result.output
    assert "its steps form a cycle: two > one > two" in result.output
    workload = load_workload(str(into))
    # Two of them differ only in case, which some file systems do not tell apart.
    assert {"WORDCOUNT", "WordCount-2", "Sample-Then-Model", "hidden"} == set(workload.dataflows)
    assert {"Text", "Instances", "in", "lost"} == {source.name for source in workload.sources}
    assert {"noted": 2, "repaired": 7, "skipped": 4} == workload.about["findings"]


def test_for_programs(tmp_path: Path) -> None:
    """With --json all that was found is one document: templates, what they share, and every finding."""
    result = CliRunner().invoke(app, ["opmw", str(FILES / "words.ttl"), "--into", str(tmp_path / "made"), "--json"])
    document = json.loads(result.stdout)
    assert [("WORDCOUNT", 2, 4), ("WordCount", 2, 4)] == [
        (each["template"], each["steps"], each["distinct"]) for each in document["templates"]
    ]
    assert {
        "steps": {"total": 4, "distinct": 2, "shared": 0.5, "users": {"2": 2, "3": 0, "4": 0, "5+": 0}},
        "sources": {"total": 2, "distinct": 1, "shared": 0.5, "users": {"2": 1, "3": 0, "4": 0, "5+": 0}},
        "outputs": {"total": 2, "distinct": 1, "shared": 0.5, "users": {"2": 1, "3": 0, "4": 0, "5+": 0}},
        "steps and sources": {"total": 6, "distinct": 3, "shared": 0.5, "users": {"2": 3, "3": 0, "4": 0, "5+": 0}},
        "work saved": 0.5,
    } == document["shared"]
    assert ["it computes what 'WORDCOUNT' does"] == [each["reason"] for each in document["findings"]]


def test_counts_without_sources(tmp_path: Path) -> None:
    """The source that feeds all first steps where sources are left out is counted as a source, and never as a step."""
    files = [str(FILES / name) for name in ("words.ttl", "model.owl")]
    result = CliRunner().invoke(
        app, ["opmw", *files, "--into", str(tmp_path / "made"), "--sources", "none", "--sinks", "--json"]
    )
    shared = json.loads(result.stdout)["shared"]
    counts = {name: (shared[name]["total"], shared[name]["distinct"]) for name in ("steps", "sources", "outputs")}
    assert {"steps": (6, 4), "sources": (3, 1), "outputs": (3, 2)} == counts


def test_causes(tmp_path: Path) -> None:
    """What was met many times is shown once, with its cause, how often, and where first; each one where asked for."""
    file = tmp_path / "many.ttl"
    variables = "".join(f":in{number} a :Zebra, :Horse . :s o:uses :in{number} . " for number in range(5))
    file.write_text(
        "@prefix o: <http://www.opmw.org/ontology/> . @prefix : <http://example.org/l#> . "
        f":t a o:WorkflowTemplate . :s o:isStepOfTemplate :t ; a :Sort . {variables}",
        encoding="utf-8",
    )
    asked = ["opmw", str(file), "--wide", "--into"]
    once = CliRunner().invoke(app, [*asked, str(tmp_path / "once")]).output
    cause = "variables have several data types; the first that the file declares is taken"
    assert 1 == once.count(cause)
    (line,) = (" ".join(each.split()) for each in once.splitlines() if cause in each)
    assert f"repaired 5 {cause} t: in0, t: in1, t: in2 and 2 more" == line
    each = CliRunner().invoke(app, [*asked, str(tmp_path / "each"), "--details"]).output
    assert 5 == each.count("has 2 data types, Zebra, Horse; the first is taken")
    document = json.loads(CliRunner().invoke(app, [*asked, str(tmp_path / "json"), "--json"]).stdout)
    assert 5 == len(document["findings"])


def test_joined_inputs(tmp_path: Path) -> None:
    """With --inputs join steps with several inputs join them, and the folder loads as a workload."""
    file = tmp_path / "merge.ttl"
    file.write_text(
        "@prefix o: <http://www.opmw.org/ontology/> . @prefix : <http://example.org/l#> . "
        ":t a o:WorkflowTemplate . :s o:isStepOfTemplate :t ; a :Merge ; o:uses :left, :right .",
        encoding="utf-8",
    )
    into = tmp_path / "made"
    result = CliRunner().invoke(app, ["opmw", str(file), "--into", str(into), "--inputs", "join"])
    assert 0 == result.exit_code, result.output
    workload = load_workload(str(into))
    assert "opmw-join:Merge" == workload.dataflows["t"]["tasks"][0]["type"]
    assert "--inputs join" in workload.about["made by"]


def test_nothing_to_import(tmp_path: Path) -> None:
    """Where no template can run nothing is written, and the command says so and fails."""
    result = CliRunner().invoke(app, ["opmw", str(FILES / "torn.owl"), "--into", str(tmp_path / "made")])
    assert 1 == result.exit_code
    assert "no file contains a template that can run" in result.stderr
    assert not (tmp_path / "made").exists()


def test_folder_in_use(tmp_path: Path) -> None:
    """A folder that holds a workload is left as it is."""
    (tmp_path / "workload.json").write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(app, ["opmw", str(FILES / "words.ttl"), "--into", str(tmp_path)])
    assert 1 == result.exit_code
    assert "already holds a workload" in result.stderr
    assert ["workload.json"] == [path.name for path in tmp_path.iterdir()]


def test_refused_document(tmp_path: Path) -> None:
    """A template whose document the checks refuse is skipped with their reason, and the others are not."""
    file = tmp_path / "long.ttl"
    steps = "".join(f":{name} o:isStepOfTemplate :{name}s ; a <http://example.org/l#{name}> ; o:uses :in . "
                    for name in ("Sort", "Sort" * 60))  # fmt: skip
    file.write_text(
        f"@prefix o: <http://www.opmw.org/ontology/> . @prefix : <http://example.org/> . {steps}", encoding="utf-8"
    )
    result = CliRunner().invoke(app, ["opmw", str(file), "--into", str(tmp_path / "made"), "--json"])
    document = json.loads(result.stdout)
    assert ["Sorts"] == [each["template"] for each in document["templates"]]
    (reason,) = (each["reason"] for each in document["findings"] if each["outcome"] == "skipped")
    assert reason.startswith("its document is refused: /tasks/0/type")
