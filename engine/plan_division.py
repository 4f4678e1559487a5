"""The division of a plan: which of its events and states belong to which shard of a batch.

`dags.divisibility` says how each connected part of a plan is divided, by what its tasks keep: by key, by position, or
not at all. Then the whole part belongs to one shard.

A task whose key is made on the way needs its events exchanged. Streams between jobs do that: behind a bridge the key is
in what enters.
"""

from collections.abc import Mapping

from dags import Catalogue
from dags.divisibility import DividedBy, TaskKeeping, divisibility, evenly, shard_of_whole
from engine.division import UNDIVIDED, Division, StreamDivision
from engine.plan import Plan, PlanPart, Slot


def divided(plan: Plan, catalogue: Catalogue) -> Division:
    """The division of a plan over its shards."""
    if plan.shards == 1:
        return UNDIVIDED
    tasks = {slot.instance: _keeping(slot, catalogue) for slot in plan.slots}
    streams: dict[str, StreamDivision] = {}
    # A paused task takes no events, so it is in no part. Its state stays where it is.
    whole = {each: 0 for each, task in tasks.items() if task is None or task.key is None}
    for part in plan.parts():
        found = _of_part(part, tasks, plan.shards)
        streams.update(dict.fromkeys(part.streams, found))
        if found.by is DividedBy.NOTHING:
            whole.update(dict.fromkeys(part.instances & tasks.keys(), found.shard))
    for change in plan.changes:
        # The state that a fork takes over has to be where the fork is.
        if change.source is not None and change.source not in tasks and change.instance in whole:
            whole[change.source] = whole[change.instance]
    return Division(
        shards=plan.shards,
        groups=plan.groups or evenly(plan.shards),
        streams=streams,
        keyed=frozenset(tasks.keys() - whole.keys()),
        whole=whole,
    )


def _of_part(part: PlanPart, tasks: Mapping[int, TaskKeeping | None], shards: int) -> StreamDivision:
    found = divisibility({each: tasks[each] for each in part.instances & tasks.keys()})
    shard = shard_of_whole(part.instances, shards) if found.by is DividedBy.NOTHING else 0
    return StreamDivision(by=found.by, key=found.key, shard=shard)


def _keeping(slot: Slot, catalogue: Catalogue) -> TaskKeeping | None:
    """What the task of a slot keeps; None if its type is not known here."""
    kind = catalogue.find(slot.type)
    if kind is None or kind.version != slot.version:
        return None
    config = kind.config.model_validate_json(slot.config)
    return TaskKeeping.of(kind, config, (edge.parent for edge in slot.inputs))
