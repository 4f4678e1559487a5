"""Sharing changes nobody's output: short traces of both workloads, with sharing and then each dataflow for itself.

They are played where one job does all the work, and where each dataflow begins a job of its own, so that what several
share comes to most of them over bridges.

A trace is played in moments. At each some dataflows are submitted or removed, then events come, and all of them are
worked off before the next. So it is known from which events on each running task has its history. Then the same events
come again, and each dataflow runs without any other; each of its tasks with state starts at the moment at which the one
started that it had shared. What they deliver has to be the same, event for event.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from braid_client.answers.dataflows import DataflowState, Stop, SubmitAnswer
from braid_client.answers.tenants import TenantForm
from braid_client.client import Client
from bridge import topics
from dags.task_type import State
from engine import installed_catalogue
from engine.job.lifecycle import JobState
from engine.plan_messages import CutRequest, written_cut
from tests.integration.serving import Served
from workloads.replay.plan import document_in, source_form
from workloads.riotbench.datasets import DATA_SETS
from workloads.traces import Action, TracePhase, TraceStep, random_walk
from workloads.workload import Document, Event, Workload, load_workload

pytestmark = [pytest.mark.full, pytest.mark.spark]
TENANT = "city"


class Walk(NamedTuple):
    """A trace in which dataflows join tasks that have run for a while, and tasks go on without who started them."""

    dataflows: Sequence[str]
    seed: int


Walks = Mapping[str, Walk]
TOGETHER: Walks = {
    "riotbench": Walk(("urban-etl", "urban-stats", "urban-1", "grid-1", "grid-2", "grid-3", "grid-etl"), seed=5),
    "opmw": Walk(("opmw-22", "opmw-31", "opmw-35", "opmw-38", "opmw-41", "opmw-46"), seed=3),
}
"""Of each workload some that share tasks: averages, sketches, filters and pictures; steps, and chains of them."""
SCATTERED: Walks = {
    "riotbench": Walk(("grid-1", "grid-2", "grid-3"), seed=9),
    "opmw": Walk(("opmw-22", "opmw-31", "opmw-35", "opmw-41"), seed=9),
}
"""Of them so few that there are cores for a job for each."""
WALK = 4
ROWS = 15
"""Of how many rows of each sensor an average and a picture come within the trace."""
SENSORS = 2
EVENTS = 5
"""Of each other source at each moment."""


@dataclass
class Tenancy:
    """A dataflow from its submission to its removal."""

    workload: str
    name: str
    begun: int
    """The moment of its submission."""
    answer: SubmitAnswer
    started: Mapping[str, int]
    """For each of its tasks the moment at which the one started that it shares."""
    ended: int = 0
    alone: list[SubmitAnswer] = field(default_factory=list)
    """What is submitted for it where nothing is shared; the last of it delivers."""


class Play:
    """A service on which events come to topics and are worked off."""

    def __init__(self, served: Served, operator: Client, workloads: Mapping[str, Workload]) -> None:
        self.served = served
        self.operator = operator
        self._workloads = workloads
        self._probes: dict[str, SubmitAnswer] = {}
        """For each source that events come to an output of just these, by the source's name."""
        self._given: dict[str, str] = {}
        """Of which source of a workload each gets the events."""
        self._published: dict[str, int] = {}
        self._cuts = 0
        self.jobs: list[int] = []
        """How many there were at each moment."""
        self._known: set[str] = set()
        """The jobs that there were whenever something was removed."""

    def register(self, names: frozenset[str], prefix: str = "") -> None:
        """Register sources of these names, each with a topic of its own."""
        for workload in self._workloads.values():
            for source in workload.sources:
                if source.name not in names:
                    continue
                name = f"{prefix}{source.name}"
                form = source_form(source, None, 1.0)
                topic = form.connection.model_copy(update={"topic": name})
                self.operator.register_source(
                    form.model_copy(update={"name": name, "connection": topic, "owner": TENANT})
                )
                if source.events is not None:
                    self._given[name] = source.name
                    self._probes[name] = self.submit(probe(name))

    def submit(self, document: Document) -> SubmitAnswer:
        return self.operator.submit(document, tenant=TENANT)

    def remove(self, answer: SubmitAnswer) -> None:
        """Remove a dataflow; all that came for it is worked off."""
        self._known |= {each.job for each in self.operator.jobs()}
        self.operator.remove(answer.id, Stop.NOW)

    def pass_time(self, events: Mapping[str, Sequence[Event]]) -> None:
        """Once all runs, have these events come, and wait until they are worked off."""
        self.served.until(self._settled, "all that is submitted to run")
        for name, source in self._given.items():
            self.served.publish(name, events[source])
            self._published[name] = self._published.get(name, 0) + len(events[source])
        for name, answer in self._probes.items():
            self.served.until_delivered(answer, "out", self._published[name])
        # What a source sent has come to its spool by now. When a cut has been everywhere, all before it has too.
        self._cuts += 1
        self._cut(f"moment-{self._cuts}")

    def _cut(self, cut: str) -> None:
        """Wait until a cut has been everywhere, and what came before it is with the broker."""
        tasks = [task for task in self.operator.running_tasks() if task.state == "active"]
        working = {task.instance for task in tasks if task.inputs}
        jobs = {task.job for task in tasks}
        self.jobs.append(len(jobs))

        def passed() -> bool:
            statuses = [self._status(job) for job in jobs]
            here = [(job["published"], each) for job in statuses for each in job.get("cuts", ()) if each["name"] == cut]
            return working <= {
                instance for published, each in here if published > each["batch"] for instance in each["instances"]
            }

        spools = self.served.heard(topics.host(self.served.host, "status"))[-1]["spools"]
        self._wish(CutRequest(cut=cut, streams=tuple(each for each in spools if each.startswith("source/"))))
        self.served.until(passed, f"{cut} to have been everywhere")
        self._wish(CutRequest(cut=cut, release=True))

    def _wish(self, wish: CutRequest) -> None:
        self.served.line.publish(topics.host(self.served.host, "cut"), written_cut(wish))

    def _settled(self) -> bool:
        dataflows, jobs = list(self.operator.dataflows()), list(self.operator.jobs())
        return (
            all(each.state is DataflowState.RUNNING for each in dataflows)
            and all(each.in_effect == each.version for each in jobs)
            # A job that is to stop goes on until its host has heard of it, and would take what comes next.
            and all(self._status(job)["state"] == JobState.STOPPED for job in self._known - {each.job for each in jobs})
        )

    def _status(self, job: str) -> Any:
        return self.served.heard(topics.job(job, "status"))[-1]


