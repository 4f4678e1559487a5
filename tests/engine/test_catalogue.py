"""The catalogue of installed types, from the entry points of packages."""

import json
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from benchmarks.task_configs import CONFIGS, EVENT_FIELDS
from dags import Catalogue
from engine import BrokenTaskTypes, installed_catalogue
from engine.catalogue import _GROUP
from engine.tasks import TYPES
from engine.tasks.compute import JoinStepConfig, join_step_type, step_type

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
        "from dags import Kind, Schema, Source, canonicalise\n"
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
