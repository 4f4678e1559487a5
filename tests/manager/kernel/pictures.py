"""Pictures of a committed state: equal where two managers would decide alike from now on; and what holds of each."""

from collections import Counter
from dataclasses import replace
from typing import Any

import networkx as nx
from sqlmodel import Session, SQLModel, select

from braid_client.answers.dataflows import Start
from dags import Dataflow
from dags import State as Remembers
from dags.canonical import canonicalise
from engine.plan_messages import read_plan, written_plan
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import histories_of
from manager.kernel.draft import DecisionGround
from manager.kernel.registered_sources import Readable
from manager.kernel.state import CommittedState, running_id
from manager.kernel.transitions import Phase
from manager.planner import Planner
from manager.store.database import Store
from manager.store.tables import DataflowRow, JobRow, Leadership, TaskRow
from merge import Instance, RunningTask
from merge.jobs import crossings
from tests.catalogue import CATALOGUE
from tests.graphs import streams_of
from tests.manager.managers import HOSTS, Manager


def picture(state: CommittedState) -> dict[str, Any]:
    """What a state holds, without what only says how it came about."""
    running = state.running
    dags: dict[int, set[int]] = {}
    for source, dag in running.running_dags.of_source.items():
        dags.setdefault(dag, set()).add(source)
    return {
        "version": state.version,
        "tasks": {instance: _task_picture(task) for instance, task in running.tasks.items()},
        "index": dict(running.index),
        "users": {instance: frozenset(users) for instance, users in running.users.items()},
        "dataflows": dict(running.dataflows),
        "dags": set(map(frozenset, dags.values())),
        "links": {one: dict(others) for one, others in running.running_dags.links.items()},
        "next": (running.next_instance, state.jobs.next_job),
        "jobs": dict(state.jobs.jobs),
        "homes": dict(state.jobs.homes),
        "bridges": dict(state.jobs.bridges),
        "feeding": dict(state.jobs.feeding),
        "loads": dict(state.jobs.loads),
        "plans": dict(state.plans),
        "stopped": dict(state.stopped),
        "sources": dict(state.sources),
        "readers": {name: set(readers) for name, readers in state.readers.items()},
        "epochs": dict(state.epochs),
        "moved": dict(state.moved),
        "moves": dict(state.moves),
        "drains": dict(state.drains),
        "reconfigurations": {each.id: replace(each, prepared=None) for each in state.reconfigurations.values()},
        "earliest": dict(state.earliest),
        "quarantined": dict(state.quarantined),
        "apart": state.apart & state.plans.keys(),
    }


def _task_picture(task: RunningTask) -> tuple[Any, ...]:
    """A running task. What its config decides of its type, a manager that starts anew does not name."""
    ends = (task.type.is_source, task.type.is_sink)
    return replace(task, type=replace(task.type, ports=None, config_tags=None, tags=frozenset(), **_PORTS)), ends


_PORTS: dict[str, Any] = {"inputs": ("in",), "outputs": ("out",), "optional": frozenset()}


def pictured(manager: Manager) -> dict[str, Any]:
    """The picture of what a manager has in memory."""
    with manager.committer.looking() as state:
        return picture(state)


def loaded(store: Store) -> dict[str, Any]:
    """The picture of what a manager that starts now finds."""
    another = Committer(store, CATALOGUE, DecisionGround(hosts=lambda: HOSTS), name="another")
    another.lead(1)
    with another.looking() as state:
        return picture(state)


