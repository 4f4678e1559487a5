"""A preview of a submission: what it would reuse and start, and the jobs that it would open; nothing is changed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dags import Dataflow, Problem
from dags.problems import listed, pointer
from engine.plan import Plan
from manager.answers import Start
from manager.committed.state import CommittedState
from manager.planner import Supplied
from manager.problem import InvalidDataflow
from merge import (
    BATCH_SECONDS,
    Conditions,
    Explanation,
    Instance,
    NoHost,
    RootsApart,
    Submit,
    TooManyStreams,
    decide,
    explain,
    explained,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPreview:
    """The outcome of a submission; made by `preview`."""

    explanation: Explanation
    dataflow: Dataflow
    instances: tuple[Instance | None, ...]
    """For each of its distinct tasks where it runs; None where it would start."""
    opened: int
    """The number of jobs that would be opened for the rest."""
    job_cores: float
    """The cores that the batches of a job are assumed to cost, whatever they hold."""
    plans: tuple[Plan, ...]
    """Those of all jobs that run."""
    sources: dict[str, Supplied]
    """The supply of each source that it reads."""


def preview(
    state: CommittedState, conditions: Conditions, dataflow: Dataflow, raw: bytes, start: Start
) -> SubmissionPreview:
    """The outcome of submitting a dataflow now, by the same decision; refused where no host could run it."""
    asked = Submit(dataflow=dataflow, from_earliest=start is Start.EARLIEST)
    try:
        with unhosted_refused(dataflow, raw, conditions):
            step = decide(state.running, state.jobs, asked, conditions)
    except NoHost:
        # There is no host at all for now: it would open a job once there is.
        explanation, opened = explain(state.running, dataflow, conditions.now), 1
    else:
        explanation, opened = explained(state.running, step.change), len(step.opens)
    sources = {task.config["source"] for task in dataflow.tasks if task.type.reads_source}
    return SubmissionPreview(
        explanation=explanation,
        dataflow=dataflow,
        instances=tuple(state.running.index.get(task.key) for task in dataflow.tasks),
        opened=opened,
        job_cores=BATCH_SECONDS / conditions.pace,
        plans=tuple(state.plans.values()),
        sources={source: state.sources[source].supplied for source in sources},
    )


@contextmanager
def unhosted_refused(dataflow: Dataflow, raw: bytes, conditions: Conditions) -> Iterator[None]:
    """Refuse a document that cannot be placed, for each of its tasks because of which it cannot.

    Such a task needs what no host offers, or reads streams that cannot come to one host.
    """
    try:
        yield
    except TooManyStreams as error:
        problem = Problem(pointer="/tasks", code="too-many-streams", message=str(error), remedy=error.remedy)
        raise InvalidDataflow([problem]) from error
    except RootsApart as error:
        raise InvalidDataflow(list(_apart(dataflow, raw, error))) from error
    except NoHost as error:
        problems = list(_unhosted(dataflow, raw, conditions))
        if problems:
            raise InvalidDataflow(problems) from error
        raise


def _unhosted(dataflow: Dataflow, raw: bytes, conditions: Conditions) -> Iterator[Problem]:
    offered = [host.tags for host in conditions.hosts if not host.away]
    # Where there is no host at all, one may come that offers everything.
    for number, task in enumerate(json.loads(raw)["tasks"] if offered else ()):
        found = dataflow.tasks[dataflow.places[task["id"]]]
        if not found.tags or any(found.tags <= tags for tags in offered):
            continue
        nowhere = found.tags.difference(*offered)
        lacking = listed(sorted(nowhere)) if nowhere else "all of it"
        missing = "no host does" if nowhere == found.tags else f"no host offers {lacking}"
        image = next((each.name for each in conditions.images if found.tags <= each.tags), None)
        yield Problem(
            pointer=pointer("tasks", number, "tags" if found.tags - found.type.tags and "tags" in task else "type"),
            code="no-host",
            message=f"the task needs a host that offers {listed(sorted(found.tags))}, and {missing}",
            remedy=_OTHER_HOST if image is None else f"have an operator start one, with `braid host --image {image}`",
        )


_OTHER_HOST = "leave it out, or have an operator start such a host, with `braid host --tag`, or of a registered image"


def _apart(dataflow: Dataflow, raw: bytes, error: RootsApart) -> Iterator[Problem]:
    for number, task in enumerate(json.loads(raw)["tasks"]):
        if dataflow.tasks[dataflow.places[task["id"]]].key in error.keys:
            yield Problem(
                pointer=pointer("tasks", number),
                code="roots-apart",
                message="the streams that this task and those below it read are on hosts that share no files, and one "
                "is sent to such a host already; a stream can be sent to one only",
                remedy='set "fresh": true at the tasks that feed it, so that they run beside it for this dataflow',
            )
