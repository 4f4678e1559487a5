"""The groups of a plan's parts that are cut together, because the plan that waits for the cut changes all of them.

A part is cut when all its streams have come to the marker. A plan that waits for the cut takes effect in the whole job
at once. So it waits until every part that it changes has come to the marker: otherwise one of them would change before
its cut, and the state that it had there would be lost.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from engine.plan import Delivery, Entry, Forward, Plan, PlanPart, SlotState


def streams_changed(current: Plan, following: Plan) -> frozenset[str]:
    """The streams of those parts of a plan that differ in the plan that follows it."""
    return frozenset(
        stream for part in current.parts() if _is_changed(part, current, following) for stream in part.streams
    )


def cut_together(current: Plan, waiting: Iterable[Entry], cut: str) -> Iterator[frozenset[str]]:
    """The groups of streams that are cut at one moment; `waiting` are the entries of the log behind the plan."""
    changed = frozenset[str]().union(
        *(streams_changed(current, entry.plan) for entry in waiting if entry.plan.at_cut == cut)
    )
    if changed:
        yield changed
    for part in current.parts():
        if part.streams and not part.streams & changed:
            yield part.streams


def _is_changed(part: PlanPart, current: Plan, following: Plan) -> bool:
    """Whether an instance leaves a part or joins it, or events leave the part for another place."""
    if not part.instances <= _active_instances(following):
        return True
    new = _active_instances(following) - _active_instances(current)
    joining = (edge.parent for slot in following.slots if slot.instance in new for edge in slot.inputs)
    return not part.instances.isdisjoint(joining) or _streams_out(part, current) != _streams_out(part, following)


def _active_instances(plan: Plan) -> frozenset[int]:
    """The instances that take events or bring them in."""
    slots = {slot.instance for slot in plan.slots if slot.state is not SlotState.PAUSED}
    return frozenset(slots | {each.instance for each in plan.ingress})


def _streams_out(part: PlanPart, plan: Plan) -> frozenset[object]:
    """The streams that leave a part, and their receivers; epochs do not matter."""
    leaving: tuple[Forward | Delivery, ...] = (*plan.forwards, *plan.deliveries)
    return frozenset(replace(each, epoch=0) for each in leaving if each.instance in part.instances)