def rows(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, but for who leads until when."""
    with store.read() as session:
        found = {
            table.__tablename__: sorted((_plain(session, each) for each in session.scalars(select(table))), key=str)
            for table in _tables()
        }
    for row in found["leadership"]:
        row.pop("until")
    return {str(name): each for name, each in found.items()}


def _tables() -> list[type[SQLModel]]:
    return [mapper.class_ for mapper in Leadership._sa_registry.mappers]


def _plain(_session: Session, row: SQLModel) -> dict[str, Any]:
    return row.model_dump()


def hold(manager: Manager) -> None:
    """Hold what is true of every committed state, by its definition."""
    going = {each.reconfiguration.id for each in manager.changes.reconfigurations.under_way()}
    with manager.committer.looking() as state, manager.store.read() as session:
        flows = session.scalars(select(DataflowRow).where(DataflowRow.removed == None)).all()  # noqa: E711 - it is SQL
        _hold_constraints(state, flows)
        _hold_places(state)
        _hold_plans(manager, state)
        assert {task.instance for task in session.scalars(select(TaskRow))} == set(state.running.tasks)
        assert {row.id for row in session.scalars(select(JobRow))} == state.plans.keys() | state.stopped.keys()
        assert going == state.reconfigurations.keys()
    anew, known = loaded(manager.store), pictured(manager)
    for what, found in known.items():
        assert (what, anew[what]) == (what, found)


def _hold_constraints(state: CommittedState, flows: Any) -> None:
    """Every sink is produced by what its document asks for; every task and stream is above a sink; users are exact."""
    running, streams = state.running, streams_of(state.running)
    assert {running_id(row.id, row.revision) for row in flows} == running.dataflows.keys()
    needed: set[int] = set()
    users: dict[int, set[str]] = {instance: set() for instance in running.tasks}
    readers: dict[str, set[str]] = {}
    for row in flows:
        name = running_id(row.id, row.revision)
        sources = Readable(row.tenant, state.sources)
        asked = canonicalise(
            row.document,
            dataflow=row.id,
            tenant=row.tenant,
            catalogue=CATALOGUE,
            sources=sources,
            histories=histories_of(row),
        )
        produced = running.produced(name)
        assert asked.sinks == tuple(produced) == tuple(row.sinks)
        for instance in produced.values():
            needed |= {instance, *nx.ancestors(streams, instance)}
        for task, instance in zip(row.task_ids, row.instances, strict=True):
            assert produced.get(task, instance) == instance
            users[instance].add(name)
        _hold_tasks(state, row, asked)
        for source in {task.config["source"] for task in asked.tasks if task.type.is_source}:
            readers.setdefault(source, set()).add(name)
        assert row.tasks == len(asked.tasks)
    assert needed == set(running.tasks)
    assert users == {instance: set(who) for instance, who in running.users.items()}
    assert readers == state.readers


def _hold_tasks(state: CommittedState, row: DataflowRow, asked: Dataflow) -> None:
    """A dataflow's tasks are those that it asks for, each fed by its own; none has state that is not its tenant's."""
    tasks = state.running.tasks
    instances = {asked.places[task]: Instance(of) for task, of in zip(row.task_ids, row.instances, strict=True)}
    since: list[float] = []
    for place, task in enumerate(asked.tasks):
        found = tasks[instances[place]]
        assert (task.text, task.key.signature, task.json_fields) == (found.text, found.key.signature, found.json_fields)
        inputs = (edge._replace(parent=instances[edge.parent]) for edge in task.inputs)
        assert Counter(inputs) == Counter(found.inputs)
        source = None if task.inputs else state.sources[task.config["source"]]
        since.append(source.since(row.tenant) if source else max(since[edge.parent] for edge in task.inputs))
        assert task.type.state is Remembers.NONE or found.since.timestamp() >= since[place]
        assert task.key.scope in {None, found.key.scope}
        if row.start == Start.EARLIEST:
            assert found.key.scope
            # What was reconfigured has a history of its own.
            assert found.key.scope.dataflow == row.id or found.key.scope.dataflow.startswith("~")


def _hold_places(state: CommittedState) -> None:
    """Each running task has one home, in a job that knows of it; bridges are those that the streams need."""
    homes = {instance: home.job for instance, home in state.jobs.homes.items()}
    assert homes.keys() == state.running.tasks.keys()
    assert dict(crossings(state.running.tasks.values(), homes)) == dict(state.jobs.bridges)
    for job, placed in state.jobs.jobs.items():
        assert placed.active == {instance for instance, home in homes.items() if home == job}
        assert placed.active
        assert not placed.active & placed.paused
    assert nx.is_directed_acyclic_graph(state.jobs.streams_between())


def _hold_plans(manager: Manager, state: CommittedState) -> None:
    """What is wanted is what a planner makes of the state now, and a host takes it."""
    planner = Planner(
        state.running,
        state.jobs,
        lambda source: state.sources[source].supplied,
        state.epochs,
        begins=state.begins,
        moves=state.moved,
    )
    assert state.plans.keys() == set(state.jobs.jobs)
    wanted = manager.changes.jobs.wanted()
    under_way = state.reconfigurations.values()
    waiting = {job for each in under_way if each.phase is Phase.PREPARING for job in each.awaiting}
    switching = {job for each in under_way if each.phase is Phase.SWITCHING for job in each.jobs}
    for job, plan in state.plans.items():
        assert wanted[str(job)].plan == plan
        # The changes of states count once; a plan that waits for a marker is that of a later state.
        made = planner.plan(job, version=plan.version, term=plan.term, before=plan)
        if job in switching:
            assert set(made.forwards) <= set(plan.forwards)
            made = replace(made, forwards=plan.forwards)
        if job not in waiting:
            # A source that took the place of another began at that moment.
            begun = zip(made.ingress, plan.ingress, strict=True)
            ingress = (replace(new, since=had.since) if new.since is None else new for new, had in begun)
            assert replace(made, ingress=tuple(ingress)) == replace(plan, changes=(), switch=None)
        assert wanted[str(job)].host == plan.host == state.jobs.jobs[job].host
        assert read_plan(written_plan(plan)) == plan
    assert {job for job, each in wanted.items() if each.plan is None} == set(map(str, state.stopped))
