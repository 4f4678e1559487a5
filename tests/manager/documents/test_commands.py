"""`braid check`, `braid schema` and `braid version`: output and exit codes."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from dags import Document
from manager.command import app
from tests.braid_client.samples import SOURCE, TENANT
from tests.braid_client.scripted_service import page
from tests.manager.braid_runner import Braid
from workloads.examples import EXAMPLES, SOURCES


def braid(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(name="braid_called")
def _braid_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Braid:
    return Braid(monkeypatch, tmp_path)


def test_check_counts_the_tasks_shared_with_earlier_documents() -> None:
    """For each valid document, in order."""
    result = braid("check", EXAMPLES["school"], EXAMPLES["health"], EXAMPLES["taxi-office"], "--sources", SOURCES)
    assert result.output.splitlines() == [
        f"{EXAMPLES['school']}: valid; 4 distinct tasks",
        f"{EXAMPLES['health']}: valid; 7 distinct tasks, 3 shared with earlier documents",
        f"{EXAMPLES['taxi-office']}: valid; 4 distinct tasks",
    ]
    assert result.exit_code == 0


def test_check_knows_dataflows_that_adapt(tmp_path: Path) -> None:
    """Each alternate is checked; what is counted is what the dataflow begins with."""
    document = json.loads(EXAMPLES["school"].read_text(encoding="utf-8"))
    task = next(each for each in document["tasks"] if each["type"] not in {"source", "output"})
    task["alternates"] = [
        {"name": name, "type": task["type"], "config": config, "value": 1, "cost": 1}
        for name, config in (("one", task["config"]), ("other", {**task["config"], "nonsense": 1}))
    ]
    del task["type"], task["config"]
    adapts = tmp_path / "adapts.json"
    adapts.write_text(json.dumps(document), encoding="utf-8")
    (problem,) = braid("check", adapts, "--sources", SOURCES).stderr.splitlines()
    assert "/alternates/1/config/nonsense: " in problem
    del document["tasks"][document["tasks"].index(task)]["alternates"][1]
    document["policy"] = {"latency": 10}
    task |= {key: task["alternates"][0][key] for key in ("type", "config")}
    del task["alternates"]
    adapts.write_text(json.dumps(document), encoding="utf-8")
    result = braid("check", adapts, "--sources", SOURCES)
    assert [f"{adapts}: valid; 4 distinct tasks"] == result.output.splitlines()


def test_check_reports_all_problems_of_all_documents(tmp_path: Path) -> None:
    """The problems are on standard error; an invalid document does not stop the check of the others."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1, "name": "x", "tasks": [{"id": "a", "type": "outptu"}], "streams": [], "more": 1}')
    result = braid("check", bad, tmp_path / "none.json", EXAMPLES["school"], "--sources", SOURCES)
    assert result.stderr.splitlines() == [
        f"{bad}: /tasks/0/type: unknown task type 'outptu'; did you mean 'output'?",
        f"{bad}: /more: unknown field 'more'; remove it; the known fields are 'version', 'name', 'tasks', 'streams'",
        f"{tmp_path}/none.json: No such file or directory; name a readable file",
    ]
    assert result.stdout.splitlines() == [f"{EXAMPLES['school']}: valid; 4 distinct tasks"]
    assert result.exit_code == 1


def test_check_asks_the_service_for_its_sources(braid_called: Braid, tmp_path: Path) -> None:
    """For the tenant that asks; without a service it says what else to do."""
    tasks = [
        {"id": "in", "type": "source", "config": {"source": "city"}},
        {"id": "warm", "type": "range_filter", "config": {"field": "f", "min": 1, "max": 5}},
        {"id": "out", "type": "output"},
    ]
    streams = [{"from": "in", "to": "warm"}, {"from": "warm", "to": "out"}]
    document = tmp_path / "warm.json"
    document.write_text(json.dumps({"version": 1, "name": "warm", "tasks": tasks, "streams": streams}))
    result = braid_called("check", str(document), answers=[page(TENANT), page(SOURCE)])
    assert (0, f"{document}: valid; 3 distinct tasks\n") == (result.exit_code, result.stdout)
    refused = braid_called("check", str(document), "--tenant", "eve", answers=[page(SOURCE)])
    assert (1, True) == (refused.exit_code, "city" in refused.stderr)
    alone = braid_called("check", str(document), answers=[httpx.ConnectError("nobody")] * 20)
    assert (1, True) == (alone.exit_code, "name it with --sources" in alone.stderr)


def test_check_prints_one_json_document(tmp_path: Path) -> None:
    """With --json, even if a document is invalid or the sources cannot be read."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1, "name": "x", "tasks": [{"id": "a", "type": "outptu"}], "streams": []}')
    result = braid("check", EXAMPLES["school"], bad, "--sources", SOURCES, "--json")
    good, refused = json.loads(result.stdout)
    assert {"file": str(EXAMPLES["school"]), "good": True, "distinct": 4, "shared": 0, "problems": []} == good
    assert (False, ["/tasks/0/type"]) == (refused["good"], [each["pointer"] for each in refused["problems"]])
    assert result.exit_code == 1
    unread = braid("check", bad, "--sources", tmp_path / "none.json", "--json")
    assert (1, "no-use") == (unread.exit_code, json.loads(unread.stdout)["problem"]["code"])


OWN = """from dags import Config, TaskType, Namespace

