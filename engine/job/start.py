"""Coming: what instances bring along that begin in a job, and from where their streams are read.

An instance comes from another job with the state of a cut there. Or it comes back: it left this job at a cut, and
nobody took it over. A plan that brings instances back need not know how far each job has come: one that has not reached
the cut, or reached it and did not let go of them, goes on as it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from engine.offset import Offset
from engine.plan import Entry, Plan, StateImport
from engine.plan_messages import RefusedPlan
from engine.records.kept_cuts import KeptCut

_NOTHING: Mapping[str, int] = {}


class Standing(NamedTuple):
    """How far a job is while a plan is logged; nothing is decided meanwhile."""

    at: Mapping[str, int]
    """By its last record."""
    ran: Plan | None
    """The plan that the last record ran."""
    decided: Offset | None
    """The last end that was decided, if that is known; its batch may not be recorded yet."""


def returning(kept: Iterable[KeptCut], plan: Plan) -> dict[int, KeptCut]:
    """For each instance that a plan brings back from a cut of its own job, the part of the cut that it is in."""
    wanted = {each.instance: each.cut for each in plan.imports if each.job == plan.job}
    found: dict[int, KeptCut] = {}
    for cut in kept:
        for instance in cut.instances:
            if wanted.get(instance) == cut.name:
                found.setdefault(instance, cut)
    return found


def brought(begun: Iterable[Entry], before: Plan | None) -> Iterator[StateImport]:
    """What is brought in a batch in which entries take effect, the plan before which may be none."""
    here = before.instances if before is not None else frozenset()
    for entry in begun:
        # Who comes back and never left goes on as it is.
        yield from (each for each in entry.plan.imports if each.job != entry.plan.job or each.instance not in here)


def check_return(plan: Plan, back: Mapping[int, KeptCut], standing: Standing) -> None:
    """Who comes back needs its streams from the cut on, which others of the job may have read on."""
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


def behind(entry: Entry, gone: Mapping[str, int]) -> Entry:
    """An entry that begins no stream before what went of it while the job was stopped."""
    if not gone:
        return entry
    return replace(entry, starts={stream: max(at, gone.get(stream, 0)) for stream, at in entry.starts.items()})


def begins(
    plan: Plan, starts: Mapping[str, int], standing: Standing, latest: Mapping[str, int] = _NOTHING
) -> dict[str, int]:
    """Where each stream begins; `starts` are for those that the job does not read, `latest` those of the entry before.

    One that a plan before the latest still reads goes on where it stands.
    """
    # Whoever names a position knows that the job has let go; where that is not sure, it may not have.
    named = {each.stream for each in plan.ingress if each.start is not None}
    sure = named - standing.decided.at.keys() if standing.decided is not None else frozenset()
    return {
        stream: start if stream in latest or stream in sure else standing.at.get(stream, start)
        for stream, start in starts.items()
    }
