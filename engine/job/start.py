"""The start of instances in a job: the states that they bring along, and the positions that their streams begin at.

An instance comes from another job with its state at a cut there. Or it returns: it left this job at a cut, and no other
job took it over. A plan that returns instances need not know how far the job is. If the job has not come to the cut, or
has come to it without giving the instances up, they go on as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from engine.offset import Offset
from engine.plan import Entry, Plan
from engine.plan_messages import RefusedPlan
from engine.records.kept_cuts import KeptCut

_NOTHING: Mapping[str, int] = {}


class JobProgress(NamedTuple):
    """How far a job is when a plan is logged; no batch is decided meanwhile."""

    at: Mapping[str, int]
    """The positions of its last record."""
    ran: Plan | None
    """The plan that the last record ran."""
    decided: Offset | None
    """The last end that was decided, if it is known; its batch may not be recorded yet."""


def returning(kept: Iterable[KeptCut], plan: Plan) -> dict[int, KeptCut]:
    """For each instance that a plan returns from a cut of its own job, the part of the cut that it is in."""
    wanted = {each.instance: each.cut for each in plan.imports if each.job == plan.job}
    found: dict[int, KeptCut] = {}
    for cut in kept:
        for instance in cut.instances:
            if wanted.get(instance) == cut.name:
                found.setdefault(instance, cut)
    return found


def check_return(plan: Plan, back: Mapping[int, KeptCut], standing: JobProgress) -> None:
    """Refuse a plan that returns an instance whose stream the job has read past the cut, for other instances."""
    here = standing.ran.instances if standing.ran is not None else frozenset()
    of = {instance: part.streams for part in plan.parts() for instance in part.instances}
    for instance, cut in sorted(back.items()):
        # Other parts may have been cut in the same batch.
        for stream in sorted(of.get(instance, frozenset()) & cut.positions.keys()) if instance not in here else ():
            if standing.at.get(stream, cut.positions[stream]) != cut.positions[stream]:
                raise RefusedPlan(
                    f"instance {instance} left job {plan.job!r} at the cut {cut.name!r}, with {stream!r} at "
                    f"{cut.positions[stream]}, and the job has read that on to {standing.at[stream]} for others; "
                    "let all that reads one stream leave together"
                )


def past_gone(entry: Entry, gone: Mapping[str, int]) -> Entry:
    """An entry that begins each stream after the events that were removed while the job was stopped."""
    if not gone:
        return entry
    return replace(entry, starts={stream: max(at, gone.get(stream, 0)) for stream, at in entry.starts.items()})


def start_positions(
    plan: Plan, starts: Mapping[str, int], standing: JobProgress, latest: Mapping[str, int] = _NOTHING
) -> dict[str, int]:
    """The position that each stream begins at; `starts` are for new streams, and `latest` are of the entry before.

    A stream that a plan before the latest still reads goes on where it is.
    """
    # A plan names a position if it takes it that the job has left the stream. If that is not sure, it may not have.
    named = {each.stream for each in plan.ingress if each.start is not None}
    sure = named - standing.decided.at.keys() if standing.decided is not None else frozenset()
    return {
        stream: start if stream in latest or stream in sure else standing.at.get(stream, start)
        for stream, start in starts.items()
    }