class GreetConfig(Config):
    loud: bool = False

TYPES = [TaskType(name="own:greet", config=GreetConfig)]
OTHERS = Namespace("others:", lambda name: TaskType(name=name, config=GreetConfig))
WRONG = lambda: TaskType(name="own:bad", config=GreetConfig, outputs=("a",))
NUMBER = 5
"""


def greeting(folder: Path, kind: str) -> Path:
    """A document with a task type that is not installed."""
    (folder / "own_tasks.py").write_text(OWN)
    school = json.loads(EXAMPLES["school"].read_text())
    source = next(task for task in school["tasks"] if task["type"] == "source")
    tasks = [{**source, "id": "in"}, {"id": "g", "type": kind}, {"id": "out", "type": "output"}]
    streams = [{"from": "in", "to": "g"}, {"from": "g", "to": "out"}]
    written = folder / "greeting.json"
    written.write_text(json.dumps({"version": 1, "name": "greeting", "tasks": tasks, "streams": streams}))
    return written


def test_check_accepts_task_types_from_files_and_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name defaults to `TYPES`, and the option may be repeated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    greets, others = greeting(tmp_path, "own:greet"), tmp_path / "others.json"
    others.write_text(greets.read_text().replace("own:greet", "others:greet"))
    assert braid("check", greets, "--sources", SOURCES).exit_code == 1
    for place in ("own_tasks.py", "own_tasks", tmp_path / "own_tasks.py"):
        result = braid("check", greets, others, "--sources", SOURCES, "--types", place, "--types", f"{place}:OTHERS")
        assert (0, 2) == (result.exit_code, result.stdout.count("valid")), result.stderr


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("none.py", "'none.py' cannot be loaded: FileNotFoundError"),
        ("no_such_tasks", "'no_such_tasks' cannot be loaded: ModuleNotFoundError"),
        ("own_tasks.py:NOTHING", "cannot be loaded: AttributeError"),
        ("own_tasks.py:NUMBER", "provides int, which is neither a task type nor a namespace"),
        ("bad_tasks.py", "cannot be loaded: ValueError: task type 'own:bad' has the default output_schema"),
    ],
)
def test_check_reports_wrong_task_types(
    place: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, with the place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    greets = greeting(tmp_path, "own:greet")
    (tmp_path / "bad_tasks.py").write_text(OWN + "TYPES = [WRONG()]\n")
    result = braid("check", greets, "--sources", SOURCES, "--types", place)
    assert (1, "") == (result.exit_code, result.stdout)
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[]", "at /: Input should be an object; correct the file there"),
        ('{"a": {"owner": "x"}}', "at /a/schema: Field required; correct the file there"),
        (
            '{"a": {"owner": "x", "schema": {"f": "number"}}}',
            (
                "at /a/schema/f: Input should be 'boolean', 'integer', 'float', 'string', 'timestamp' or 'json'; "
                "correct the file there"
            ),
        ),
    ],
)
def test_check_reports_a_wrong_source_file(tmp_path: Path, content: str, complaint: str) -> None:
    """In one line, with the place in the file."""
    sources = tmp_path / "sources.json"
    sources.write_text(content)
    result = braid("check", EXAMPLES["school"], "--sources", sources)
    assert result.stderr.splitlines() == [f"{sources}: {complaint}"]
    assert result.exit_code == 1


def test_a_private_source_is_unknown_to_other_tenants(tmp_path: Path) -> None:
    """Its owner may use it."""
    sources = tmp_path / "sources.json"
    registered = json.loads(SOURCES.read_text())
    registered["urban"]["visibility"] = "private"
    sources.write_text(json.dumps(registered))
    refused = braid("check", EXAMPLES["school"], "--sources", sources)
    assert refused.stderr.splitlines() == [
        f"{EXAMPLES['school']}: /tasks/0/config/source: unknown source 'urban'; you may use 'taxi'"
    ]
    assert braid("check", EXAMPLES["school"], "--sources", sources, "--tenant", "city").exit_code == 0


def test_schema_prints_the_json_schema_of_documents() -> None:
    """The one that documents are checked against."""
    assert json.loads(braid("schema").stdout) == Document.model_json_schema()


def test_version_prints_the_installed_version() -> None:
    """As text, and as JSON."""
    assert braid("version").stdout == f"{version('braid')}\n"
    assert json.loads(braid("version", "--json").stdout) == {"version": version("braid")}


def test_wrong_usage_exits_with_2() -> None:
    """It differs from the code for an invalid document."""
    assert braid("check").exit_code == 2
