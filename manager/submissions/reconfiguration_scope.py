"""The scope of a reconfiguration as its answers show it: what becomes of which task, and what switches together."""

from collections.abc import Iterator

from dags import StateFate
from manager.answers import ChangedTaskAnswer, ComponentAnswer, ReconfigurationScope, TaskPresence
from manager.committed.state import CommittedState
from manager.planner import public_id
from manager.transitions.reconfiguration_decision import ReconfigurationDecision
from merge import Instance
from merge.reconfiguration.alteration import is_changed

_DROPPED = "dropped"
"""The fate of the state of a task that is taken out."""


def reconfiguration_scope(state: CommittedState, decided: ReconfigurationDecision) -> ReconfigurationScope:
    """The scope of a decision, by the names that tasks have in its dataflows."""
    names: dict[Instance, str] = {}
    for old, new in decided.alteration.swaps:
        for dataflow in (old, new):
            for task, instance in dataflow.places.items():
                names.setdefault(instance, task)
    agreed = {old.id for old, _ in decided.alteration.swaps}
    homes = decided.settled.between.homes
    tasks = [
        ChangedTaskAnswer(
            dataflow=public_id(new.id),
            task=task,
            in_place=not each.is_forked,
            shared=not agreed.issuperset(state.running.users[each.was.instance]),
            changed=each.is_changed,
            state=str(each.fate or StateFate.FRESH),
            job=str(homes[each.becomes.instance].job),
        )
        for _, new in decided.alteration.swaps
        for task, instance in sorted(new.places.items())
        for each in decided.tasks
        if each.becomes.instance == instance
    ]
    tasks += _joined(state, decided)
    tasks += _come_and_gone(state, decided)
    switching = decided.switches
    waiting = tuple(str(job) for job, each in switching.jobs.items() if not each.is_head)
    pace = max((state.plans[job].pace for job in switching.jobs if job in state.plans), default=0.0)
    return ReconfigurationScope(
        tasks=tuple(tasks),
        components=tuple(
            ComponentAnswer(
                tasks=tuple(sorted(names.get(Instance(int(each)), each) for each in component.scope)),
                heads=tuple(sorted(names.get(Instance(int(each)), each) for each in component.heads)),
            )
            for component in switching.components
        ),
        jobs=tuple(map(str, switching.jobs)),
        waiting=waiting,
        # A head switches within a pace, and each job that waits for another needs a batch more at most.
        delay_seconds=pace * (1 + len(waiting)),
    )


def _joined(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that become one with equal ones."""
    running = state.running.tasks
    for old, new in decided.alteration.swaps:
        for task, instance in new.places.items():
            if task in old.places and old.places[task] != instance and instance in running and running[instance].inputs:
                yield ChangedTaskAnswer(
                    dataflow=public_id(new.id),
                    task=task,
                    in_place=False,
                    shared=True,
                    changed=is_changed(running[old.places[task]], running[instance]),
                    state=str(StateFate.KEPT),
                    job=str(state.jobs.homes[instance].job),
                )


def _come_and_gone(state: CommittedState, decided: ReconfigurationDecision) -> Iterator[ChangedTaskAnswer]:
    """The tasks that are inserted, and those that are taken out."""
    homes = decided.settled.between.homes
    for old, new in decided.alteration.swaps:
        for presence, here, there, fate in (
            (TaskPresence.INSERTED, new, old, str(StateFate.FRESH)),
            (TaskPresence.REMOVED, old, new, _DROPPED),
        ):
            for task, instance in here.places.items():
                if task not in there.task_ids:
                    yield ChangedTaskAnswer(
                        dataflow=public_id(new.id),
                        task=task,
                        in_place=False,
                        presence=presence,
                        shared=len(state.running.users.get(instance, ())) > 1,
                        changed=False,
                        state=fate,
                        job=str(homes[instance].job),
                    )
