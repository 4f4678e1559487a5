"""What submitting a document would do: what it reuses and where that runs, and how many jobs it opens."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dags import Dataflow, Problem
from dags.problems import listed, pointer
from engine.plan import Plan
from manager.answers import Start
from manager.committing.draft import BATCH, BUSY, Draft, Ground, placed
from manager.committing.state import State
from manager.problem import InvalidDataflow
from manager.saving import Prospect
from merge import Change, Explanation, Host, NoHost, explained, merge


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What a submission would do; made by `foretell`."""

    explanation: Explanation
    dataflow: Dataflow
    prospects: tuple[Prospect, ...]
    """Its distinct tasks."""
    opened: int
    """How many jobs would be opened for the rest."""
    job_cores: float
    """What the batches of a job are taken to cost, whatever they hold."""
    task_cores: float
    """What a task is taken to cost of which nothing is known."""
    plans: tuple[Plan, ...]
    """Those of all jobs that run."""


def foretell(  # noqa: PLR0913 - what a submission goes by
    state: State, ground: Ground, dataflow: Dataflow, raw: bytes, start: Start, *, now: datetime
) -> Foretold:
    """What submitting a dataflow would do, and nothing of it done; refused where no host could run it."""
    change = merge(state.running, dataflow, now)
    try:
        opened = len(placed(state, ground, change, start).opens)
    except NoHost as error:
        refuse_unhosted(dataflow, raw, ground.hosts(), error)
        # There is no host at all for now: it would open a job once there is.
        opened = 1
    return Foretold(
        explanation=explained(state.running, change),
        dataflow=dataflow,
        prospects=tuple(_prospects(state, dataflow, change)),
        opened=opened,
        job_cores=BATCH / ground.pace,
        task_cores=BUSY,
        plans=tuple(state.plans.values()),
    )


def submit(draft: Draft, dataflow: Dataflow, raw: bytes, start: Start = Start.LATEST) -> Change:
    """Submit a dataflow; where hosts are there and none can run one of its tasks, that is refused for good."""
    try:
        return draft.submit(dataflow, start)
    except NoHost as error:
        refuse_unhosted(dataflow, raw, draft.ground.hosts(), error)
        raise


def refuse_unhosted(dataflow: Dataflow, raw: bytes, hosts: Iterable[Host], error: NoHost) -> None:
    """Refuse a document for each of its tasks that needs what no host offers; nothing where there is no such task."""
    offered = [host.tags for host in hosts]
    if not offered:
        return
    problems = [
        Problem(
            pointer=pointer("tasks", number, "type"),
            code="no-host",
            message=f"a task of this type needs a host that offers {listed(sorted(needs))}, and no host does",
            remedy="leave the task out, or have an operator start such a host, with `braid host --tag`",
        )
        for number, task in enumerate(json.loads(raw)["tasks"])
        if (needs := dataflow.tasks[dataflow.places[task["id"]]].type.tags)
        and not any(needs <= tags for tags in offered)
    ]
    if problems:
        raise InvalidDataflow(problems) from error


def _prospects(state: State, dataflow: Dataflow, change: Change) -> Iterable[Prospect]:
    """The distinct tasks, each after its parents, as they stand in the dataflow."""
    places = {} if change.submitted is None else change.submitted.places
    instances = {place: places[task] for task, place in dataflow.places.items()}
    residue, streams = set(change.residue), list[frozenset[str]]()
    for number, task in enumerate(dataflow.tasks):
        if task.type.is_source:
            # Of one that makes its events itself no rate is known.
            stream = state.sources[task.config["source"]].supplied.stream if task.type.reads_source else ""
            streams.append(frozenset({stream}))
        else:
            streams.append(frozenset[str]().union(*(streams[edge.parent] for edge in task.inputs)))
        instance = instances[number]
        yield Prospect(
            instance=None if instance in residue else instance,
            type=task.type.name,
            is_source=task.type.is_source,
            streams=streams[number],
        )
