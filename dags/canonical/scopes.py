"""Pass: decide which tasks may be shared. `confine` restricts sharing further, for reasons known at run time."""

from collections.abc import Callable
from dataclasses import replace

from dags.canonical.draft import Accepted
from dags.dataflow import Dataflow, Key, Scope, Task


def settle_scopes(accepted: Accepted) -> Accepted:
    """Give every task its scope: none if it may be shared, else one that its descendants inherit.

    A task with a history of its own has the scope of that history.

    A task whose parents have different scopes gets its own. If it inherited one of them, two tasks could have equal
    signatures and scopes although one follows the shared and the other the confined twin of the same parent.

    >>> settled = settle_scopes(accepted("s:source > a:map > k:sink s > r:random > b:map > l:sink"))
    >>> dict(zip(settled.ids, settled.scopes))["b"]
    Scope(dataflow='flow', task='r')
    """
    scopes: list[Scope | None] = [None] * len(accepted.ids)
    for i in accepted.order:
        above = {scopes[wire.origin] for wire in accepted.inputs[i]}
        own = accepted.fresh[i] or not accepted.types[i].shareable or len(above) > 1
        inherited = Scope(accepted.dataflow, accepted.ids[i]) if own else next(iter(above), None)
        scopes[i] = accepted.histories.get(accepted.ids[i], inherited)
    return replace(accepted, scopes=tuple(scopes))


def confine(dataflow: Dataflow, scope_of: Callable[[int], Scope | None]) -> Dataflow:
    """Put some shareable tasks of a dataflow into scopes. `scope_of` is given a task's position.

    It is called only for tasks that follow no task in a scope; the others inherit, as in the pass above.
    """
    ids = {place: task for task, place in sorted(dataflow.places.items(), reverse=True)}
    tasks: list[Task] = []
    for at, task in enumerate(dataflow.tasks):
        scope = task.key.scope
        if scope is None:
            above = {tasks[edge.parent].key.scope for edge in task.inputs}
            inherited = Scope(dataflow.id, ids[at]) if len(above) > 1 else next(iter(above), None)
            scope = inherited or scope_of(at)
        tasks.append(task if scope == task.key.scope else replace(task, key=Key(task.key.signature, scope)))
    return replace(dataflow, tasks=tuple(tasks))
