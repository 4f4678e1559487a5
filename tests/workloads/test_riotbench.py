"""RIoTBench: its 21 dataflows, the applications as published, and the events made in its form."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.planner.memory_job import memory_plan
from bridge.raw_events import arrow_schema
from bridge.spools.log import packed
from dags import Dataflow, Schema, Source, Task
from dags.canonical import canonicalise
from engine import installed_catalogue
from engine.behaviour import behaviours_of, installed_behaviours
from engine.implementations import visual
from engine.kernel.batch import Arrived, run_batch
from engine.offset import Offset
from engine.outside import FILES, HostOutside
from engine.plan import Entry
from engine.records.state import InstanceStates
from engine.tasks.predictive import DecisionTree, LinearRegression, read_model
from engine.trial import rows_of, try_out
from manager.command import app
from merge import RunningGraph, RunningTask, merge
from workloads.riotbench import applications
from workloads.riotbench.applications import Document, predicted_rows
from workloads.riotbench.builtin_workload import riotbench
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, URBAN, DataSet
from workloads.riotbench.generator import MISSING, STRAY, events, models, rows
from workloads.riotbench.rows import WrongFile, read_rows, row
from workloads.workload import Event, Workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES = (70, 110)
"""Rows of each set in each batch; enough for windows of 100 rows and for pictures of each sensor."""
MODELS = URBAN.source("models")


def canonical(workload: Workload) -> dict[str, Dataflow]:
    sources = {each.name: Source(name=each.name, owner="ann", schema=each.schema) for each in workload.sources}
    return {
        name: canonicalise(
            json.dumps(document), dataflow=name, tenant="ann", catalogue=installed_catalogue(), sources=sources
        )
        for name, document in workload.dataflows.items()
    }


def merged(flows: Mapping[str, Dataflow]) -> RunningGraph:
    running = RunningGraph()
    for flow in flows.values():
        running.advance(merge(running, flow, NOW))
    return running


@pytest.mark.parametrize("seed", range(1, 9))
def test_sharing_saves_what_was_published(seed: int) -> None:
    """21 dataflows of 9 to 12 distinct tasks each; with all of them submitted 38 to 46 % of the tasks are saved."""
    flows = canonical(riotbench(seed))
    sizes = [len(flow.tasks) for flow in flows.values()]
    assert (21, 9, 12) == (len(sizes), min(sizes), max(sizes))
    assert 0.38 <= 1 - len(merged(flows).tasks) / sum(sizes) <= 0.46


def test_a_seed_makes_the_same_dataflows_again() -> None:
    """No two of them are equal, each bears its name, and another seed makes others."""
    documents = riotbench().dataflows
    assert documents == riotbench(1).dataflows != riotbench(2).dataflows
    assert list(documents) == [document["name"] for document in documents.values()]
    assert len(documents) == len({tuple(flow.tasks) for flow in canonical(riotbench()).values()})


def test_all_that_dataflows_name_is_a_source() -> None:
    """What they read has events, unless one of them publishes it; its events have what the schema says."""
    workload = riotbench()
    tasks = [task for document in workload.dataflows.values() for task in document["tasks"]]
    read = {task["config"]["source"] for task in tasks if task["type"] == "source"}
    published = {task["config"]["topic"] for task in tasks if task["type"] == "mqtt_publish"}
    assert read | published == {source.name for source in workload.sources}
    assert read - published == {source.name for source in workload.sources if source.events}
    for source in workload.sources:
        if source.events:
            assert set(source.schema.fields) == set(next(source.events(1)))
            assert source.per_second > 0


class Job:
    """Tasks that run together in a root of their own, batch after batch."""

    def __init__(
        self, root: Path, tasks: Sequence[tuple[int, Task | RunningTask]], schemas: Mapping[str, Schema]
    ) -> None:
        model = root / FILES / "ann" / "riotbench" / "urban-models" / "first.json"
        model.parent.mkdir(parents=True)
        model.write_text(str(next(models(URBAN, 1))["model"]), encoding="utf-8")
        plan = memory_plan(tasks, schemas, [number for number, task in tasks if task.type.name == "output"])
        self._entry = Entry(number=1, plan=plan, starts={})
        self._behaviours = behaviours_of(plan.slots, installed_behaviours(), outside=HostOutside(root))
        self._state = InstanceStates()
        self.left: dict[int, list[Event]] = {each.instance: [] for each in plan.forwards}
        """What reached each sink."""
        self.dead: list[tuple[int, str]] = []

    def run(self, batch: int, arrived: Sequence[Arrived]) -> None:
        mine = {each.stream for each in self._entry.plan.ingress}
        record = run_batch(
            batch,
            self._entry,
            Offset(entry=min(batch, 1)),
            Offset(entry=1),
            [each for each in arrived if each.stream in mine],
            self._state,
            self._behaviours,
            deployment="d",
        )
        self._state.settle(record)
        self.dead += [(each.instance, each.reason) for each in record.dead]
        for each in record.emitted:
            # Messages to publish leave as well.
            if each.events is not None and each.origin.instance in self.left:
                self.left[each.origin.instance] += [_plain(row) for row in each.events.to_pylist()]


def _plain(event: Mapping[str, Any]) -> Event:
    """An event without the names of instances, which receipts of rows and messages have."""
    return {name: value.partition("#")[0] if name == "receipt" else value for name, value in event.items()}


def arrivals(workload: Workload) -> Iterator[list[Arrived]]:
    """What arrives, batch by batch: events of each source, and the receipt of a model that PRED finds."""
    sources = {source.name: source for source in workload.sources}
    streams = {name: source.events(1) for name, source in sources.items() if source.events}
    streams[MODELS] = iter([{"receipt": "first.json"}])
    places = dict.fromkeys(streams, 0)
    for stamp, many in enumerate(BATCHES):
        found = []
        for name, stream in streams.items():
            taken = list(islice(stream, many if name.endswith(".rows") else 2))
            if taken:
                batch = rows_of(taken, arrow_schema(sources[name].schema))
                found.append(Arrived(name, places[name], len(taken), stamp, packed(batch)))
                places[name] += len(taken)
        yield found


def test_merged_dataflows_give_what_each_gives_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 21 with real tasks, in files and tables of their own; every sink gets something, and nothing is parked."""
    # What is drawn is compared, and not drawn: that takes a minute.
    monkeypatch.setattr(visual, "_drawing", lambda _type: repr)
    workload = riotbench()
    schemas = {source.name: source.schema for source in workload.sources}
    flows = canonical(workload)
    running = merged(flows)
    jobs = {name: Job(tmp_path / name, list(enumerate(flow.tasks)), schemas) for name, flow in flows.items()}
    together = Job(tmp_path / "all", list(running.tasks.items()), schemas)
    for batch, arrived in enumerate(arrivals(workload)):
        for job in (together, *jobs.values()):
            job.run(batch, arrived)
    assert {name: [] for name in ("all", *jobs)} == {"all": together.dead, **{n: job.dead for n, job in jobs.items()}}
    alone = {
        (name, sink): job.left[flows[name].places[sink]] for name, job in jobs.items() for sink in flows[name].sinks
    }
    assert [] == [place for place, events in alone.items() if not events]
    produced = {name: running.produced(name) for name in flows}
    assert alone == {(name, sink): together.left[produced[name][sink]] for name, sink in alone}


