"""Events of RIoTBench: from the benchmark's own files, and made in its form, the same for the same seed."""

import json
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.tasks.predictive import DecisionTree, LinearRegression, read_model
from engine.trial import try_out
from manager.command import app
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, URBAN, DataSet
from workloads.riotbench.generator import MISSING, STRAY, events, models, rows
from workloads.riotbench.rows import WrongFile, read_rows, row

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


MANY = 6_000
EVERY = pytest.mark.parametrize("data", DATA_SETS.values(), ids=lambda data: data.name)


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    time, _, body = text.partition(",")
    return time, json.loads(body)


@EVERY
def test_rows_have_the_form_and_size_of_the_benchmark(data: DataSet) -> None:
    """Time, entries and base time, all values texts; the mean size is within 5 % of the published one."""
    published = {"urban": 380, "taxi": 870, "grid": 130, "fitness": 1_230}
    found = list(islice(rows(data, 1), MANY))
    assert pytest.approx(published[data.name], rel=0.05) == fmean(map(len, found))
    units = {field.name: (field.unit, "sv" if field.text else "v") for field in data.fields}
    for number, text in enumerate(found[:200]):
        time, body = parsed(text)
        assert {"e", "bt"} == body.keys()
        assert int(time) == body["bt"] == data.begin + number * data.step
        first, *others = body["e"]
        assert {"u": "string", "n": data.key, "sv": data.sensors[number % len(data.sensors)]} == first
        for entry in others:
            unit, kind = units[entry["n"]]
            assert {"u", "n", kind} == entry.keys()
            assert (unit, str) == (entry["u"], type(entry[kind]))


@EVERY
def test_some_values_are_out_of_range_and_some_are_missing(data: DataSet) -> None:
    """As many as the constants say, in every observed field, so that filters and interpolation have work."""
    values: dict[str, list[float]] = defaultdict(list)
    for text in islice(rows(data, 2), MANY):
        for entry in parsed(text)[1]["e"]:
            if entry["n"] in data.observed:
                values[entry["n"]].append(float(entry["v"]))
    # What is not paid is given as 0, which is out of range.
    unpaid = {"tip_amount", "tolls_amount"}
    for name in data.observed:
        assert pytest.approx(1 - MISSING, abs=0.006) == len(values[name]) / MANY
        if name in data.ranges:
            low, high = data.ranges[name]
            out = sum(not low <= value <= high for value in values[name] if value or name not in unpaid)
            # Of those that are there, and to four standard deviations.
            assert pytest.approx(STRAY, abs=0.008) == out / MANY
            assert high - low > max(values[name]) - high > 0


def test_values_take_a_daily_course_and_rides_cost_by_their_length() -> None:
    """The city is warmer by day than by night, and a ride's fare goes with its distance."""
    by_hour: dict[int, list[float]] = defaultdict(list)
    for time, body in map(parsed, islice(rows(URBAN, 1), 2 * 1_440)):
        for entry in body["e"]:
            if entry["n"] == "temperature":
                by_hour[int(time) // 3_600_000 % 24].append(float(entry["v"]))
    assert fmean(by_hour[12]) - fmean(by_hour[0]) > URBAN.fields[2].swing
    fares: dict[bool, list[float]] = defaultdict(list)
    for _, body in map(parsed, islice(rows(TAXI, 1), 500)):
        ride = {entry["n"]: entry.get("v") for entry in body["e"]}
        if ride.get("trip_distance") and ride.get("fare_amount"):
            fares[float(ride["trip_distance"]) > 5].append(float(ride["fare_amount"]))
    assert fmean(fares[True]) > 1.5 * fmean(fares[False])


@EVERY
def test_the_same_seed_draws_the_same_events(data: DataSet) -> None:
    """Another seed draws others; numbers count from 0, over the blocks in which rows are drawn."""
    first, again, other = (list(islice(events(data, seed), 1_500)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert list(range(1_500)) == [event["msg"] for event in first]


@pytest.mark.parametrize("data", [URBAN, TAXI, FITNESS], ids=lambda data: data.name)
def test_models_are_such_as_the_tasks_take(data: DataSet) -> None:
    """A regression and a tree in turn; the tree tells classes apart, and the line errs less than a guess."""
    line, tree, *_ = (str(event["model"]) for event in islice(models(data, 1), 4))
    assert read_model(line, LinearRegression, data.features)
    assert read_model(tree, DecisionTree, data.features)
    config = {"field": "row", "per": "row", "observed": list(data.observed)}
    parsed = try_out("senml_parse", config, [dict(event) for event in islice(events(data, 1), data.learned)])["out"]
    asked = [each for each in parsed if all(each[name] is not None for name in (*data.features, data.target))]
    fields = {"fields": list(data.features)}
    placed = [("in", {name: each[name] for name in (*data.features, data.target)}) for each in asked]
    classified = try_out("decision_tree_classify", fields, [("model", {"model": tree}), *placed])["out"]
    predicted = try_out("linear_regression_predict", fields, [("model", {"model": line}), *placed])["out"]
    guess = fmean(each[data.target] for each in asked)
    erred = fmean((each[data.target] - each["prediction"]) ** 2 for each in predicted)
    assert erred < fmean((each[data.target] - guess) ** 2 for each in asked)
    assert min(Counter(each["class"] for each in classified).values()) > len(asked) / 5
    means = [
        fmean(each[data.target] for each in classified if each["class"] == name)
        for name in ("BAD", "GOOD", "VERYGOOD", "EXCELLENT")
    ]
    assert means[0] < means[-1]


def test_a_text_stands_in_a_row_as_json_has_it() -> None:
    """Quotes in what a file tells do not break its row."""
    name = 'a"b\\c'
    assert name == parsed(row(GRID, 5, name, {}))[1]["e"][0]["sv"]
