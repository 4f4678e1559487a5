"""Topics on which outputs retained messages and do no more, because their dataflow went or asks for something else.

What the broker keeps there is cleared once nothing of before can leave any more. Until then they are part of the
committed state, so that neither a crash of the manager nor one of the host loses them.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge.output_topics import chosen_topic
from dags.source_topics import source_topic
from engine.plan import Plan
from manager.planner import public_id
from merge import Change, JobId, Submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredTopic:
    """The filter of the topics on which an output retained, and the last plan that it was in."""

    id: str
    dataflow: str
    sink: str
    topic: str
    """The filter; a plain topic is its own."""
    job: JobId
    version: int
    """The version of the plan. Nothing of it may leave any more before the topics are cleared."""


def retaining(dataflow: Submitted | None) -> dict[str, str]:
    """The filter of the topics on which each output of a dataflow retains messages."""
    if dataflow is None:
        return {}
    return {
        sink: source_topic(chosen_topic(dataflow.tenant, public_id(dataflow.id), sink, settings)).filter
        for sink, settings in dataflow.outputs.items()
        if settings.retain
    }


def retired_by(change: Change, stopped: Mapping[JobId, Plan], plans: Mapping[JobId, Plan]) -> Iterator[RetiredTopic]:
    """The topics that a change retires, given the plans before it, and those of jobs that have not stopped yet."""
    after = retaining(change.submitted)
    # In a replacement, the same dataflow is submitted again.
    topics = {sink: topic for sink, topic in retaining(change.removed).items() if after.get(sink) != topic}
    if change.removed is None or not topics:
        return
    dataflow = public_id(change.removed.id)
    for job, plan in {**stopped, **plans}.items():
        for delivery in plan.deliveries:
            if delivery.dataflow == dataflow and delivery.sink in topics:
                yield RetiredTopic(
                    id=secrets.token_hex(8),
                    dataflow=dataflow,
                    sink=delivery.sink,
                    topic=topics[delivery.sink],
                    job=job,
                    version=plan.version,
                )
