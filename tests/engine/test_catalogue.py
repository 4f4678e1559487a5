"""The catalogue of installed types, and the built-in ones as far as documents are checked against them."""

import json
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from benchmarks.task_configs import CONFIGS, EVENT_FIELDS
from dags import Catalogue, Config, Dataflow, InvalidDocument, Kind, Problem, Read, Schema, Source, State, TaskType
from dags.canonical import canonicalise
from engine import BrokenTaskTypes, installed_catalogue
from engine.catalogue import _GROUP
from engine.tasks import TYPES
from engine.tasks.compute import JoinStepConfig, join_step_type, step_type
from tests.notation import document

HEAVY = {
    "datasketches",
    "matplotlib",
    "numpy",
    "paho",
    "pandas",
    "pyarrow",
    "pyspark",
    "rbloom",
    "scipy",
    "sklearn",
    "sqlalchemy",
}
"""What only hosts and their workers need."""
DESCRIBES = "from dags import Config, Namespace, TaskType\n\n\nclass C(Config):\n    pass\n\n\n"


class Site:
    """A folder on the import path in which packages are installed by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, package: str, module: str, text: str, **entry_points: str) -> None:
        """Write a module and what says that its package is installed."""
        (self.folder / f"{module}.py").write_text(text, encoding="utf-8")
        info = self.folder / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
        lines = [f"{name} = {value}\n" for name, value in entry_points.items()]
        (info / "entry_points.txt").write_text(f"[{_GROUP}]\n{''.join(lines)}", encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A place to install packages; afterwards their modules are forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("acme_types", "zinc_types"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Site(tmp_path)


def refusal() -> str:
    with pytest.raises(BrokenTaskTypes) as refused:
        installed_catalogue()
    return str(refused.value)


def test_the_built_in_types_are_installed() -> None:
    """By an entry point, like those of any package."""
    catalogue = installed_catalogue()
    assert all(catalogue.find(kind.name) is kind for kind in TYPES)


def test_a_package_adds_types_and_namespaces(site: Site) -> None:
    """One by one or several at once, besides the built-in ones."""
    site.install(
        "acme-types",
        "acme_types",
        DESCRIBES + 'ONE = TaskType(name="acme_one", config=C)\n'
        'MANY = (TaskType(name="acme_two", config=C), Namespace("acme:", lambda name: TaskType(name=name, config=C)))\n'
        "NONE = []\n",
        one="acme_types:ONE",
        many="acme_types:MANY",
        none="acme_types:NONE",
    )
    catalogue = installed_catalogue()
    assert isinstance(catalogue, Catalogue)
    found = [catalogue.find(name) for name in ("acme_one", "acme_two", "acme:three", "output")]
    assert ["acme_one", "acme_two", "acme:three", "output"] == [kind.name for kind in found if kind is not None]
    assert catalogue.find("acme_three") is None
    assert {"acme_one", "acme_two", "acme:*", "count"} <= set(catalogue.names())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("X = 1", "AttributeError: module 'acme_types' has no attribute 'TYPES'"),
        ("TYPES = (1 / 0 for _ in 'x')", "ZeroDivisionError: division by zero"),
        (
            DESCRIBES + "TYPES = TaskType(name='t', config=C, version=0)",
            "ValueError: task type 't' has version 0; versions start at 1",
        ),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(site: Site, text: str, said: str) -> None:
    """With its entry point, the reason and a remedy."""
    site.install("acme-types", "acme_types", text, all_of_them="acme_types:TYPES")
    assert (
        f"the entry point 'all_of_them' of acme-types cannot be loaded: {said}; repair or uninstall that package"
    ) == refusal()


@pytest.mark.parametrize(
    ("offered", "what"),
    [("5", "int"), ("'text'", "str"), ("[C]", "ModelMetaclass"), ("None", "NoneType"), ("TaskType", "type")],
)
def test_a_package_that_offers_nonsense_is_named(site: Site, offered: str, what: str) -> None:
    """Only task types and namespaces are allowed."""
    site.install("acme-types", "acme_types", f"{DESCRIBES}TYPES = {offered}", all="acme_types:TYPES")
    assert (
        f"the entry point 'all' of acme-types provides {what}, which is neither a task type nor a namespace; "
        "repair or uninstall that package"
    ) == refusal()


def test_packages_that_clash_are_refused(site: Site) -> None:
    """With a built-in type, or with each other."""
    site.install("acme-types", "acme_types", DESCRIBES + "TYPES = TaskType(name='a', config=C)", all="acme_types:TYPES")
    installed_catalogue()
    site.install("zinc-types", "zinc_types", DESCRIBES + "TYPES = TaskType(name='a', config=C)", all="zinc_types:TYPES")
    assert "two task types are named 'a'; rename one, or install only one of them" == refusal()


def test_a_namespace_that_covers_another_package_is_refused(site: Site) -> None:
    """It would provide types that it did not make."""
    site.install("acme-types", "acme_types", DESCRIBES + "TYPES = Namespace('cou', C)", all="acme_types:TYPES")
    assert "namespace 'cou' also covers 'count'; choose another prefix" == refusal()


def test_describing_tasks_loads_no_implementation(tmp_path: Path) -> None:
    """Code that only checks documents loads neither Spark nor numerics."""
    script = (
        "import sys, dags, merge, engine, engine.tasks\n"
        "engine.installed_catalogue()\n"
        f"heavy = {HEAVY!r}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert ("[]\n", "", 0) == (done.stdout, done.stderr, done.returncode)


def test_checking_every_type_loads_no_implementation(tmp_path: Path) -> None:
    """A document with all of them is checked without Spark, scikit-learn and other packages."""
    script = (
        "import json, sys\n"
        "from dags import Kind, Schema, Source\nfrom dags.canonical import canonicalise\n"
        "from engine import installed_catalogue\n"
        "text, fields = json.load(sys.stdin)\n"
        "schema = Schema.of({name: Kind(kind) for name, kind in fields.items()})\n"
        "source = Source(name='s', owner='ann', schema=schema)\n"
        "flow = canonicalise(\n"
        "    text, dataflow='d', tenant='ann', catalogue=installed_catalogue(), sources={'s': source}\n"
        ")\n"
        f"heavy = {HEAVY!r}\n"
        "print(len({task.type for task in flow.tasks}), sorted(heavy & set(sys.modules)))\n"
    )
    given = json.dumps([json.dumps(every_type()), {name: kind.value for name, kind in EVENT_FIELDS.items()}])
    done = run([sys.executable, "-c", script], cwd=tmp_path, input=given, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert (f"{len(TYPES) + 2} []\n", "", 0) == (done.stdout, done.stderr, done.returncode)


def every_type() -> dict[str, Any]:
    """A document in which a task of each type reads one source at all its ports."""
    tasks: list[dict[str, Any]] = [{"id": "s", "type": "source", "config": {"source": "s"}}]
    streams: list[dict[str, str]] = []
    join, configs = join_step_type("opmw-join:Step"), {**CONFIGS, "opmw-join:Step": {"inputs": 2}}
    for kind in (*TYPES, step_type("opmw:Step"), join.of(JoinStepConfig(inputs=2))):
        if not kind.is_source:
            tasks.append({"id": kind.name, "type": kind.name, "config": _unowned(configs.get(kind.name, {}))})
            streams += [{"from": "s", "to": kind.name, "to_port": port} for port in kind.inputs]
    sinks = [task["id"] for task in tasks if task["id"] not in {kind.name for kind in TYPES if kind.is_sink}]
    tasks += [{"id": f"{each} out", "type": "null_sink"} for each in sinks]
    kinds = {kind.name: kind for kind in TYPES}
    for each in sinks:
        port = kinds[each].outputs[0] if each in kinds else "out"
        streams.append({"from": each, "from_port": port, "to": f"{each} out"})
    return {"version": 1, "name": "all", "tasks": tasks, "streams": streams}


def _unowned(value: Any) -> Any:
    """A config as a document has it, which does not say who owns a place."""
    if isinstance(value, dict):
        named = value.keys() & {"place", "secret"}
        return {name: _unowned(each) for name, each in value.items() if not (named and name == "owner")}
    return value


SOURCES = {
    "city": Source(
        name="city",
        owner="ann",
        schema=Schema.of(
            sensor=Kind.STRING, time=Kind.TIMESTAMP, temperature=Kind.FLOAT, dust=Kind.INTEGER, raw=Kind.JSON
        ),
    )
}


class NeedConfig(Config):
    field: str


def seen(kind: Kind) -> TaskType[NeedConfig]:
    """A sink that takes a field of one kind only, to see what leaves a task."""
    return TaskType(
        name=f"see_{kind}",
        config=NeedConfig,
        outputs=(),
        reads=lambda config: (Read(at="field", field=config.field, kinds=frozenset({kind})),),
    )


CATALOGUE = Catalogue.of([*TYPES, *map(seen, Kind)])


def check(kind: str, config: dict[str, Any], below: str = "output", see: str = "") -> Dataflow:
    """A document in which a task of this type stands between a source and a sink."""
    written = document(f"s:source > t:{kind} > k:{below}")
    written["tasks"][0]["config"] = {"source": "city"}
    written["tasks"][1]["config"] = config
    written["tasks"][2]["config"] = {"field": see} if see else {}
    return canonicalise(json.dumps(written), dataflow="d", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)


def problems_with(
    kind: str, config: dict[str, Any], below: str = "output", see: str = ""
) -> list[tuple[str, str, str, str]]:
    with pytest.raises(InvalidDocument) as refused:
        check(kind, config, below, see)
    return [_fields_of(problem) for problem in refused.value.problems]


def _fields_of(problem: Problem) -> tuple[str, str, str, str]:
    return problem.pointer, problem.code, problem.message, problem.remedy


def leaving(kind: str, config: dict[str, Any]) -> dict[str, str]:
    """The fields of what leaves a task, with their kinds."""
    found = TYPES_BY_NAME[kind]
    outputs = found.output_schema(found.config.model_validate(config, strict=False), {"in": SOURCES["city"].schema})
    return {name: str(value) for name, value in outputs["out"].fields.items()}


TYPES_BY_NAME = {kind.name: kind for kind in TYPES}


def test_the_library_is_sorted() -> None:
    """One description per name, each with a summary."""
    names = [kind.name for kind in TYPES]
    assert sorted(set(names)) == names
    assert [] == [kind.name for kind in TYPES if not kind.summary.endswith(".")]


def test_the_state_of_types() -> None:
    """Averages and counts keep state per key."""
    assert ("sensor",) == TYPES_BY_NAME["count"].key_fields(TYPES_BY_NAME["count"].config(by=("sensor",)))
    average = TYPES_BY_NAME["block_window_average"]
    assert ("a", "b") == average.key_fields(average.config(field="x", by=("a", "b")))
    assert [State.KEY, State.KEY] == [TYPES_BY_NAME["count"].state, average.state]


def test_the_ends() -> None:
    """Sources are named, outputs have no settings."""
    assert ["source"] == [kind.name for kind in TYPES if kind.is_source]
    assert "output" in [kind.name for kind in TYPES if kind.is_sink]
    flow = check("count", {})
    assert ({"source": "city"}, {}) == (flow.tasks[0].config, flow.tasks[2].config)


def test_a_range_filter_passes_events_on() -> None:
    """With all their fields, whatever its effect outside the range."""
    flow = check("range_filter", {"field": "temperature", "min": -5, "max": 40})
    assert {"field": "temperature", "max": 40, "min": -5, "outside": "null"} == flow.tasks[1].config
    assert {name: str(kind) for name, kind in SOURCES["city"].schema.fields.items()} == leaving(
        "range_filter", {"field": "dust", "min": 0, "max": 0, "outside": "drop"}
    )


def test_a_range_has_its_bounds_in_order() -> None:
    """They may be equal."""
    check("range_filter", {"field": "dust", "min": 7.5, "max": 7.5})
    message = "the value is not valid: min 8 is greater than max 7.5"
    remedy = "change it"
    assert [("/tasks/1/config", "wrong-value", message, remedy)] == problems_with(
        "range_filter", {"field": "dust", "min": 8, "max": 7.5}
    )


def test_a_range_filter_drops_or_nulls() -> None:
    """Nothing else is allowed."""
    check("range_filter", {"field": "dust", "min": 0, "max": 1, "outside": "drop"})
    [(place, code, message, _)] = problems_with(
        "range_filter", {"field": "dust", "min": 0, "max": 1, "outside": "keep"}
    )
    assert ("/tasks/1/config/outside", "wrong-value", "the value should be 'drop' or 'null'") == (place, code, message)


def test_a_range_filter_needs_its_bounds_and_field() -> None:
    """None has a default."""
    assert ["/tasks/1/config/field", "/tasks/1/config/max", "/tasks/1/config/min"] == [
        place for place, *_ in problems_with("range_filter", {})
    ]


@pytest.mark.parametrize(("kind", "more"), [("range_filter", {"min": 0, "max": 1}), ("block_window_average", {})])
def test_a_measured_field_has_to_be_a_number(kind: str, more: dict[str, Any]) -> None:
    """A missing field, or one of another kind, is a problem at its place. Integers and floats are allowed."""
    for field in ("temperature", "dust"):
        check(kind, {"field": field, **more})
    place = "/tasks/1/config/field"
    message = "the events that reach port 'in' have no field 'temprature'"
    assert [(place, "unknown-field-upstream", message, "did you mean 'temperature'?")] == problems_with(
        kind, {"field": "temprature", **more}
    )
    for field, what in (("sensor", "string"), ("time", "timestamp"), ("raw", "json")):
        message = f"the field '{field}' is of kind {what} at port 'in'"
        assert [(place, "wrong-kind-upstream", message, "choose a field of kind float or integer")] == problems_with(
            kind, {"field": field, **more}
        )


def test_a_block_window_average_emits_its_keys_and_the_mean() -> None:
    """The mean is always a float, even of integers and if it is a key. Other fields are dropped."""
    flow = check("block_window_average", {"field": "dust", "by": ["sensor"]})
    assert {"by": ["sensor"], "field": "dust", "window": 10} == flow.tasks[1].config
    config = {"field": "dust", "by": ("sensor", "time")}
    assert {"dust": "float", "sensor": "string", "time": "timestamp"} == leaving("block_window_average", config)
    assert {"dust": "float"} == leaving("block_window_average", {"field": "dust"})
    assert {"dust": "float"} == leaving("block_window_average", {"field": "dust", "by": ("dust",)})
    check("block_window_average", {"field": "dust"}, "see_float", "dust")
    assert (
        "unknown-field-upstream"
        == problems_with("block_window_average", {"field": "dust"}, "see_string", "sensor")[0][1]
    )


def test_a_window_has_at_least_one_event() -> None:
    """And a whole number of events."""
    check("block_window_average", {"field": "dust", "window": 1})
    config: dict[str, Any] = {"field": "dust", "window": 0}
    assert [("/tasks/1/config/window", "wrong-value")] == [
        found[:2] for found in problems_with("block_window_average", config)
    ]
    config["window"] = 1.5
    assert [("/tasks/1/config/window", "wrong-type")] == [
        found[:2] for found in problems_with("block_window_average", config)
    ]


@pytest.mark.parametrize(("kind", "more"), [("count", {}), ("block_window_average", {"field": "dust"})])
def test_keys_have_to_be_there_upstream(kind: str, more: dict[str, Any]) -> None:
    """Each missing key is a problem at its place, once. Keys may be of any kind."""
    check(kind, {"by": ["sensor", "time", "temperature", "dust", "raw"], **more})
    assert [("/tasks/1/config/by/1", "unknown-field-upstream"), ("/tasks/1/config/by/2", "unknown-field-upstream")] == [
        found[:2] for found in problems_with(kind, {"by": ["sensor", "x", "y"], **more})
    ]


def test_a_count_emits_its_keys_and_the_count() -> None:
    """An integer, even if a key has its name."""
    assert {"by": []} == check("count", {}).tasks[1].config
    assert {"count": "integer"} == leaving("count", {})
    assert {"count": "integer", "sensor": "string"} == leaving("count", {"by": ("sensor",)})
    check("count", {"by": ["sensor"]}, "see_integer", "count")


def test_pi_is_computed_anew_for_every_event() -> None:
    """Other fields are dropped. At least one iteration is needed."""
    assert {"iterations": 1_600} == check("pi_viete", {}).tasks[1].config
    assert {"pi": "float"} == leaving("pi_viete", {})
    check("pi_viete", {"iterations": 1})
    assert [("/tasks/1/config/iterations", "wrong-value")] == [
        found[:2] for found in problems_with("pi_viete", {"iterations": 0})
    ]