def probe(source: str) -> Document:
    """A dataflow that delivers what a source sends."""
    tasks = [{"id": "in", "type": "source", "config": {"source": source}}, {"id": "out", "type": "output"}]
    return {"version": 1, "name": f"probe of {source}", "tasks": tasks, "streams": [{"from": "in", "to": "out"}]}


def moments(steps: Sequence[TraceStep]) -> Iterator[Sequence[TraceStep]]:
    """Which steps are taken together: all that fill, then two and two, and those that drain in two halves."""
    of = {phase: [step for step in steps if step.phase is phase] for phase in TracePhase}
    yield of[TracePhase.FILL]
    yield from (of[TracePhase.WALK][at : at + 2] for at in range(0, len(of[TracePhase.WALK]), 2))
    half = len(of[TracePhase.DRAIN]) // 2
    yield of[TracePhase.DRAIN][:half]
    yield of[TracePhase.DRAIN][half:]


def events_of(workload: Workload, many: int) -> Iterator[Mapping[str, Sequence[Event]]]:
    """For each of so many moments what comes of each source; rows of few sensors, so that their windows fill."""
    found = {source.name: source.events(1) for source in workload.sources if source.events is not None}
    for _ in range(many):
        yield {
            name: [event for event in islice(events, ROWS * sensors(name)) if event["msg"] % sensors(name) < SENSORS]
            if name.endswith(".rows")
            else list(islice(events, EVENTS))
            for name, events in found.items()
        }


def sensors(source: str) -> int:
    return len(DATA_SETS[source.split(".")[1]].sensors)


