"""The check that no event comes back to where it was published: each round would make more of them, without end.

A task publishes only on topics of its tenant's sources, so every way back leads over registered sources and dataflows
that run. What a client outside publishes again is bounded by the client.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from dags import Dataflow, Problem
from dags.problems import pointer, quoted
from engine.tasks.outside import MQTT_PUBLISH
from manager.committed.sources import Registered
from manager.committed.state import CommittedState
from manager.planner import public_id
from manager.problem import InvalidDataflow
from merge import Instance, RunningGraph

_Ways = dict[str, set[str]]
"""For each source those into which its events are published."""


def check_loops(dataflow: Dataflow, raw: bytes | str, state: CommittedState) -> None:
    """Refuse a dataflow, of whose document these are the bytes, if events that it publishes would come back to it."""
    own = {
        id_: (dataflow.tasks[place].config["topic"], _read_by(dataflow, place))
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name == MQTT_PUBLISH.name
    }
    if not own:
        # What it only reads was there before.
        return
    named = _by_topic(state.sources)
    ways = _ways(state.running, named, without=dataflow.id)
    for topic, read in own.values():
        for source in read:
            ways[source] |= named[topic]
    problems = []
    for at, task in enumerate(json.loads(raw)["tasks"]):
        topic, read = own.get(task["id"], ("", set()))
        if back := sorted(read & _reached(ways, named[topic])):
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


def _by_topic(sources: Mapping[str, Registered]) -> Mapping[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, each in sources.items():
        if each.topic is not None:
            found[each.topic].add(name)
    return found


def _ways(running: RunningGraph, named: Mapping[str, set[str]], *, without: str) -> _Ways:
    found: _Ways = defaultdict(set)
    for instance, task in running.tasks.items():
        if task.type.name == MQTT_PUBLISH.name and any(public_id(each) != without for each in running.serves(instance)):
            for source in _above(running, instance):
                found[source] |= named[task.config["topic"]]
    return found


def _above(running: RunningGraph, instance: Instance) -> Iterator[str]:
    """The sources that a running task reads."""
    seen, waiting = {instance}, [instance]
    while waiting:
        task = running.tasks[waiting.pop()]
        if not task.inputs:
            yield task.config["source"]
        new = {Instance(edge.parent) for edge in task.inputs} - seen
        seen |= new
        waiting += new


def _read_by(dataflow: Dataflow, place: int) -> set[str]:
    """The sources that a task of a dataflow reads."""
    found, seen, waiting = set[str](), {place}, [place]
    while waiting:
        task = dataflow.tasks[waiting.pop()]
        if not task.inputs:
            found.add(task.config["source"])
        new = {edge.parent for edge in task.inputs} - seen
        seen |= new
        waiting += new
    return found


def _reached(ways: Mapping[str, set[str]], begin: set[str]) -> set[str]:
    """The sources into which the events of some sources come sooner or later, with these."""
    seen, waiting = set(begin), list(begin)
    while waiting:
        new = ways.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen
