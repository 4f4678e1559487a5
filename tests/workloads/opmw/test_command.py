"""The command `braid opmw`."""

import json
from pathlib import Path

from typer.testing import CliRunner

from manager.command import app
from workloads.workload import load_workload

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
    asked = ["opmw", str(file), "--into"]
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
