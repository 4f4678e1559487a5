"""The overview: how much there is, and in which state."""

import time
from collections import Counter
from collections.abc import Iterable

from dags import AnyTaskType
from engine.job.lifecycle import JobState
from manager.answers import DataflowState, JobsOverview, KindsAnswer, OverviewAnswer, TroubledJobAnswer
from manager.cases.base import Base, Caller
from manager.observations.figures import figures_of
from manager.observations.reports import JobSeen
from manager.reconciler.dataflow_life import find
from manager.reconciler.dataflow_needs import CommittedDataflowLookup
from merge import counted

MOST_TROUBLED = 20
"""Jobs in trouble that are named."""
_WELL = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.STOPPED})


class Overview(Base):
    """Counts for the first page of the console."""

    def counts(self, caller: Caller) -> OverviewAnswer:
        """The counts: of all tenants for an operator, of its own for a tenant."""
        with self._committer.looking() as state:
            own = [each for each in state.running.dataflows.values() if caller.tenant in {None, each.tenant}]
            jobs = {str(job): None for job in state.plans}
            tasks = state.running.tasks
            uses = Counter(instance for each in own for instance in each.instances)
            types = {instance: tasks[instance].type for instance in uses}
            bridges = len({(bridge.parent, bridge.port) for bridge in state.jobs.bridges})
        seen = {job: found for job in jobs if (found := self._seeing.job(job)) is not None}
        driven = self._tools.activity() if caller.is_operator else None
        if driven is not None:
            # The reconciler keeps count: to find the states of ten thousand takes 0.4 s.
            states = {DataflowState(state): count for state, count in driven.dataflows.items() if count}
        else:
            states = self._states([each.id for each in own], seen)
        return OverviewAnswer(
            dataflows=states,
            tasks_submitted=sum(len(each.task_ids) for each in own),
            tasks_running=len(uses),
            submitted_by_kind=_by_kind(types[instance] for instance in uses.elements()),
            running_by_kind=_by_kind(types.values()),
            jobs=_jobs(jobs, seen, bridges) if caller.is_operator else None,
        )

    def _states(self, dataflows: Iterable[str], seen: dict[str, JobSeen]) -> dict[DataflowState, int]:
        hosts = {host.host: host for host in self._seeing.hosts()}
        counted: Counter[DataflowState] = Counter()
        for each in CommittedDataflowLookup(self._committer).needs(tuple(dataflows)).values():
            needed = {need.job: seen[need.job] for need in each.needs if need.job in seen}
            counted[DataflowState.DRAINING if each.drains else find(each.needs, needed, hosts).state] += 1
        return {state: counted[state] for state in DataflowState if counted[state]}


def _by_kind(types: Iterable[AnyTaskType]) -> KindsAnswer:
    found = counted(types)
    return KindsAnswer(sources=found.sources, steps=found.steps, outputs=found.outputs)


def _jobs(jobs: Iterable[str], seen: dict[str, JobSeen], bridges: int) -> JobsOverview:
    states = Counter(seen[job].state if job in seen else "awaited" for job in jobs)
    troubled = [
        TroubledJobAnswer(job=job, state=each.state, trouble=each.trouble or each.refused)
        for job, each in seen.items()
        if each.trouble or each.refused or each.state not in _WELL
    ]
    figures = [figures_of(each.measured, time.monotonic()) for each in seen.values()]
    events = [each.lag_events for each in figures if each.lag_events is not None]
    seconds = [each.lag_seconds for each in figures if each.lag_seconds is not None]
    return JobsOverview(
        states=dict(sorted(states.items())),
        troubled=tuple(troubled[:MOST_TROUBLED]),
        in_trouble=len(troubled),
        bridges=bridges,
        lag_events=sum(events) if events else None,
        lag_seconds=max(seconds, default=None),
    )
