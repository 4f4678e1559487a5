"""Events of RIoTBench's data sets: the benchmark's form, sizes and ranges, and the same ones for the same seed."""

import json
from collections import Counter, defaultdict
from itertools import islice
from statistics import fmean
from typing import Any

import pytest

from engine.tasks.predictive import DecisionTree, LinearRegression, read_model
from engine.trial import try_out
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, URBAN, DataSet
from workloads.riotbench.generator import MISSING, STRAY, events, models, rows
from workloads.riotbench.rows import row

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
