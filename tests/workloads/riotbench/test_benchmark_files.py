"""The benchmark's own files become the events that its generators make, and what is wrong with one is named by line."""

import json
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.trial import try_out
from manager.command import app
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, DataSet
from workloads.riotbench.generator import rows
from workloads.riotbench.rows import WrongFile, read_rows

PUBLISHED = (
    '1417890600000,{"e":[{"u":"string","n":"subjectId","sv":"subject8"},{"v":"-9.5","u":"m\\/s2","n":"acc_chest_x"},'
    '{"v":"0","u":"number ","n":"label"}],"bt":"1417890600000"}'
)
"""A row in the form of the published files: slashes are escaped, and the base time is a text."""
GRID_CSV = "timestamp,meterid,energyconsumed\n"


@pytest.mark.parametrize("data", DATA_SETS.values(), ids=lambda data: data.name)
def test_rows_of_senml_are_read_as_they_are(data: DataSet, tmp_path: Path) -> None:
    """What a generator makes comes back, with its numbers; empty lines are passed over."""
    made = list(islice(rows(data, 1), 20))
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([*made[:10], "", *made[10:]]) + "\n", encoding="utf-8")
    assert made == list(read_rows(path, data))


def test_a_published_row_is_parsed(tmp_path: Path) -> None:
    """Also where it writes its base time as a text."""
    path = tmp_path / "fit.csv"
    path.write_text(PUBLISHED, encoding="utf-8")
    (row,) = read_rows(path, FITNESS)
    config = {"field": "row", "per": "row", "observed": ["acc_chest_x"], "also": {"subjectId": "string"}}
    (parsed,) = try_out("senml_parse", config, [{"msg": 0, "row": row}])["out"]
    assert ("subject8", -9.5, 1_417_890_600_000) == (
        parsed["subjectId"],
        parsed["acc_chest_x"],
        1_000 * parsed["time"].timestamp(),
    )


def test_csv_with_a_header_becomes_rows(tmp_path: Path) -> None:
    """Columns come in any order, times in either form, and an empty value is left out."""
    path = tmp_path / "grid.csv"
    path.write_text('energyconsumed,timestamp,meterid\n2.5,1000,7\n,1970-01-01T00:00:02,"8"\n', encoding="utf-8")
    assert [
        '1000,{"e":[{"u":"string","n":"meterid","sv":"7"},{"u":"kwh","n":"energyconsumed","v":"2.5"}],"bt":1000}',
        '2000,{"e":[{"u":"string","n":"meterid","sv":"8"}],"bt":2000}',
    ] == list(read_rows(path, GRID))


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "is empty"),
        ("a,b\n1,2\n", 1, "'meterid'"),
        (GRID_CSV + "1000,7,2.5\n1000,7\n", 3, "2 values for 3 columns"),
        (GRID_CSV + "1000,7,x\n", 2, "'energyconsumed' is 'x', which is no number"),
        (GRID_CSV + "1000,7,inf\n", 2, "'energyconsumed' is 'inf', which is no number"),
        (GRID_CSV + "soon,7,1\n", 2, "'timestamp' is 'soon'"),
        (GRID_CSV + "1000,,1\n", 2, "'meterid' is empty"),
        ('1,{"e":[{"n":"meterid"}]}\n1,{"e":7}\n', 2, "is no row of SenML"),
        ('1,{"e":[{"n":"meterid"}]}\n1,{"e":[\n', 2, "is no row of SenML"),
        ('{"e":[{"n":"meterid"}]}\n', 1, "has no time"),
        ('1,{"e":[{"n":"source"}]}\n', 1, "the row has no 'meterid'"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(text: str, line: int, why: str, tmp_path: Path) -> None:
    """A file that does not hold the set is refused where it first does not."""
    path = tmp_path / "grid.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(WrongFile) as refused:
        list(read_rows(path, GRID))
    assert str(refused.value).startswith(f"{path}, line {line}: ")
    assert why in str(refused.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Files that are missing, and such as hold no text."""
    packed = tmp_path / "packed"
    packed.write_bytes(b"\xff\xfe\x00")
    for path, why in ((tmp_path / "none", "No such file"), (packed, "is not UTF-8 text")):
        with pytest.raises(WrongFile, match=why):
            list(read_rows(path, TAXI))


def test_the_command_writes_events_whole_or_not_at_all(tmp_path: Path) -> None:
    """Files follow one another with numbers that go on; where one is wrong, nothing is left."""
    good, bad, into = tmp_path / "good.csv", tmp_path / "bad.csv", tmp_path / "into.jsonl"
    good.write_text(GRID_CSV + "1000,7,2.5\n", encoding="utf-8")
    bad.write_text(GRID_CSV + "1000,7,x\n", encoding="utf-8")
    call = ["riotbench", str(good), "--set", "grid", "--into", str(into)]
    refused = CliRunner().invoke(app, [*call, str(bad)])
    assert (1, {good, bad}) == (refused.exit_code, set(tmp_path.iterdir()))
    assert "bad.csv, line 2" in refused.stderr
    done = CliRunner().invoke(app, [*call, str(good), "--json"])
    assert {"set": "grid", "rows": 2, "into": str(into)} == json.loads(done.stdout)
    (row,) = read_rows(good, GRID)
    assert [{"msg": 0, "row": row}, {"msg": 1, "row": row}] == [
        json.loads(line) for line in into.read_text(encoding="utf-8").splitlines()
    ]
