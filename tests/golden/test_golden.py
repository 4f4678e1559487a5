"""Golden cases: what runs before, what is submitted or removed, and what runs after, worked out by hand.

A case first does the steps in `running before`: most submit a dataflow, `{"removed": id}` removes one. Then it does its
own step. The picture names a running task by the first place where it is found, as `dataflow.task`. It has the task's
type and config, the number of the step that started it (`since`), its users, the other places where it is found
(`also`), its scope if it has one, and its inputs as `port < parent.port`. A running DAG is named by its sources.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from pydantic import BaseModel, ConfigDict, Field

from dags import InvalidDocument
from merge import Change, DagId, Instance, RunningGraph, merge, unmerge
from tests.graphs import applied
from tests.notation import flow

Picture: TypeAlias = dict[str, Any]

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
"""A step is a day after the one before it."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Submission(_Entry):
    """A dataflow, as a line in the notation of the tests or as a whole document."""

    id: str
    tenant: str = "ann"
    dataflow: str | dict[str, Any]


class Removal(_Entry):
    """A dataflow that goes."""

    removed: str


class Case(_Entry):
    """One golden case."""

    title: str
    before: tuple[Submission | Removal, ...] = Field(alias="running before", strict=False)
    submitted: Submission | None = None
    removed: str | None = None
    after: Picture

    @property
    def step(self) -> Submission | Removal:
        """What the case is about."""
        if self.submitted is not None:
            return self.submitted
        assert self.removed is not None
        return Removal(removed=self.removed)


CASES = [
    Case.model_validate(case)
    for path in sorted(Path(__file__).parent.glob("*.json"))
    for case in json.loads(path.read_text("utf-8"))
]


class Labels(NamedTuple):
    """How running tasks and running DAGs are named in a picture."""

    places: dict[Instance, list[str]]
    """For each running task everywhere it is found."""
    dags: dict[DagId, str]

    @classmethod
    def of(cls, running: RunningGraph) -> "Labels":
        """The names in a running graph."""
        places: dict[Instance, list[str]] = {}
        for dataflow, submitted in running.dataflows.items():
            for task, instance in submitted.places.items():
                places.setdefault(instance, []).append(f"{dataflow}.{task}")
        sources: dict[DagId, list[str]] = {}
        for source, dag in running.running_dags.of_source.items():
            sources.setdefault(dag, []).append(min(places[source]))
        return cls(
            {instance: sorted(found) for instance, found in places.items()},
            {dag: " + ".join(sorted(found)) for dag, found in sources.items()},
        )

    def task(self, instance: int) -> str:
        """The name of a running task."""
        return self.places[Instance(instance)][0]


def change_of(running: RunningGraph, step: Submission | Removal) -> Change:
    """What a step would change."""
    if isinstance(step, Removal):
        return unmerge(running, step.removed)
    return merge(running, flow(step.dataflow, step.id, step.tenant), BEGINNING + (running.version + 1) * DAY)


def running_before(case: Case) -> RunningGraph:
    """The running graph that a case begins with."""
    running = RunningGraph()
    for step in case.before:
        running = applied(running, change_of(running, step))
    return running


def picture_after(case: Case) -> Picture:
    """The picture that a case leads to."""
    before = running_before(case)
    try:
        change = change_of(before, case.step)
    except InvalidDocument as refused:
        return {"refused": [str(problem) for problem in refused.problems], **picture_of(before)}
    after = applied(before, change)
    return {**picture_of_change(before, change, after), **picture_of(after)}


def picture_of(running: RunningGraph) -> Picture:
    """What runs, for whom."""
    labels = Labels.of(running)
    tasks: Picture = {}
    for instance, task in running.tasks.items():
        label, *also = labels.places[instance]
        whole = {
            "type": task.type.name,
            "config": json.loads(task.text)[3],
            "since": (task.since - BEGINNING) // DAY,
            "users": sorted(running.serves(instance)),
            "also": also,
            "scope": ".".join(task.key.scope or ()),
            "inputs": sorted(
                f"{edge.port} < {labels.task(edge.parent)}.{edge.parent_port}"
                + (f", {edge.times} times" if edge.times > 1 else "")
                for edge in task.inputs
            ),
        }
        tasks[label] = {key: value for key, value in whole.items() if value}
    return {
        "running": tasks,
        "produced": {
            dataflow: {sink: labels.task(instance) for sink, instance in running.produced(dataflow).items()}
            for dataflow in running.dataflows
        },
        "running dags": {
            name: sorted(dataflow for dataflow in running.dataflows if dag in running.dags_of(dataflow))
            for dag, name in labels.dags.items()
        },
    }


