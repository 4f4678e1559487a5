"""The use cases of placements: where a dataflow runs and why, and what plans of other planners would make of it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from braid_client.answers.jobs import (
    OtherPlaceAnswer,
    PlacedTaskAnswer,
    PlacementAnswer,
    PlacementPddlAnswer,
    PlacementPlanAnswer,
    PlacementPlanForm,
    PlannedGroupAnswer,
    WorthOfMoreAnswer,
)
from dags import Problem
from manager.kernel.dataflow_rows import running_dataflow
from manager.kernel.state import CommittedState, running_id
from manager.problem import Conflict, InvalidRequest, NotFound
from manager.use_case import Base, Caller, operators_only
from merge import BATCH_SECONDS, Costs, Host, Instance
from merge.grouping.pddl import PddlError
from merge.placement.explained import (
    PlacementQuestion,
    placement_pddl,
    placement_places,
    placement_plan,
    placement_question,
    placement_reason,
    placement_verdict,
    present_cost,
)

_SECONDS = 1.0
"""How long each search may take."""


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 6)


class _Asked(NamedTuple):
    """A dataflow about whose placement something is asked."""

    dataflow: str
    tasks: tuple[PlacedTaskAnswer, ...]
    question: PlacementQuestion


class Placements(Base):
    """Placements of dataflows; operators only."""

    def explain(self, caller: Caller, dataflow: str, task: str | None = None) -> PlacementAnswer:
        """Where each task runs and why, what that costs, and what would cost less; and where else one task could be."""
        asked = self._asked(caller, dataflow)
        elsewhere = () if task is None else _elsewhere(asked, task)
        verdict = placement_verdict(asked.question, seconds=_SECONDS)
        return PlacementAnswer(
            dataflow=asked.dataflow,
            tasks=asked.tasks,
            cost=round(verdict.cost, 6),
            cheapest=round(verdict.cheapest, 6),
            second=_rounded(verdict.second),
            bound=_rounded(verdict.bound),
            saves={name: round(saved, 6) for name, saved in verdict.saves.items()},
            more=tuple(
                WorthOfMoreAnswer(tags=worth.image, host=round(worth.host, 6), core=round(worth.core, 6))
                for worth in verdict.more
            ),
            elsewhere=elsewhere,
        )

    def export(self, caller: Caller, dataflow: str) -> PlacementPddlAnswer:
        """The tasks that no other dataflow uses, as a planning problem in PDDL."""
        asked = self._asked(caller, dataflow)
        try:
            pddl = placement_pddl(asked.question)
        except PddlError as error:
            raise Conflict(f"PDDL cannot say where {dataflow!r} runs: {error}") from error
        return PlacementPddlAnswer(dataflow=asked.dataflow, domain=pddl.domain, problem=pddl.problem)

    def check_plan(self, caller: Caller, dataflow: str, form: PlacementPlanForm) -> PlacementPlanAnswer:
        """Show what a planner's plan for that problem makes of the dataflow; nothing is moved."""
        asked = self._asked(caller, dataflow)
        try:
            planned = placement_plan(asked.question, form.plan)
        except PddlError as error:
            wrong = Problem(
                pointer="/plan",
                code="invalid-plan",
                message=str(error),
                remedy="plan the problem of this dataflow as it is exported now",
            )
            raise InvalidRequest([wrong]) from error
        names = _names(asked)
        return PlacementPlanAnswer(
            dataflow=asked.dataflow,
            groups=tuple(
                PlannedGroupAnswer(
                    tags=group.image, tasks=tuple(sorted(name for task in group.tasks for name in names[int(task)]))
                )
                for group in planned.groups
            ),
            cost=round(planned.cost.total, 6),
            now=round(present_cost(asked.question), 6),
        )

    def _asked(self, caller: Caller, dataflow: str) -> _Asked:
        operators_only(caller)
        with self._committer.looking() as state:
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            places = state.running.dataflow(running_id(row.id, row.revision)).places
            hosts = {host.name: host for host in self._committer.ground.offering(state)}
            own = frozenset(task for task in places.values() if len(state.running.users[task]) == 1)
            tasks = tuple(_placed(state, hosts, name, instance, own) for name, instance in places.items())
            there = {host.image for host in hosts.values() if not host.away}
            busy = {instance: state.jobs.homes[instance].busy for instance in own}
            question = placement_question(
                state.running.tasks,
                state.jobs,
                hosts.values(),
                Costs(pace=self._committer.ground.pace, batch=BATCH_SECONDS, busy=busy),
                own,
                [image for name, image in sorted(state.images.items()) if name not in there],
            )
            return _Asked(row.id, tasks, question)


def _elsewhere(asked: _Asked, name: str) -> tuple[OtherPlaceAnswer, ...]:
    task = next((placed for placed in asked.tasks if placed.task == name), None)
    if task is None:
        raise NotFound("task", name)
    if not task.own:
        raise Conflict(f"task {name!r} is shared with other dataflows; ask about one that only this dataflow uses")
    names = _names(asked)
    return tuple(
        OtherPlaceAnswer(
            tags=place.image,
            job="" if place.present is None else str(place.present),
            joins=tuple(sorted(joined for with_task in place.with_tasks for joined in names[int(with_task)])),
            more=_rounded(place.more),
            why_not=place.why_not,
        )
        for place in placement_places(asked.question, Instance(task.instance))
    )


def _names(asked: _Asked) -> Mapping[int, list[str]]:
    """The tasks of the dataflow by their instances."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for task in asked.tasks:
        names[task.instance].append(task.task)
    return names


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
