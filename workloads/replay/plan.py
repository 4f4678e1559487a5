"""The plan of a replay, as data: its settings, measured steps and duration, and what its tenants submit. Pure.

In mode `reuse` the documents of a workload are submitted as they are, in `default` with every task marked as fresh.
Dataflows and sources are assigned to tenants.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braid_client.answers.sources import ReplayConnection, SourceForm, TopicConnection
from dags import Visibility
from workloads.traces import Action, Mode, Trace, Way
from workloads.workload import Document, Workload, WorkloadSource


def document_in(mode: Mode, document: Document) -> dict[str, Any]:
    """A document as it is submitted in a mode.

    >>> document_in("default", {"version": 1, "tasks": [{"id": "a", "type": "source"}]})["tasks"]
    [{'id': 'a', 'type': 'source', 'fresh': True}]
    """
    if mode == "reuse":
        return dict(document)
    return {**document, "tasks": [{**task, "fresh": True} for task in document["tasks"]]}


STARTING = 13.0
"""Approximate seconds that a service takes to start."""
STOPPING = 5.0
"""Approximate seconds that it takes to end."""
OPENING = 1.3
"""Approximate seconds that a new job takes to start; jobs start one after the other."""
COMMITTING = 0.2
"""Approximate seconds of a step that the replay does not wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The speed of a replay and its measurements."""

    pace: float = 1.0
    """Seconds from one batch of a job to the next."""
    windows: int = 3
    """Windows at each measured step."""
    window: float = 10.0
    """Seconds of each window."""
    settle: float = 2.0
    """Paces between the end of a step and its first window. A job runs a batch as soon as it has a new plan, and one
    in each pace from then on."""
    points: int | None = None
    """The number of measured steps, spread over the trace; None for all."""
    hurry: bool = False
    """Wait only for measured steps, and just commit the others."""
    speed: float = 1.0
    """The factor on the speed of a trace with times."""
    tenants: int = 5
    """The number of tenants that submit the dataflows."""

    @property
    def settling(self) -> float:
        """Seconds between the end of a step and its first window."""
        return self.settle * self.pace

    @property
    def measuring(self) -> float:
        """Seconds for the measurements of a step."""
        return self.settling + self.windows * self.window


def measured_steps(trace: Trace, points: int | None) -> frozenset[int]:
    """The measured steps: they cut the trace into equal parts.

    After the last step nothing runs any more, so it is measured only if all steps are.

    >>> from workloads.traces import sequential
    >>> sorted(measured_steps(sequential("w", ["a", "b", "c", "d"], 1), 3))
    [1, 3, 5]
    """
    many = len(trace.steps)
    if points is None or points >= many:
        return frozenset(range(many))
    return frozenset(round(many * (number + 1) / (points + 1)) - 1 for number in range(points))


def awaited_steps(trace: Trace, pacing: Pacing) -> frozenset[int]:
    """The steps whose effect the replay waits for."""
    return measured_steps(trace, pacing.points) if pacing.hurry else frozenset(range(len(trace.steps)))


def seconds_of(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> tuple[float, ...]:
    """The approximate seconds of each step, for progress bars and budgets."""
    measured, awaited = measured_steps(trace, pacing.points), awaited_steps(trace, pacing)
    moves = sum(way.defragment == "step" for way in ways)
    durations: list[float] = []
    opened = 0
    for number, step in enumerate(trace.steps):
        took = COMMITTING * len(ways)
        if step.action is Action.SUBMIT:
            # Packed dataflows rarely start a job.
            opened += sum(way.placement != "pack" for way in ways)
        if number in awaited:
            took += pacing.pace + OPENING * opened + pacing.pace * moves
            opened = 0
        if number in measured:
            took += pacing.measuring
        durations.append(took)
    return tuple(durations)


def total_seconds(trace: Trace, pacing: Pacing, ways: Sequence[Way]) -> float:
    """The approximate seconds of a replay."""
    return sum(seconds_of(trace, pacing, ways)) + len(ways) * (STARTING + STOPPING)


OWNER_OF_SOURCES = "tenant-1"
"""The owner of the sources."""
_SOURCE, _PUBLISHES = "source", "mqtt_publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedWorkload:
    """A workload as each service of a replay gets it."""

    workload: Workload
    tenants: Mapping[str, str]
    """The tenant of each dataflow."""
    files: Mapping[str, str]
    """The files with the sources' events, by source; a source without one is a topic."""
    rate: float
    """The factor on the sources' rates."""


def tenant_names(many: int) -> tuple[str, ...]:
    """The names of so many tenants."""
    return tuple(f"tenant-{number}" for number in range(1, many + 1))


def tenants_of(workload: Workload, many: int, seed: int) -> Mapping[str, str]:
    """The tenant of each dataflow: random, except for dataflows that only the owner of the sources can run.

    A task that publishes uses topics of its own tenant's sources, and one with a place or a secret uses its own
    tenant's; other tenants could neither run nor share it.
    """
    draw = random.Random(f"tenants {seed}")  # noqa: S311 - it keeps no secret
    names = tenant_names(many)
    return {
        name: OWNER_OF_SOURCES if _is_bound_to_owner(document) else names[(at + draw.randrange(many)) % many]
        for at, (name, document) in enumerate(sorted(workload.dataflows.items()))
    }


def submitted(document: Document, mode: Mode) -> dict[str, Any]:
    """A document as its tenant submits it in a mode, with the full names of its sources."""
    content = document_in(mode, document)
    return {
        **content,
        "tasks": [
            {**task, "config": {**task["config"], "source": full_name(task["config"]["source"])}}
            if task["type"] == _SOURCE
            else task
            for task in content["tasks"]
        ],
    }


def full_name(source: str) -> str:
    """The name of a source of the workload in documents."""
    return f"{OWNER_OF_SOURCES}:{_registered(source)}"


def source_form(source: WorkloadSource, path: str | None, rate: float) -> SourceForm:
    """The registration of a source: a file that is replayed again and again, or a topic if there is no file."""
    connection = (
        TopicConnection(kind="topic", topic=source.name)
        if path is None
        else ReplayConnection(kind="replay", path=path, per_second=source.per_second * rate, repeat=True)
    )
    return SourceForm.model_validate(
        {
            "name": _registered(source.name),
            "connection": connection,
            "schema": dict(source.schema.fields),
            "visibility": Visibility.PUBLIC,
            "owner": OWNER_OF_SOURCES,
        }
    )


def _registered(source: str) -> str:
    """A source's name as the service accepts it; the name of a topic may contain slashes."""
    return source.replace("/", ".")


def _is_bound_to_owner(document: Document) -> bool:
    """True if what a dataflow does depends on its owner."""
    values = [value for task in document["tasks"] for value in task.get("config", {}).values()]
    return any(task["type"] == _PUBLISHES for task in document["tasks"]) or any(
        isinstance(value, dict) and not value.keys().isdisjoint({"place", "secret"}) for value in values
    )
