"""Cutting: which parts of a plan are cut together, because the plan that waits for the cut changes all of them.

A part is cut when all its streams have come to the marker. A plan that waits for the cut takes effect for the whole job
at once, so it has to wait until every part that it changes has come there: else one of them would be changed before its
cut, and what it kept there would be lost.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from engine.plan import Delivery, Entry, Forward, Plan, PlanPart, SlotState


def streams_changed(current: Plan, following: Plan) -> frozenset[str]:
    """The streams of the parts of a plan that are not the same in the one that follows it."""
    return frozenset(
        stream for part in current.parts() if _is_changed(part, current, following) for stream in part.streams
    )


def cut_together(current: Plan, waiting: Iterable[Entry], cut: str) -> Iterator[frozenset[str]]:
    """Streams that are cut at one moment, group by group; `waiting` are the entries of the log behind the plan."""
    changed = frozenset[str]().union(
        *(streams_changed(current, entry.plan) for entry in waiting if entry.plan.at_cut == cut)
    )
    if changed:
        yield changed
    for part in current.parts():
        if part.streams and not part.streams & changed:
            yield part.streams


def _is_changed(part: PlanPart, current: Plan, following: Plan) -> bool:
    """Whether somebody leaves a part, joins it, or goes elsewhere with what it gives."""
    if not part.instances <= _taking(following):
        return True
    new = _taking(following) - _taking(current)
    joining = (edge.parent for slot in following.slots if slot.instance in new for edge in slot.inputs)
    return not part.instances.isdisjoint(joining) or _leaving(part, current) != _leaving(part, following)


def _taking(plan: Plan) -> frozenset[int]:
    """Whoever takes events or brings them in."""
    slots = {slot.instance for slot in plan.slots if slot.state is not SlotState.PAUSED}
    return frozenset(slots | {each.instance for each in plan.ingress})


def _leaving(part: PlanPart, plan: Plan) -> frozenset[object]:
    """What leaves a part, and to whom; in which epoch is all the same."""
    leaving: tuple[Forward | Delivery, ...] = (*plan.forwards, *plan.deliveries)
    return frozenset(replace(each, epoch=0) for each in leaving if each.instance in part.instances)
