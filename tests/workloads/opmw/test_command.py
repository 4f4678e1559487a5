"""The command `braid opmw`."""

import json
from pathlib import Path

from typer.testing import CliRunner

from manager.command import app
from workloads.loading import load_workload

FILES = Path(__file__).parent / "templates"


def test_workload_folder(tmp_path: Path) -> None:
    """Files of templates become a folder that loads as a workload; what was skipped is told with its reason."""
    files = [str(FILES / name) for name in ("words.ttl", "model.owl", "odd.ttl", "torn.owl")]
    into = tmp_path / "made"
    result = CliRunner().invoke(app, ["opmw", *files, "--into", str(into), "--sinks"])
    assert 0 == result.exit_code, result.output
    assert "4 dataflows in" in result.output
    assert "its steps lead in a circle: two > one > two" in result.output
    workload = load_workload(str(into))
    # Two of them differ only in case, which some file systems do not tell apart.
    assert {"WORDCOUNT", "WordCount-2", "Sample-Then-Model", "hidden"} == set(workload.dataflows)
    assert {"Text", "Instances", "in", "lost"} == {source.name for source in workload.sources}
    assert {"noted": 2, "repaired": 7, "skipped": 4} == workload.about["findings"]


def test_for_programs(tmp_path: Path) -> None:
    """With --json all that was found is one document: templates, what they share, and every finding."""
    result = CliRunner().invoke(app, ["opmw", str(FILES / "words.ttl"), "--into", str(tmp_path / "made"), "--json"])
    told = json.loads(result.stdout)
    assert [("WORDCOUNT", 2, 4), ("WordCount", 2, 4)] == [
        (each["template"], each["steps"], each["distinct"]) for each in told["templates"]
    ]
    assert {"total": 6, "distinct": 3, "shared": 0.5, "users": {"2": 3, "3": 0, "4": 0, "5+": 0}} == told["shared"]
    assert ["it computes what 'WORDCOUNT' does"] == [each["reason"] for each in told["findings"]]


def test_nothing_to_import(tmp_path: Path) -> None:
    """Where no template can run nothing is written, and the command says so and fails."""
    result = CliRunner().invoke(app, ["opmw", str(FILES / "torn.owl"), "--into", str(tmp_path / "made")])
    assert 1 == result.exit_code
    assert "none of the files holds a template that can run" in result.stderr
    assert not (tmp_path / "made").exists()


def test_folder_in_use(tmp_path: Path) -> None:
    """A folder that holds a workload is left as it is."""
    (tmp_path / "workload.json").write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(app, ["opmw", str(FILES / "words.ttl"), "--into", str(tmp_path)])
    assert 1 == result.exit_code
    assert "holds a workload already" in result.stderr
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
    told = json.loads(result.stdout)
    assert ["Sorts"] == [each["template"] for each in told["templates"]]
    (reason,) = (each["reason"] for each in told["findings"] if each["outcome"] == "skipped")
    assert reason.startswith("its document is refused: /tasks/0/type")
