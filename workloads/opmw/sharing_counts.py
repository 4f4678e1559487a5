"""What dataflows have in common, counted by the real thing: canonical forms, and a merge of all of them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dags import AnyTaskType, Catalogue, Dataflow, Key, Source, canonicalise
from merge import RunningGraph, each_step, merge, numbered
from merge import works as weighed
from workloads.workload import Document

ANYBODY = "anybody"
"""The tenant in whose name documents are looked at."""
_MOST_USERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Tasks of many dataflows, each dataflow without its own duplicates."""

    total: int
    distinct: int
    users: Mapping[str, int]
    """How many of the distinct ones serve 2, 3, 4, and `5+` dataflows."""

    @property
    def share(self) -> float:
        """The part of the tasks that need not run, to a thousandth."""
        return round(1 - self.distinct / self.total, 3) if self.total else 0.0

    def told(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        return {"total": self.total, "distinct": self.distinct, "shared": self.share, "users": dict(self.users)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What many dataflows share, by what tasks are there for."""

    steps: Shared
    sources: Shared
    outputs: Shared
    tasks: Shared
    """Sources and steps, as published templates have them."""
    work_saved: float | None
    """The part of the steps' work that need not be done, where all sources have one rate; None without steps."""

    def told(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        return {
            "steps": self.steps.told(),
            "sources": self.sources.told(),
            "outputs": self.outputs.told(),
            "steps and sources": self.tasks.told(),
            "work saved": None if self.work_saved is None else round(self.work_saved, 3),
        }


def canonical(
    documents: Iterable[tuple[str, Document]], catalogue: Catalogue, sources: Mapping[str, Source]
) -> list[Dataflow]:
    """The canonical form of documents, by their names."""
    return [
        canonicalise(json.dumps(document), dataflow=name, tenant=ANYBODY, catalogue=catalogue, sources=sources)
        for name, document in documents
    ]


def works(dataflow: Dataflow) -> dict[Key, int]:
    """The work of each step of a dataflow: how often it works while each source gives one event."""
    tasks = numbered(dataflow)
    found = weighed(tasks, lambda _source: 1, cost=each_step)
    return {task.key: int(found[number]) for number, task in tasks.items() if is_step(task.type)}


def work_saved(dataflows: Iterable[Dataflow]) -> float | None:
    """The part of the steps' work that need not be done, because what several dataflows have runs once."""
    each = [works(dataflow) for dataflow in dataflows]
    alone = sum(sum(found.values()) for found in each)
    running = sum({key: work for found in each for key, work in found.items()}.values())
    return 1 - running / alone if alone else None


def is_step(kind: AnyTaskType) -> bool:
    """Whether tasks of a type compute: they neither begin nor end a dataflow."""
    return not kind.is_source and not kind.is_sink


def counted(dataflows: Sequence[Dataflow]) -> Counted:
    """What dataflows share when all of them run."""
    running, now = RunningGraph(), datetime.now(UTC)
    for dataflow in dataflows:
        running.advance(merge(running, dataflow, now))

    def shared(counts: Callable[[AnyTaskType], bool]) -> Shared:
        tasks = [task for task in running.tasks.values() if counts(task.type)]
        users = Counter(min(_MOST_USERS, len(running.users[task.instance])) for task in tasks)
        several = {str(number): users[number] for number in range(2, _MOST_USERS)}
        return Shared(
            total=sum(counts(task.type) for dataflow in dataflows for task in dataflow.tasks),
            distinct=len(tasks),
            users={**several, f"{_MOST_USERS}+": users[_MOST_USERS]},
        )

    return Counted(
        steps=shared(is_step),
        sources=shared(lambda kind: kind.is_source),
        outputs=shared(lambda kind: kind.is_sink),
        tasks=shared(lambda kind: not kind.is_sink),
        work_saved=work_saved(dataflows),
    )
