"""What dataflows have in common, counted by the real thing: canonical forms, and a merge of all of them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dags import Catalogue, Dataflow, Source, canonicalise
from merge import RunningGraph, merge
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


def canonical(
    documents: Iterable[tuple[str, Document]], catalogue: Catalogue, sources: Mapping[str, Source]
) -> list[Dataflow]:
    """The canonical form of documents, by their names."""
    return [
        canonicalise(json.dumps(document), dataflow=name, tenant=ANYBODY, catalogue=catalogue, sources=sources)
        for name, document in documents
    ]


def shared(dataflows: Iterable[Dataflow], counts: Callable[[str], bool] = lambda _type: True) -> Shared:
    """What dataflows share when all of them run, of the tasks whose type counts."""
    running, now, total = RunningGraph(), datetime.now(UTC), 0
    for dataflow in dataflows:
        total += sum(counts(task.type.name) for task in dataflow.tasks)
        running.advance(merge(running, dataflow, now))
    tasks = [task for task in running.tasks.values() if counts(task.type.name)]
    users = Counter(min(_MOST_USERS, len(running.users[task.instance])) for task in tasks)
    several = {str(number): users[number] for number in range(2, _MOST_USERS)}
    return Shared(total=total, distinct=len(tasks), users={**several, f"{_MOST_USERS}+": users[_MOST_USERS]})
