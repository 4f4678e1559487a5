"""Counts of the tasks that dataflows share, and statistics of templates in the terms of the published repository.

Sharing is counted by the service's own canonical forms and a merge of all dataflows.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean, median
from typing import Any

from dags import AnyTaskType, Catalogue, Dataflow, Key, Source
from dags.canonical import canonicalise
from merge import RunningGraph, each_step, merge, numbered
from merge import works as weighed
from workloads.opmw.document_encoder import SourcesBy, encode, registered, sources_of
from workloads.opmw.templates import Template, is_chain, links
from workloads.workload import Document

_TENANT = "anybody"
"""The tenant of the documents."""
_MOST_USERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTasks:
    """Tasks of one kind in many dataflows, each dataflow without its own duplicates."""

    total: int
    distinct: int
    users: Mapping[str, int]
    """The number of distinct tasks that serve 2, 3, 4, and `5+` dataflows."""

    @property
    def share(self) -> float:
        """The part of the tasks that sharing saves, rounded to a thousandth."""
        return round(1 - self.distinct / self.total, 3) if self.total else 0.0

    def as_json(self) -> dict[str, Any]:
        """The JSON in a manifest."""
        return {"total": self.total, "distinct": self.distinct, "shared": self.share, "users": dict(self.users)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingCounts:
    """The tasks and the work that many dataflows share."""

    steps: SharedTasks
    sources: SharedTasks
    outputs: SharedTasks
    tasks: SharedTasks
    """Sources and steps, which published templates have."""
    work_saved: float | None
    """The part of the steps' work that sharing saves if all sources have the same rate; None without steps."""

    def as_json(self) -> dict[str, Any]:
        """The JSON in a manifest."""
        return {
            "steps": self.steps.as_json(),
            "sources": self.sources.as_json(),
            "outputs": self.outputs.as_json(),
            "steps and sources": self.tasks.as_json(),
            "work saved": None if self.work_saved is None else round(self.work_saved, 3),
        }


def canonical(
    documents: Iterable[tuple[str, Document]], catalogue: Catalogue, sources: Mapping[str, Source]
) -> list[Dataflow]:
    """The canonical forms of documents."""
    return [
        canonicalise(json.dumps(document), dataflow=name, tenant=_TENANT, catalogue=catalogue, sources=sources)
        for name, document in documents
    ]


def works(dataflow: Dataflow) -> dict[Key, int]:
    """The work of each step of a dataflow: how often it runs for one event of each source."""
    tasks = numbered(dataflow)
    amounts = weighed(tasks, lambda _source: 1, cost=each_step)
    return {task.key: int(amounts[number]) for number, task in tasks.items() if is_step(task.type)}


def work_saved(dataflows: Iterable[Dataflow]) -> float | None:
    """The part of the steps' work that sharing saves; None without steps."""
    by_dataflow = [works(dataflow) for dataflow in dataflows]
    alone = sum(sum(steps.values()) for steps in by_dataflow)
    running = sum({key: work for steps in by_dataflow for key, work in steps.items()}.values())
    return 1 - running / alone if alone else None


def is_step(kind: AnyTaskType) -> bool:
    """True if a task type is neither a source nor an output."""
    return not kind.is_source and not kind.is_sink


def count_sharing(dataflows: Sequence[Dataflow]) -> SharingCounts:
    """Count the tasks that dataflows share when all of them run."""
    running, now = RunningGraph(), datetime.now(UTC)
    for dataflow in dataflows:
        running.advance(merge(running, dataflow, now))

    def shared(counts: Callable[[AnyTaskType], bool]) -> SharedTasks:
        tasks = [task for task in running.tasks.values() if counts(task.type)]
        users = Counter(min(_MOST_USERS, len(running.users[task.instance])) for task in tasks)
        several = {str(number): users[number] for number in range(2, _MOST_USERS)}
        return SharedTasks(
            total=sum(counts(task.type) for dataflow in dataflows for task in dataflow.tasks),
            distinct=len(tasks),
            users={**several, f"{_MOST_USERS}+": users[_MOST_USERS]},
        )

    return SharingCounts(
        steps=shared(is_step),
        sources=shared(lambda kind: kind.is_source),
        outputs=shared(lambda kind: kind.is_sink),
        tasks=shared(lambda kind: not kind.is_sink),
        work_saved=work_saved(dataflows),
    )


def dataflows_of(templates: Sequence[Template], catalogue: Catalogue, sources: SourcesBy) -> list[Dataflow]:
    """The canonical dataflows of templates, with an output for each output variable."""
    documents = {template.name: encode(template, name=template.name, sources=sources) for template in templates}
    names = tuple({source for document in documents.values() for source in sources_of(document)})
    return canonical(documents.items(), catalogue, registered(names))


def shape(templates: Sequence[Template]) -> dict[str, Any]:
    """The sizes of templates and their links."""
    sizes = [len(template.steps) for template in templates]
    return {
        "templates": len(templates),
        "steps": {
            "min": min(sizes),
            "median": median(sizes),
            "mean": round(fmean(sizes), 2),
            "max": max(sizes),
            "total": sum(sizes),
        },
        "links": sum(map(links, templates)),
        "components": len({step.component for template in templates for step in template.steps}),
        "single-step": sizes.count(1),
        "chains": sum(map(is_chain, templates)),
    }


def sharing(by_type: Sequence[Dataflow]) -> dict[str, Any]:
    """The tasks that dataflows share; their sources are by data type."""
    return {"with equivalent steps": sum(map(_repeats, by_type)), "by type": count_sharing(by_type).as_json()}


def sharing_by_other_sources(templates: Sequence[Template], catalogue: Catalogue) -> dict[str, Any]:
    """The tasks that templates share with sources by variable, and with one source for all."""
    by_variable = count_sharing(dataflows_of(templates, catalogue, SourcesBy.VARIABLE))
    alone = count_sharing(dataflows_of(templates, catalogue, SourcesBy.NONE))
    return {"by variable": by_variable.as_json(), "one source": alone.as_json()}


def _repeats(dataflow: Dataflow) -> bool:
    places = [place for place in dataflow.places.values() if is_step(dataflow.tasks[place].type)]
    return len(set(places)) < len(places)