SOURCES = {
    data.source(of): Source(name=data.source(of), owner="ann", schema=schema)
    for data in DATA_SETS.values()
    for of, schema in applications.SCHEMAS.items()
}


def documents(data: DataSet) -> list[Document]:
    """All that there are for a set; models are learned where there are fields to learn from."""
    made = [applications.etl(data), applications.stats(data), applications.stats_first(data)]
    if data.features:
        made += [
            applications.train(data),
            applications.train_alone(data),
            applications.pred(data),
            predicted_rows(data),
        ]
    return made


SIZES = [
    (11, 11),
    # Two plots more, each with a stream that it emits.
    (9 + 2, 10 + 2),
    # Two publishers more.
    (9 + 2, 10 + 2),
    (8, 8),
    # Rows that are parsed, written, and reported to be there, in place of a timer.
    (8 + 3, 8 + 3),
    # A publisher more.
    (10 + 1, 12 + 1),
    # No download and no publishers, and an output each.
    (9, 10),
]
"""Tasks and streams, but for a task for each result where the benchmark's take several."""


@pytest.mark.parametrize("data", [URBAN, TAXI, GRID, FITNESS], ids=lambda data: data.name)
def test_an_application_has_its_published_size(data: DataSet) -> None:
    """It passes the checks for each data set, and no two of its tasks are equal."""
    found = []
    for document in documents(data):
        flow = canonicalise(
            json.dumps(document), dataflow="d", tenant="ann", catalogue=installed_catalogue(), sources=SOURCES
        )
        found.append((len(flow.tasks), sum(len(task.inputs) for task in flow.tasks)))
    assert SIZES[: len(found)] == found


def test_a_data_set_observes_what_was_published() -> None:
    """So many fields, each with its bounds; of the taxi's nine, one is no number and so not observed here."""
    expected = {"urban": (5, 5), "taxi": (9 - 1, 5), "grid": (1, 1), "fitness": (11, 11)}
    assert expected == {name: (len(data.observed), len(data.ranges)) for name, data in DATA_SETS.items()}
    assert {"energyconsumed": (1.828, 36.658)} == GRID.ranges


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