def named(documents: Iterator[Document]) -> frozenset[str]:
    """The sources that documents read or publish to."""
    return frozenset(
        task["config"][key]
        for document in documents
        for task in document["tasks"]
        for key in ("source", "topic")
        if key in task["config"]
    )


def with_sources_of_its_own(document: Document, prefix: str) -> Document:
    """A document that reads and publishes where no other does."""

    def own(config: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: f"{prefix}{value}" if key in {"source", "topic"} else value for key, value in config.items()}

    return {**document, "tasks": [{**task, "config": own(task["config"])} for task in document["tasks"]]}


def part(document: Document, kept: frozenset[str]) -> Document:
    """Some tasks of a document with those above them, and an output of each that has nothing below it."""
    streams = [each for each in document["streams"] if each["from"] in kept and each["to"] in kept]
    ends = sorted(kept - {each["from"] for each in streams})
    left = {
        each["from"]: {key: each[key] for key in ("from", "from_port") if key in each} for each in document["streams"]
    }
    return {
        **document,
        "tasks": [
            *(task for task in document["tasks"] if task["id"] in kept),
            *({"id": f"{end} output", "type": "output", "config": {}} for end in ends),
        ],
        "streams": [*streams, *({**left[end], "to": f"{end} output"} for end in ends)],
    }


def early(document: Document, tenancy: Tenancy) -> list[int]:
    """The moments before its submission at which tasks with state started that it shares."""
    catalogue, found = installed_catalogue(), set[int]()
    for task in document["tasks"]:
        kind = catalogue.find(task["type"])
        assert kind is not None
        if kind.state is not State.NONE:
            found.add(tenancy.started[task["id"]])
    return sorted(moment for moment in found if moment < tenancy.begun)


def alone(document: Document, tenancy: Tenancy, prefix: str) -> Mapping[int, Document]:
    """What to submit at which moment, so that a dataflow runs alone and its tasks start when those started it shared.

    Where all of them started with it, it is submitted as the mode `default` does it. Else those that had run before are
    submitted before, and the dataflow joins them; they read sources that nobody else reads.
    """
    before = early(document, tenancy)
    if not before:
        return {tenancy.begun: document_in("default", document)}
    own = with_sources_of_its_own(document, prefix)
    inner = {task["id"] for task in document["tasks"] if task["type"] != "output"}
    return {
        **{
            moment: part(own, frozenset(each for each in inner if tenancy.started[each] <= moment)) for moment in before
        },
        tenancy.begun: own,
    }


def delivered(served: Served, document: Document, answer: SubmitAnswer) -> dict[str, list[str]]:
    """What came for each sink; where streams meet on the way, in no order, since they may meet in any."""
    found = {}
    for output in answer.outputs:
        numbered = served.numbered(answer, output.sink)
        # Numbers go on from those of the task that is shared.
        first = min(numbered, default=0)
        assert list(range(first, first + len(numbered))) == sorted(numbered), f"{output.topic} misses a number"
        events = [json.dumps(comparable(numbered[number]), sort_keys=True) for number in sorted(numbered)]
        found[output.sink] = events if _is_fed_by_one(document, output.sink) else sorted(events)
    return found


def comparable(event: Event) -> Event:
    """An event without its place in its source's stream, by which receipts of what is published are named."""
    receipt = event.get("receipt")
    return {**event, "receipt": receipt.partition("#")[0]} if receipt else event


def tapped(document: Document) -> Document:
    """A document with an output of whatever is published or written to a table, whose receipts do not tell it."""
    types = {task["id"]: task["type"] for task in document["tasks"]}
    written = sorted(
        each["from"] for each in document["streams"] if types[each["to"]] in {"mqtt_publish", "table_insert"}
    )
    return {
        **document,
        "tasks": [*document["tasks"], *({"id": f"{each} tapped", "type": "output", "config": {}} for each in written)],
        "streams": [*document["streams"], *({"from": each, "to": f"{each} tapped"} for each in written)],
    }


def _is_fed_by_one(document: Document, task: str) -> bool:
    above = [each["from"] for each in document["streams"] if each["to"] == task]
    return not above or (len(above) == 1 and _is_fed_by_one(document, above[0]))


