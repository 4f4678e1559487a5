"""RIoTBench's four applications on one host, one after the other: what comes out is what their definitions say."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bridge import Message, topics
from bridge.transport.mqtt_client import MqttClient
from dags import Source
from dags.canonical import canonicalise
from engine import installed_catalogue
from engine.outside import FILES
from engine.plan import Delivery, Edge, Ingress, Plan, ReplayedFile, Slot, Subscribed
from engine.trial import try_out
from tests.integration.hosting import HOST, QUICK, Hosting
from tests.tasks import references
from tests.tasks.test_visual import Point, read_back
from workloads.riotbench import applications as riotbench
from workloads.riotbench.applications import Document
from workloads.riotbench.datasets import URBAN
from workloads.riotbench.rows import row

pytestmark = pytest.mark.spark
ROWS, QUERIES, MODELS = (URBAN.source(of) for of in ("rows", "queries", "models"))
SENML, PREDICTIONS = (URBAN.source(of) for of in ("senml", "predictions"))
SCHEMAS = {URBAN.source(of): schema for of, schema in riotbench.SCHEMAS.items()}
OBSERVED, RANGES = URBAN.observed, URBAN.ranges
SENSORS = ("a", "b")
"""The sensors that are known; there is one more."""
MANY = 60
WINDOW = 20
POINTS = 20
"""How many a picture has."""
BUCKETS = {"field": "v", "by": ["source", "field"], "buckets": 32}
FEATURES = ["temperature", "humidity", "light", "dust"]
TARGET = "airquality_raw"
Event = dict[str, Any]


def readings(first: int = 0) -> list[Event]:
    """What sensors measure in turn, some of it out of range, as rows have it."""
    random = Random(first)
    found = []
    for number in range(first, first + MANY):
        values = {name: round(random.uniform(low - (high - low) / 9, high), 3) for name, (low, high) in RANGES.items()}
        found.append({"msg": number, "source": (*SENSORS, "x")[number % 3], "time": 1_000 * number, **values})
    return found


def rows(sent: Sequence[Event]) -> list[Event]:
    return [
        {
            "msg": each["msg"],
            "row": row(URBAN, each["time"], each["source"], {name: repr(each[name]) for name in OBSERVED}),
        }
        for each in sent
    ]


def measured(sent: Sequence[Event]) -> list[Event]:
    """Each reading as its measurements, whose values are called as the references call them."""
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        {
            "msg": each["msg"],
            "source": each["source"],
            "time": moment + timedelta(milliseconds=each["time"]),
            "field": name,
            "v": each[name],
        }
        for each in sent
        for name in OBSERVED
    ]


def emitted(found: Iterator[tuple[str, Mapping[str, Any]]] | Any) -> list[Event]:
    return [dict(event) for port, event in found if port == "out"]


def cleaned(sent: Sequence[Event]) -> list[Event]:
    """What ETL makes of readings, by the references."""
    events = measured(sent)
    for event in events:
        low, high = RANGES[event["field"]]
        if not low <= event["v"] <= high or event["source"] not in SENSORS:
            event["v"] = None
    filled = emitted(references.interpolate(iter(events), ["source", "field"], 5))
    single = [{**{k: v for k, v in each.items() if k != "v"}, "value": each["v"]} for each in filled]
    joined = emitted(references.join_by_id(iter(single), ["msg"], 5, list(OBSERVED), timedelta(minutes=1), 10_000))
    return [{**each, "city": f"city of {each['source']}"} for each in joined if each["source"] in SENSORS]


@dataclass
class Application:
    """A document that runs on the host, with an output beside each of some tasks."""

    plan: Plan
    instances: dict[str, int]
    deliveries: dict[str, Delivery]


def started(hosting: Hosting, document: Document, *taps: str, replayed: Path | None = None) -> Application:
    for tap in taps:
        document["tasks"].append({"id": f"{tap} output", "type": "output"})
        document["streams"].append({"from": tap, "to": f"{tap} output"})
    name = f"d{hosting.fresh()}"
    sources = {each: Source(name=each, owner="ann", schema=schema) for each, schema in SCHEMAS.items()}
    flow = canonicalise(
        json.dumps(document), dataflow=name, tenant="ann", catalogue=installed_catalogue(), sources=sources
    )
    numbers = [hosting.fresh() for _ in flow.tasks]
    ingress = []
    for number, task in zip(numbers, flow.tasks, strict=True):
        if not task.inputs:
            topic = task.config["source"]
            fields = dict(SCHEMAS[topic].fields)
            supply = ReplayedFile(path=str(replayed), fields=fields, per_second=1_000.0) if replayed else None
            stream = f"generated/{number}" if replayed else f"raw/{topic}"
            ingress.append(
                Ingress(stream=stream, instance=number, supply=supply or Subscribed(topic=topic, fields=fields))
            )
    found = {
        sink: Delivery(instance=numbers[flow.places[sink]], tenant="ann", dataflow=name, sink=sink)
        for sink in flow.sinks
    }
    plan = Plan(
        job=name,
        host=HOST,
        version=0,
        slots=tuple(
            Slot(
                instance=number,
                type=task.type.name,
                version=task.type.version,
                config=json.dumps(task.config),
                inputs=tuple(
                    Edge(port=each.port, parent=numbers[each.parent], parent_port=each.parent_port, times=each.times)
                    for each in task.inputs
                ),
            )
            for number, task in zip(numbers, flow.tasks, strict=True)
            if task.inputs
        ),
        ingress=tuple(ingress),
        deliveries=tuple(found.values()),
        pace=QUICK,
    )
    instances = {task: numbers[place] for task, place in flow.places.items()}
    sent = hosting.send(plan)
    hosting.until(lambda: hosting.in_effect(sent), f"{document['name']} in effect", bound=120.0)
    return Application(sent, instances, found)


@pytest.fixture
def heard(hosting: Hosting) -> Iterator[dict[str, list[Event]]]:
    """What the applications publish, by topic."""
    found: dict[str, list[Event]] = {SENML: [], MODELS: [], PREDICTIONS: []}

    def take(message: Message) -> None:
        content = json.loads(message.payload)
        found[message.topic] += content if isinstance(content, list) else [content]
        client.acknowledge([message.token])

    client = MqttClient(hosting.broker.address("braid"), "listener", topics=list(found), on_message=take)
    client.start()
    yield found
    client.stop()


@pytest.fixture
def replayed(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(readings())), encoding="utf-8")
    return path


@pytest.mark.slow
def test_etl_train_and_pred(hosting: Hosting, heard: dict[str, list[Event]], replayed: Path) -> None:
    """ETL's table is what TRAIN learns from, and TRAIN's models are those that PRED predicts with."""
    expected = cleaned(readings())
    loaded(hosting, heard, replayed, expected)
    files = hosting.root / FILES / "ann" / "riotbench" / "urban-models"

    # PRED listens before TRAIN publishes.
    pred = started(hosting, riotbench.pred(URBAN), "classify", "predict", "error")
    train = started(hosting, riotbench.train(URBAN, window=WINDOW))
    hosting.publish(QUERIES, [{"from": 0, "to": MANY}])
    hosting.until_delivered(train.deliveries["sink"], 2 * (len(expected) // WINDOW))
    models = sorted(path.read_text(encoding="utf-8") for path in files.glob("*.json"))
    trees = learned_trees(expected)
    assert trees == sorted({model for model in models if json.loads(model)["kind"] == "decision_tree"})
    hosting.until(
        lambda: hosting.taken(pred.plan.job, pred.instances["download"]) == len(heard[MODELS]) == len(models),
        "the models to come",
    )
    predicted(hosting, pred, models, heard)


def loaded(hosting: Hosting, heard: dict[str, list[Event]], replayed: Path, expected: list[Event]) -> None:
    """Run ETL to its end; what it wrote and published is what is expected."""
    etl = started(hosting, riotbench.etl(URBAN, known=SENSORS, expected=1_000), replayed=replayed)
    # Each joined event comes to the sink from the table and from the publisher.
    hosting.until_delivered(etl.deliveries["sink"], 2 * len(expected))
    names = ("msg", "source", "city", *OBSERVED)
    database = sqlite3.connect(hosting.root / FILES / "ann" / "riotbench" / "urban")
    found = database.execute(f"select {', '.join(names)} from readings order by msg").fetchall()  # noqa: S608 - our own names
    database.close()
    assert [tuple(each[name] for name in names) for each in expected] == found
    hosting.until(lambda: len(heard[SENML]) >= len(expected), "all rows of SenML")
    config = {"field": "senml", "per": "row", "observed": list(OBSERVED), "also": {"city": "string"}}
    again = try_out("senml_parse", config, [{"senml": each["senml"]} for each in heard[SENML]])["out"]
    wanted = ("city", "time", *OBSERVED)
    assert [[each[name] for name in wanted] for each in expected] == [[each[name] for name in wanted] for each in again]


def learned_trees(expected: Sequence[Event]) -> list[str]:
    """The trees that TRAIN grows, by the references."""
    rows = [{**each, "v": each[TARGET]} for each in expected]
    classes = ["BAD", "GOOD", "VERYGOOD", "EXCELLENT"]
    annotated = emitted(references.annotate_class(iter(rows), classes, WINDOW))
    grown = emitted(references.decision_tree_train(iter(annotated), FEATURES, "class", WINDOW))
    return sorted({each["model"] for each in grown})


def predicted(hosting: Hosting, pred: Application, models: list[str], heard: dict[str, list[Event]]) -> None:
    """Send rows to PRED; what it classifies and predicts is what the latest models say."""
    sent = readings(MANY)
    hosting.publish(ROWS, rows(sent))
    latest = {json.loads(each)["kind"]: each for each in _contents(hosting, heard[MODELS])}
    assert set(latest.values()) <= set(models)
    asked: list[tuple[str, Event]] = [("in", each) for each in sent]
    tree = [("model", {"model": latest["decision_tree"]}), *asked]
    line = [("model", {"model": latest["linear_regression"]}), *asked]
    classes = emitted(references.decision_tree_classify(iter(tree), FEATURES))
    predictions = emitted(references.linear_regression_predict(iter(line), FEATURES))
    found = hosting.until_delivered(pred.deliveries["classify output"], len(sent))
    assert [each["class"] for each in classes] == [each["class"] for each in found]
    found = hosting.until_delivered(pred.deliveries["predict output"], len(sent))
    assert [each["prediction"] for each in predictions] == pytest.approx([each["prediction"] for each in found])
    errors = errors_of(sent, [each["prediction"] for each in predictions])
    found = hosting.until_delivered(pred.deliveries["error output"], len(sent))
    assert near(errors) == [each["error"] for each in found]
    # Each row is published once for its class and once for its error.
    hosting.until(lambda: len(heard[PREDICTIONS]) == 2 * len(sent), "all predictions")
    published = sorted(heard[PREDICTIONS], key=lambda each: each["msg"])
    assert [(each["msg"], each["class"]) for each in classes] == [
        (each["msg"], each["class"]) for each in published if "class" in each
    ]
    assert [(each["msg"], near([error])) for each, error in zip(sent, errors, strict=True)] == [
        (each["msg"], [each["error"]]) for each in published if "error" in each
    ]
    # Both models came to both tasks, and neither parked the one that was not for it.
    assert {"classify": [], "predict": []} == {
        task: hosting.heard(topics.dead(pred.instances[task])) for task in ("classify", "predict")
    }


def _contents(hosting: Hosting, receipts: Sequence[Event]) -> list[str]:
    folder = hosting.root / FILES / "ann" / "riotbench" / "urban-models"
    return [(folder / each["receipt"]).read_text(encoding="utf-8") for each in receipts]


def errors_of(sent: Sequence[Event], predictions: Sequence[float]) -> list[float | None]:
    """Where an average and a prediction come for one row, the average is taken as they stand in the plan."""
    averages: dict[str, float] = {}
    blocks: dict[str, list[float]] = {}
    found: list[float | None] = []
    for each, prediction in zip(sent, predictions, strict=True):
        block = blocks.setdefault(each["source"], [])
        block.append(each[TARGET])
        if len(block) == 5:
            averages[each["source"]] = references.added(blocks.pop(each["source"])) / 5
        average = averages.get(each["source"])
        found.append((each[TARGET] - prediction) / average if average else None)
    return found


def test_stats(hosting: Hosting, replayed: Path) -> None:
    """Each statistic is that of the definition, and the pictures that lie where the receipts say show it."""
    taps = ("average", "kalman", "regression", "distinct")
    stats = started(hosting, riotbench.stats(URBAN, window=POINTS), *taps, replayed=replayed)
    by = ["source", "field"]
    events = measured(readings())
    smooth = emitted(references.kalman_filter(iter(events), by, 0.125, 0.32, 30.0))
    expected: dict[str, tuple[str, list[Event]]] = {
        "average": ("v", emitted(references.block_window_average(iter(events), by, 5))),
        "kalman": ("v", smooth),
        "regression": ("predicted", emitted(references.sliding_linear_regression(iter(smooth), by, 10, 10))),
        # Held against its definition in a test of its own.
        "distinct": ("distinct", try_out("distinct_approx_count", BUCKETS, events)["out"]),
    }
    for tap, (name, wanted) in expected.items():
        found = hosting.until_delivered(stats.deliveries[f"{tap} output"], len(wanted))
        sent = "value" if name == "v" else name
        assert [[each[field] for field in by] for each in wanted] == [[each[field] for field in by] for each in found]
        assert near([each[name] for each in wanted]) == [each[sent] for each in found]
    pictures = {tap: pictured(wanted, name) for tap, (name, wanted) in expected.items() if tap != "kalman"}
    receipts = hosting.until_delivered(stats.deliveries["sink"], sum(map(len, pictures.values())))
    folder = hosting.root / FILES / "ann" / "riotbench" / "urban-plots"
    shown = [(each["source"], read_back((folder / each["receipt"]).read_text(encoding="utf-8"))) for each in receipts]
    for tap, up in (("average", "value"), ("regression", "predicted"), ("distinct", "distinct")):
        drawn = [(source, each.lines) for source, each in shown if each.up == up]
        assert [source for source, _ in pictures[tap]] == [source for source, _ in drawn]
        for (_, wanted_lines), (_, lines) in zip(pictures[tap], drawn, strict=True):
            assert list(wanted_lines) == list(lines)
            highest = max(abs(y) for points in wanted_lines.values() for _, y in points)
            for line, points in wanted_lines.items():
                # A picture is as exact as its size allows.
                assert [pytest.approx(point, abs=highest / 10_000) for point in points] == lines[line]


def pictured(events: Sequence[Event], name: str) -> list[tuple[str, dict[str, list[Point]]]]:
    """The pictures of what was computed: for each sensor so many points, of which each is in its field's line."""
    found: list[tuple[str, dict[str, list[Point]]]] = []
    kept: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event[name] is None:
            continue
        block = kept[event["source"]]
        block.append(event)
        if len(block) == POINTS:
            lines: dict[str, list[Point]] = defaultdict(list)
            for number, each in enumerate(block, 1):
                lines[each["field"]].append((float(number), each[name]))
            found.append((event["source"], dict(lines)))
            block.clear()
    return found


def near(values: Sequence[float | None]) -> list[Any]:
    return [None if value is None else pytest.approx(value, rel=1e-9) for value in values]
