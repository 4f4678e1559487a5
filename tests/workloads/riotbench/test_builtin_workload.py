"""The workload of 21 dataflows, and RIoTBench's applications as they were published."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planner.memory_job import memory_plan
from bridge.raw_events import arrow_schema
from bridge.spools.log import packed
from dags import Dataflow, Schema, Source, Task, canonicalise
from engine import installed_catalogue
from engine.behaviour import behaviours_of, installed_behaviours
from engine.implementations import visual
from engine.kernel.batch import Arrived, run_batch
from engine.offset import Offset
from engine.outside import FILES, HostOutside
from engine.plan import Entry
from engine.records.state import InstanceStates
from engine.trial import rows_of
from merge import RunningGraph, RunningTask, merge
from workloads.riotbench import applications
from workloads.riotbench.applications import Document, predicted_rows
from workloads.riotbench.builtin_workload import riotbench
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, URBAN, DataSet
from workloads.riotbench.generator import models
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
        for name, events in streams.items():
            taken = list(islice(events, many if name.endswith(".rows") else 2))
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
