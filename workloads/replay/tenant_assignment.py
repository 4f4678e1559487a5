"""The cast of a live replay: which tenant submits which dataflow, what it sends, and what it reads. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dags import Visibility
from manager.answers import ReplayConnection, SourceForm, TopicConnection
from workloads.replay.modes import document_in
from workloads.way import Mode
from workloads.workload import Document, Workload, WorkloadSource

FIRST = "tenant-1"
"""Whose the sources are."""
_SOURCE, _PUBLISHES = "source", "mqtt_publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedWorkload:
    """A workload as it is put on each service of a replay."""

    workload: Workload
    tenants: Mapping[str, str]
    """Whose each dataflow is."""
    files: Mapping[str, str]
    """The paths of the sources' events, by their names; those without are topics."""
    rate: float
    """By what the sources' rates are multiplied."""


def tenant_names(many: int) -> tuple[str, ...]:
    """What so many tenants are called."""
    return tuple(f"tenant-{number}" for number in range(1, many + 1))


def tenants_of(workload: Workload, many: int, seed: int) -> Mapping[str, str]:
    """The tenant of each dataflow: spread by chance, but for dataflows that only the owner of the sources can run.

    A task that publishes does so on topics of its own tenant's sources, and one that names a place or a secret means
    its own tenant's; other tenants could neither run nor share it.
    """
    draw = random.Random(f"tenants {seed}")  # noqa: S311 - it keeps no secret
    names = tenant_names(many)
    return {
        name: FIRST if _bound(document) else names[(at + draw.randrange(many)) % many]
        for at, (name, document) in enumerate(sorted(workload.dataflows.items()))
    }


def submitted(document: Document, mode: Mode) -> dict[str, Any]:
    """A document as its tenant sends it in a mode, with the full names of its sources."""
    told = document_in(mode, document)
    return {
        **told,
        "tasks": [
            {**task, "config": {**task["config"], "source": full_name(task["config"]["source"])}}
            if task["type"] == _SOURCE
            else task
            for task in told["tasks"]
        ],
    }


def full_name(source: str) -> str:
    """What documents call a source of the workload."""
    return f"{FIRST}:{_registered(source)}"


def source_form(source: WorkloadSource, path: str | None, rate: float) -> SourceForm:
    """How a source is registered: a file that is replayed over and over, or a topic where there is none."""
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
            "owner": FIRST,
        }
    )


def _registered(source: str) -> str:
    """A source's name as the service takes it; one that names a topic may hold slashes."""
    return source.replace("/", ".")


def _bound(document: Document) -> bool:
    """Whether what a dataflow does hangs on whose it is."""
    return any(
        task["type"] == _PUBLISHES or any(_means_its_owner(value) for value in task.get("config", {}).values())
        for task in document["tasks"]
    )


def _means_its_owner(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint({"place", "secret"})
