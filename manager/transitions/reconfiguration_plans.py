"""The plans of jobs that switch in a reconfiguration; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.plan import Forward, Plan, Port, Switch
from engine.state_change import StateChange
from merge import Instance, JobId, Jobs
from merge.reconfiguration.switches import JobSwitch, StreamEnd, Switches


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlans:
    """Makes the plans of a reconfiguration; made by the committer."""

    marker: str
    switches: Switches
    changes: Mapping[Instance, StateChange]
    """The changes of states, by instance."""
    jobs: Jobs
    """The jobs after the switch."""
    streams: Mapping[Instance, str]
    """The raw streams of the sources that carry the marker."""

    def plan(self, job: JobId, made: Plan, before: Plan) -> Plan:
        """The plan of a job that switches, from the one that the planner has made and the one before."""
        switch = self.switches.jobs[job]
        announced = tuple(sorted(Port(*end) for end in switch.announces))
        forwarded = {each.origin for each in made.forwards}
        # A stream that nobody reads any more carries the marker too.
        ending = tuple(each for each in before.forwards if each.origin in set(announced) - forwarded)
        return replace(
            made,
            pace=before.pace,
            feeds=before.feeds,
            forwards=(*made.forwards, *ending),
            changes=tuple(change for instance, change in sorted(self.changes.items()) if self._is_in(instance, job)),
            switch=self._switch(switch, announced) if switch.announces or not switch.is_head else None,
        )

    def _is_in(self, instance: Instance, job: JobId) -> bool:
        return self.jobs.homes[instance].job == job

    def _switch(self, switch: JobSwitch, announced: tuple[Port, ...]) -> Switch:
        awaited = [bridge_name(end) for end in switch.awaits] + [self.streams[source] for source in switch.sources]
        return Switch(marker=self.marker, awaits=tuple(sorted(awaited)), announces=announced)


def bridge_name(end: StreamEnd) -> str:
    """The name of the spool of a stream between jobs."""
    return f"bridge/{end.instance}:{end.port}"


def lingers(plan: Plan, needed: Plan) -> bool:
    """Whether a plan forwards a stream only for the marker; `needed` is what the planner would make now."""
    return _forwarded(plan.forwards) != _forwarded(needed.forwards)


def _forwarded(forwards: tuple[Forward, ...]) -> frozenset[Port]:
    return frozenset(each.origin for each in forwards)
