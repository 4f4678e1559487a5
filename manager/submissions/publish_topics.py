"""The check that a tenant's tasks publish on topics of its own sources only.

So nobody publishes into the source of another, and a dataflow ends with the last source that it may publish into.
"""

import json
from collections.abc import Mapping

from dags import Dataflow, Problem
from dags.problems import pointer, quoted
from engine.tasks.outside import MQTT_PUBLISH
from manager.committed.sources import Registered
from manager.committed.state import CommittedState
from manager.problem import InvalidDataflow


def check_topics(dataflow: Dataflow, raw: bytes, sources: Mapping[str, Registered]) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that publishes elsewhere."""
    topics = {
        id_: dataflow.tasks[place].config["topic"]
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name == MQTT_PUBLISH.name
    }
    if not topics:
        return
    own = {each.topic for each in sources.values() if each.source.owner == dataflow.tenant}
    problems = [
        Problem(
            pointer=pointer("tasks", at, "config", "topic"),
            code="foreign-topic",
            message=f"{quoted(topic)} is the topic of no source that {quoted(dataflow.tenant)} owns",
            remedy="register a source with this topic, or name the topic of one",
        )
        for at, task in enumerate(json.loads(raw)["tasks"])
        if (topic := topics.get(task["id"])) is not None and topic not in own
    ]
    if problems:
        raise InvalidDataflow(problems)


def publishing(state: CommittedState, source: str) -> set[str]:
    """The dataflows that publish on the topic of a source, as the running graph calls them."""
    running, topic = state.running, state.sources[source].topic
    return {
        dataflow
        for instance, task in running.tasks.items()
        if task.type.name == MQTT_PUBLISH.name and task.config["topic"] == topic
        for dataflow in running.serves(instance)
    }