@pytest.fixture
def served(tmp_path: Path, placement: str) -> Iterator[Served]:
    # At this pace one job has room for all.
    made = Served(tmp_path, pace=1.0, placement=placement)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("placement", "walks"),
    [
        pytest.param("pack", TOGETHER, id="in one job", marks=pytest.mark.slow),
        pytest.param("launch", SCATTERED, id="over bridges"),
    ],
)
def test_sharing_changes_nobodys_output(served: Served, placement: str, walks: Walks) -> None:
    """Each output is that of the dataflow without sharing, whose tasks with state start when those it shared did."""
    workloads = {name: load_workload(name) for name in walks}
    documents = {
        name: {each: tapped(workload.dataflows[each]) for each in walks[name].dataflows}
        for name, workload in workloads.items()
    }
    traces = {
        name: list(moments(random_walk(name, walk.dataflows, walk.seed, steps=WALK).steps))
        for name, walk in walks.items()
    }
    (many,) = {len(each) for each in traces.values()}
    drawn = [events_of(workload, many) for workload in workloads.values()]
    events = [{name: found for each in at for name, found in each.items()} for at in zip(*drawn, strict=True)]
    with served.client() as operator:
        operator.admit(TenantForm(name=TENANT))
        # Before anything is delivered.
        served.line.subscribe([topics.job("+", "status"), topics.host(served.host, "status")])
        play = Play(served, operator, workloads)
        play.register(named(each for found in documents.values() for each in found.values()))
        tenancies = play_shared(play, documents, traces, events)
        assert (max(play.jobs) > 1) == (placement == "launch")
        play_alone(play, documents, tenancies, events)
    for tenancy in tenancies:
        document = documents[tenancy.workload][tenancy.name]
        together = delivered(served, document, tenancy.answer)
        assert delivered(served, document, tenancy.alone[-1]) == together, tenancy
        assert any(together.values()), f"{tenancy.name} delivers nothing"
    # Some joined what had run for a while.
    assert any(early(documents[each.workload][each.name], each) for each in tenancies)


def play_shared(
    play: Play,
    documents: Mapping[str, Mapping[str, Document]],
    traces: Mapping[str, Sequence[Sequence[TraceStep]]],
    events: Sequence[Mapping[str, Sequence[Event]]],
) -> list[Tenancy]:
    """Play the traces with sharing; who was there when."""
    started: dict[int, int] = {}
    runs: dict[str, Tenancy] = {}
    tenancies: list[Tenancy] = []
    for moment, events_now in enumerate(events):
        for workload, steps in traces.items():
            for step in steps[moment]:
                if step.action is Action.REMOVE:
                    tenancy = runs.pop(step.dataflow)
                    play.remove(tenancy.answer)
                    tenancy.ended = moment
                    continue
                answer = play.submit(documents[workload][step.dataflow])
                tasks = (*answer.reused, *answer.started)
                runs[step.dataflow] = tenancy = Tenancy(
                    workload=workload,
                    name=step.dataflow,
                    begun=moment,
                    answer=answer,
                    started={task.id: started.setdefault(task.instance, moment) for task in tasks},
                )
                tenancies.append(tenancy)
        play.pass_time(events_now)
    return tenancies


def play_alone(
    play: Play,
    documents: Mapping[str, Mapping[str, Document]],
    tenancies: Sequence[Tenancy],
    events: Sequence[Mapping[str, Sequence[Event]]],
) -> None:
    """Have the same events come again, and each dataflow run for itself."""
    wanted = {}
    for number, tenancy in enumerate(tenancies):
        document = documents[tenancy.workload][tenancy.name]
        prefix = f"alone-{number}."
        wanted[number] = alone(document, tenancy, prefix)
        if early(document, tenancy):
            play.register(named(iter([document])), prefix)
    for moment, events_now in enumerate(events):
        for number, tenancy in enumerate(tenancies):
            if moment in wanted[number]:
                tenancy.alone.append(play.submit(wanted[number][moment]))
            if moment == tenancy.ended:
                for answer in tenancy.alone:
                    play.remove(answer)
        play.pass_time(events_now)
