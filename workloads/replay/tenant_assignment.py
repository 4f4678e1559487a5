"""The assignment of dataflows and sources to tenants in a live replay, and the documents that they submit. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dags import Visibility
from manager.answers.sources import ReplayConnection, SourceForm, TopicConnection
from workloads.replay.modes import document_in
from workloads.way import Mode
from workloads.workload import Document, Workload, WorkloadSource

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
    return any(
        task["type"] == _PUBLISHES or any(_depends_on_owner(value) for value in task.get("config", {}).values())
        for task in document["tasks"]
    )


def _depends_on_owner(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint({"place", "secret"})
