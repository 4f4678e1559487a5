"""The newest events at the ports of a running task, for those whose dataflow it is part of."""

import time

from braid_client.answers.overview import OperationKind
from braid_client.answers.trials import SeenEvents, TaskEvents
from engine.plan import Plan
from engine.port_events import SeenPort
from manager.kernel.dataflow_rows import running_dataflow
from manager.kernel.state import CommittedState, running_id
from manager.observations.looks import LookedAt
from manager.problem import NotFound, StateNotReady
from manager.use_case import Base, Caller, moment, note
from merge import Instance, RunningTask


class PortEvents(Base):
    """Looks at the events of running tasks."""

    def newest(self, caller: Caller, dataflow: str, task: str) -> TaskEvents:
        """The newest events of a task of the caller's dataflow, or of any where an operator asks; begins to keep them.

        If others use the task too, they have the same events. The journal notes when a look begins.
        """
        begun = time.monotonic()
        if (looks := self._tools.looks) is None:
            raise StateNotReady("events are seen only by a manager that leads and has a broker; ask that one")
        with self._committer.looking() as state:
            # Within, so that the row is of the state.
            row = self._own_dataflow(caller, dataflow, find=running_dataflow)
            if task not in row.task_ids:
                raise NotFound("task", task)
            instance = Instance(row.instances[row.task_ids.index(task)])
            running = state.running.tasks[instance]
            plan = _plan_with(state, running_id(row.id, row.revision), running)
            # What was processed before somebody might read a source is not for them.
            since = max((state.sources[source].since(row.tenant) for source in row.sources), default=0.0)
        at = LookedAt(plan.job, instance)
        # What is published for a host that is away stays at the broker until it is back.
        is_alive = any(host.host == plan.host and host.alive for host in self._seeing.hosts())
        if looks.renew(caller.who, at, host=plan.host if is_alive else None):
            with self._store.write() as session:
                note(session, OperationKind.LOOK, caller, row.id, begun, f"task: {task}")
        seen = looks.seen(at)
        ports = () if seen is None else seen.ports
        entered = {port.port: _seen_events(port, since) for port in ports if port.is_input}
        # What leaves a sink is what entered it.
        left = {port.port: _seen_events(port, since) for port in ports if not port.is_input and running.type.outputs}
        return TaskEvents(
            id=task,
            type=running.type.name,
            waits=seen is None,
            inputs=dict.fromkeys((edge.port for edge in running.inputs), SeenEvents(count=0)) | entered,
            outputs=dict.fromkeys(running.type.outputs, SeenEvents(count=0)) | left,
        )


def _plan_with(state: CommittedState, dataflow: str, task: RunningTask) -> Plan:
    """The plan of the job that has a task's events; those of a source are in every job that reads it."""
    if task.inputs:
        return state.plans[state.jobs.homes[task.instance].job]
    plans = (state.plans[job] for job in sorted(state.jobs_of(dataflow)))
    reading = (plan for plan in plans if any(entering.instance == task.instance for entering in plan.ingress))
    if (plan := next(reading, None)) is None:
        raise StateNotReady("no job reads this source at the moment; ask again in a moment")
    return plan


def _seen_events(port: SeenPort, since: float) -> SeenEvents:
    newest = [seen for seen in port.newest if seen.at >= since * 1000]
    return SeenEvents(
        count=port.count,
        newest=tuple(seen.event for seen in newest),
        seen=tuple(moment(seen.at / 1000) for seen in newest),
    )
