"""Previews of submissions and removals, and what keeps tasks from being shared or submitted; nothing is changed.

Confinement: tasks of a dataflow that are not shared although equal ones run, because of when those began. A
dataflow that begins at the earliest events that are kept shares nothing, since running tasks are further on.
State from before a tenant could read a source is not shared with it: instead of a task that holds such state it
gets a younger one, which starts fresh. Younger ones are named by the moment of the grant, so tenants to which a
source was opened at the same time share theirs.

The check that no event comes back to where it was published: each round would make more of them, without end. A
task publishes only on topics of its tenant's sources, so every way back leads over registered sources and
dataflows that run. What a client outside publishes again is bounded by the client.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from braid_client.answers.dataflows import Start
from bridge.output_topics import own_filter
from bridge.topics import ROOT
from bridge.wire import Stream
from dags import Dataflow, Key, Problem, Scope, Task
from dags import State as Remembers
from dags.canonical import confine
from dags.canonical.tasks import taken_node
from dags.outputs import SparkplugOutput
from dags.problems import listed, pointer, quoted
from dags.source_topics import is_wild, overlap
from engine.plan import Plan
from engine.tasks.outside import MQTT_PUBLISH
from manager.kernel.registered_sources import Registered
from manager.kernel.state import CommittedState
from manager.planner import Supplied, public_id
from manager.problem import InvalidDataflow, StateNotReady
from merge import (
    BATCH_SECONDS,
    Conditions,
    Explanation,
    Image,
    Instance,
    NoHost,
    RootsApart,
    RunningGraph,
    RunningTask,
    Submit,
    TooManyStreams,
    decide,
    explain,
    explained,
    release,
    unmerge,
)

T = TypeVar("T")
Order = Callable[[Collection[frozenset[str]], Iterable[Image]], str]
"""Has machines started that offer sets of tags; see `manager.kernel.draft.DecisionGround`."""
_ORDERED_AGAIN = 5.0
"""Seconds after which a document may be sent again whose machine was ordered."""


def confined(dataflow: Dataflow, state: CommittedState, start: Start) -> Dataflow:
    """A dataflow as it may be merged into what runs."""
    if start is Start.EARLIEST:
        ids = {place: task for task, place in sorted(dataflow.places.items(), reverse=True)}
        # What follows a source inherits its scope.
        return confine(dataflow, lambda at: None if dataflow.tasks[at].inputs else Scope(dataflow.id, ids[at]))
    since: list[float] = []
    # For each task the time since which the tenant may read all sources above it.
    for task in dataflow.tasks:
        above = (since[edge.parent] for edge in task.inputs)
        since.append(max(above) if task.inputs else state.sources[task.config["source"]].since(dataflow.tenant))
    if not any(since):
        return dataflow
    return confine(dataflow, _younger(dataflow, state.running, since))


def _younger(dataflow: Dataflow, running: RunningGraph, since: list[float]) -> Callable[[int], Scope | None]:
    def scope_of(at: int) -> Scope | None:
        task = dataflow.tasks[at]
        if task.type.state is Remembers.NONE or not since[at]:
            return None
        younger = Scope("", f"granted at {since[at]!r}")
        # That one first: a dataflow whose document is replaced keeps the one that it has.
        if Key(task.key.signature, younger) in running.index:
            return younger
        known = running.index.get(task.key)
        return younger if known is not None and running.tasks[known].since.timestamp() < since[at] else None

    return scope_of


def check_loops(dataflow: Dataflow, raw: bytes | str, state: CommittedState) -> None:
    """Refuse a dataflow, of whose document these are the bytes, if events that it publishes would come back to it.

    No output may feed a source, whether or not that leads back to it.
    """
    if any(own_filter(settings) for settings in dataflow.outputs.values()):
        _check_output_topics(dataflow, raw, state)
    own = {
        id_: (dataflow.tasks[place].config["topic"], _read_by(place, dataflow.tasks.__getitem__))
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name == MQTT_PUBLISH.name
    }
    if not own:
        # What it only reads was there before.
        return
    taking = _Taking(state.sources)
    ways = _ways(state.running, taking, without=dataflow.id)
    for topic, read in own.values():
        for source in read:
            ways[source] |= taking.of(topic)
    problems = []
    for at, task in enumerate(json.loads(raw)["tasks"]):
        topic, read = own.get(task["id"], ("", set()))
        beyond = _reached(taking.of(topic), ways.__getitem__)
        if back := sorted(read & beyond):
            problems.append(
                Problem(
                    pointer=pointer("tasks", at, "config", "topic"),
                    code="publish-loop",
                    message=f"what is published on {quoted(topic)} comes back to {quoted(back[0])}, its source",
                    remedy="publish on the topic of a source that leads back to none of those above this task",
                )
            )
    if problems:
        raise InvalidDataflow(problems)


_OWN = f"{ROOT.partition('/')[0]}/"


def _check_output_topics(dataflow: Dataflow, raw: bytes | str, state: CommittedState) -> None:
    problems = []
    for at, task in enumerate(json.loads(raw)["tasks"]):
        settings = dataflow.outputs.get(task["id"])
        if settings is None or (wanted := own_filter(settings)) is None:
            continue
        node = settings.format if isinstance(settings.format, SparkplugOutput) else None
        topic = settings.topic or wanted
        place = pointer("tasks", at, "config", *(("topic",) if node is None else ("format", "group")))
        if any(source.topic is not None and overlap(source.topic, wanted) for source in state.sources.values()):
            message = f"the topic {quoted(topic)} feeds a source"
            remedy = "choose another topic; to feed a source, use a task of type mqtt_publish"
            if node is not None:
                message, remedy = f"the group {quoted(node.group)} feeds a source", "choose another group"
            problems.append(Problem(pointer=place, code="source-topic", message=message, remedy=remedy))
        if topic.startswith(_OWN):
            # A tenant may have this name.
            message, remedy = f"the topic {quoted(topic)} is one of Braid's own", "leave the topic out"
            problems.append(Problem(pointer=place, code="unfit-topic", message=message, remedy=remedy))
        if node is not None and any(
            (other.format.group, other.format.node) == (node.group, node.node)
            for submitted in state.running.dataflows.values()
            if public_id(submitted.id) != dataflow.id
            for other in submitted.outputs.values()
            if isinstance(other.format, SparkplugOutput)
        ):
            code, message, remedy = taken_node(node)
            place = pointer("tasks", at, "config", "format", "node")
            problems.append(Problem(pointer=place, code=code, message=message, remedy=remedy))
    if problems:
        raise InvalidDataflow(problems)


class _Taking:
    """The sources by their topics."""

    def __init__(self, sources: Mapping[str, Registered]) -> None:
        self._plain: defaultdict[str, set[str]] = defaultdict(set)
        self._wild: dict[str, Registered] = {}
        for name, source in sources.items():
            if source.topic is not None and is_wild(source.topic):
                self._wild[name] = source
            elif source.topic is not None:
                self._plain[source.topic].add(name)

    def of(self, topic: str) -> set[str]:
        """The sources that get what is published on a topic."""
        return self._plain.get(topic, set()) | {name for name, source in self._wild.items() if source.takes(topic)}


def _ways(running: RunningGraph, taking: _Taking, *, without: str) -> defaultdict[str, set[str]]:
    """For each source those into which its events are published."""
    ways: defaultdict[str, set[str]] = defaultdict(set)
    for instance, task in running.tasks.items():
        if task.type.name == MQTT_PUBLISH.name and any(public_id(user) != without for user in running.serves(instance)):
            for source in _read_by(instance, lambda at: running.tasks[Instance(at)]):
                ways[source] |= taking.of(task.config["topic"])
    return ways


def _read_by(task: int, task_at: Callable[[int], Task | RunningTask]) -> set[str]:
    """The sources that a task reads."""
    above = map(task_at, _reached({task}, lambda at: {edge.parent for edge in task_at(at).inputs}))
    return {source.config["source"] for source in above if not source.inputs}


def _reached(begin: Iterable[T], following: Callable[[T], AbstractSet[T]]) -> set[T]:
    """All that is reached from some ends, with these."""
    seen = set(begin)
    waiting = list(seen)
    while waiting:
        new = following(waiting.pop()) - seen
        seen |= new
        waiting += new
    return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPreview:
    """The outcome of a submission."""

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
def unhosted_refused(
    dataflow: Dataflow, raw: bytes, conditions: Conditions, order: Order | None = None
) -> Iterator[None]:
    """Refuse a document that cannot be placed, for each of its tasks because of which it cannot.

    Such a task needs what no host offers, or reads streams that cannot come to one host. If machines can be ordered
    that offer it, they are, and the document is only refused until they are there.
    """
    try:
        yield
    except TooManyStreams as error:
        problem = Problem(pointer="/tasks", code="too-many-streams", message=str(error), remedy=error.remedy)
        raise InvalidDataflow([problem]) from error
    except RootsApart as error:
        raise InvalidDataflow(list(_apart(dataflow, raw, error))) from error
    except NoHost as error:
        offered = [host.tags for host in conditions.hosts if not host.away]
        lacking = {task.tags for task in dataflow.tasks if not any(task.tags <= tags for tags in offered)}
        if order is not None and lacking and (ordered := order(lacking, conditions.images)):
            raise StateNotReady(ordered, retry_after=_ORDERED_AGAIN) from error
        problems = list(_unhosted(dataflow, raw, conditions))
        if problems:
            raise InvalidDataflow(problems) from error
        raise


def _unhosted(dataflow: Dataflow, raw: bytes, conditions: Conditions) -> Iterator[Problem]:
    offered = [host.tags for host in conditions.hosts if not host.away]
    # Where there is no host at all, one may come that offers everything.
    for number, task in enumerate(json.loads(raw)["tasks"] if offered else ()):
        vertex = dataflow.tasks[dataflow.places[task["id"]]]
        if not vertex.tags or any(vertex.tags <= tags for tags in offered):
            continue
        nowhere = vertex.tags.difference(*offered)
        lacking = listed(sorted(nowhere)) if nowhere else "all of it"
        missing = "no host does" if nowhere == vertex.tags else f"no host offers {lacking}"
        image = next((candidate.name for candidate in conditions.images if vertex.tags <= candidate.tags), None)
        yield Problem(
            pointer=pointer("tasks", number, "tags" if vertex.tags - vertex.type.tags and "tags" in task else "type"),
            code="no-host",
            message=f"the task needs a host that offers {listed(sorted(vertex.tags))}, and {missing}",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPreview:
    """The outcome of a removal."""

    stops: frozenset[Instance]
    """The tasks that nobody else needs."""
    streams: tuple[Stream, ...]
    """The streams that would not be forwarded between jobs any more."""


def preview_removal(state: CommittedState, dataflow: str) -> RemovalPreview:
    """The tasks and streams that end with a dataflow, given by the running graph's id."""
    stops = unmerge(state.running, dataflow).stops
    released = release(stops, state.jobs)
    after = state.jobs.apply(released).leaving
    fewer = {bridge for bridge, _ in released.crossings}
    left = {bridge for parent in {bridge.parent for bridge in fewer} for bridge in after.get(parent, ())}
    ending = {bridge[:2] for bridge in fewer} - {bridge[:2] for bridge in left}
    return RemovalPreview(
        stops=frozenset(task.instance for task in stops),
        # Raw events come to every job that reads them; nobody forwards them.
        streams=tuple(sorted(Stream(*stream) for stream in ending if state.running.tasks[Instance(stream[0])].inputs)),
    )
