"""The use case that explains where a dataflow runs, what that costs, and what would cost less."""

from collections.abc import Mapping

from manager.answers import PlacedTaskAnswer, PlacementAnswer
from manager.cases.base import Base, Caller, operators_only
from manager.committed.state import CommittedState, running_id
from manager.committer.dataflow_rows import running_dataflow
from merge import BATCH_SECONDS, Costs, Host, Instance
from merge.placement.explained import PlacementQuestion, placement_question, placement_reason, placement_verdict

_SECONDS = 1.0
"""How long each search may take."""


class Placements(Base):
    """Placements of dataflows; operators only."""

    def explain(self, caller: Caller, dataflow: str) -> PlacementAnswer:
        """Where each task runs and why, what that costs, and what would cost less."""
        operators_only(caller)
        with self._committer.looking() as state:
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            places = state.running.dataflow(running_id(row.id, row.revision)).places
            hosts = {host.name: host for host in self._committer.ground.offering(state)}
            own = frozenset(i for i in places.values() if len(state.running.users[i]) == 1)
            tasks = tuple(_placed(state, hosts, name, instance, own) for name, instance in places.items())
            asked = self._asked(state, hosts, own)
        found = placement_verdict(asked, seconds=_SECONDS)
        return PlacementAnswer(
            dataflow=row.id,
            tasks=tasks,
            cost=round(found.cost, 6),
            cheapest=round(found.cheapest, 6),
            second=None if found.second is None else round(found.second, 6),
            bound=None if found.bound is None else round(found.bound, 6),
            saves={name: round(saved, 6) for name, saved in found.saves.items()},
        )

    def _asked(self, state: CommittedState, hosts: Mapping[str, Host], own: frozenset[Instance]) -> PlacementQuestion:
        there = {host.image for host in hosts.values() if not host.away}
        busy = {instance: state.jobs.homes[instance].busy for instance in own}
        return placement_question(
            state.running.tasks,
            state.jobs,
            hosts.values(),
            Costs(pace=self._committer.ground.pace, batch=BATCH_SECONDS, busy=busy),
            own,
            [image for name, image in sorted(state.images.items()) if name not in there],
        )


def _placed(
    state: CommittedState, hosts: Mapping[str, Host], name: str, instance: Instance, own: frozenset[Instance]
) -> PlacedTaskAnswer:
    task, job = state.running.tasks[instance], state.jobs.homes[instance].job
    host = state.jobs.jobs[job].host
    return PlacedTaskAnswer(
        task=name,
        instance=instance,
        job=str(job),
        host=host,
        image=hosts[host].image if host in hosts else "",
        tags=tuple(sorted(task.tags)),
        own=instance in own,
        why=placement_reason(state.running.tasks, state.jobs, task),
    )