def picture_of_change(before: RunningGraph, change: Change, after: RunningGraph) -> Picture:
    """What a change does to the tasks of its dataflow and to the running DAGs."""
    old, new = Labels.of(before).dags, Labels.of(after).dags
    if (submitted := change.submitted) is not None:
        return {
            "reused": _tasks_at(submitted.places, change.reuses),
            "started": _tasks_at(submitted.places, change.residue),
            "collapsed": [
                group
                for instance in sorted(set(submitted.instances))
                if len(group := _tasks_at(submitted.places, [instance])) > 1
            ],
            "joined": {new[dag]: sorted(map(old.__getitem__, dags)) for dag, dags in _several(after, before).items()},
        }
    assert change.removed is not None
    return {
        "stopped": _tasks_at(change.removed.places, [task.instance for task in change.stops]),
        "released": _tasks_at(change.removed.places, change.releases),
        "split": {old[dag]: sorted(map(new.__getitem__, dags)) for dag, dags in _several(before, after).items()},
    }


def _tasks_at(places: Mapping[str, Instance], instances: Iterable[Instance]) -> list[str]:
    """The document's tasks that run there."""
    wanted = set(instances)
    return sorted(task for task, instance in places.items() if instance in wanted)


def _several(those: RunningGraph, others: RunningGraph) -> dict[DagId, set[DagId]]:
    """The running DAGs of one graph whose sources are in several of the other."""
    there = others.running_dags.of_source
    found: dict[DagId, set[DagId]] = {}
    for source, dag in those.running_dags.of_source.items():
        if source in there:
            found.setdefault(dag, set()).add(there[source])
    return {dag: dags for dag, dags in found.items() if len(dags) > 1}


def _difference(expected: Picture, actual: Picture) -> str:
    old, new = (json.dumps(side, indent=1, sort_keys=True).split("\n") for side in (expected, actual))
    return "\n".join(unified_diff(old, new, "expected", "actual", lineterm=""))


def _each(cases: Iterable[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in cases])


@_each(CASES)
def test_a_step_leads_to_its_picture(case: Case) -> None:
    """A submission or removal leaves exactly what the case names."""
    actual = picture_after(case)
    assert case.after == actual, _difference(case.after, actual)


@_each(case for case in CASES if "refused" not in case.after)
def test_tasks_start_after_their_parents_and_stop_before_them(case: Case) -> None:
    """A change lists starts from the sources down, and stops from the sinks up."""
    change = change_of(running_before(case), case.step)
    downwards = [*change.starts, *reversed(change.stops)]
    place = {task.instance: number for number, task in enumerate(downwards)}
    streams = [(edge.parent, task.instance) for task in downwards for edge in task.inputs if edge.parent in place]
    assert not [stream for stream in streams if place[Instance(stream[0])] >= place[stream[1]]]


@_each(case for case in CASES if case.submitted is not None and "refused" not in case.after)
def test_removing_what_was_submitted_leads_back(case: Case) -> None:
    """What runs is as before, and the stopped tasks are those that were started."""
    before = running_before(case)
    submission = change_of(before, case.step)
    running = applied(before, submission)
    assert submission.submitted is not None
    removal = unmerge(running, submission.submitted.id)
    expected, actual = picture_of(before), picture_of(applied(running, removal))
    assert expected == actual, _difference(expected, actual)
    assert sorted(submission.residue) == sorted(task.instance for task in removal.stops)


@_each(case for case in CASES if case.removed is not None)
def test_submitting_again_starts_what_stopped_and_nothing_else(case: Case) -> None:
    """Stopped tasks start as new instances, and released ones are reused."""
    before = running_before(case)
    removal = change_of(before, case.step)
    written = next(step for step in case.before if isinstance(step, Submission) and step.id == case.removed)
    again = change_of(applied(before, removal), written)
    assert {task.key for task in removal.stops} == {task.key for task in again.starts}
    assert sorted(removal.releases) == sorted(again.reuses)
    assert before.tasks.keys().isdisjoint(again.residue)


def test_every_title_is_given_once() -> None:
    """So a title identifies its case."""
    titles = [case.title for case in CASES]
    assert sorted(set(titles)) == sorted(titles)
