"""Unique tasks: those that emit at most one event for each event of a source, over all their output ports. Pure.

A task knows nothing of the sources. Its type says by which fields it emits once, and the types of the tasks above say
which fields they change. If those fields come unchanged from the source, then all that an event of the source led to
has the same values in them, whatever ways it took and in however many pieces it arrives. So the task emits once for it.

An event of a source is still whole where a task that emits at most one event for one is all that reads the source, or
all that reads such a task. Whatever arrives further below was made of the one event that it emitted, so the fields that
it changes are as good as those of the source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from dags import Emission
from merge.jobs import parents
from merge.task import Instance, RunningTask
from merge.task_order import downwards


def unique_tasks(tasks: Iterable[RunningTask], unsteady: AbstractSet[Instance] = frozenset()) -> frozenset[Instance]:
    """The unique tasks among some, which include all that is above any of them.

    Tasks that are unsteady get another config at a time of their own: what they do is unknown.
    """
    order = downwards(tasks)
    once = {
        task.instance: fields
        for task in order
        if task.instance not in unsteady and (fields := _emits_once_by(task)) is not None
    }
    if not once:
        return frozenset()
    whole = _whole(order, unsteady)
    changed: dict[Instance, frozenset[str] | None] = {}
    """For each task the fields that differ between pieces of one event of a source where it emits; None for any."""
    unique: set[Instance] = set()
    for task in order:
        arriving = _together(changed[parent] for parent in parents(task))
        fields = once.get(task.instance)
        if fields is not None and (not fields or (arriving is not None and arriving.isdisjoint(fields))):
            unique.add(task.instance)
        own = None if task.instance in unsteady else _sets(task)
        changed[task.instance] = frozenset() if task.instance in whole else _together((arriving, own))
    return frozenset(unique)


def _emits_once_by(task: RunningTask) -> tuple[str, ...] | None:
    if task.type.unique_by is None or (config := task.typed_config) is None:
        return None
    return task.type.unique_by(config)


def _sets(task: RunningTask) -> frozenset[str] | None:
    if task.type.sets is None or (config := task.typed_config) is None:
        return None
    return frozenset(task.type.sets(config))


def _together(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    united = frozenset[str]()
    for part in parts:
        if part is None:
            return None
        united |= part
    return united


def _whole(order: Sequence[RunningTask], unsteady: AbstractSet[Instance]) -> frozenset[Instance]:
    """The tasks where an event of a source is still whole, sources among them."""
    known = {task.instance: task for task in order}
    readings = Counter(
        _stream(Instance(edge.parent), known) for task in order for edge in task.inputs for _ in range(edge.times)
    )
    whole: set[Instance] = set()
    for task in order:
        above = list(parents(task))
        alone = all(parent in whole and readings[_stream(parent, known)] == 1 for parent in above)
        one_for_one = task.type.emission is Emission.AT_MOST_ONE and task.instance not in unsteady
        if not above or (len(above) == 1 and alone and one_for_one):
            whole.add(task.instance)
    return frozenset(whole)


def _stream(parent: Instance, known: Mapping[Instance, RunningTask]) -> Instance | str:
    """What a task reads of a parent: its stream, which may also be that of another task with the same source."""
    task = known[parent]
    name: str | None = task.config["source"] if task.type.reads_source else None
    return parent if name is None else name
