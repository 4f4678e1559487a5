"""The switch of a reconfiguration from job to job: who switches by itself, and who waits for markers.

Within a job a batch runs one plan, so tasks of one job switch together between two batches. Between jobs the components
of the covering sub-DAG (`merge/reconfiguration/covering.py`) decide which streams have to carry a marker. The job of a
head switches at its next batch and puts the marker into the component's streams to other jobs, at that very place. A
job below switches where the markers of all those streams lie. Tasks come and go within the job of those that they feed,
so for the components these are one with those.

**Unique tasks** make components smaller: they emit at most one event for each event of a source, over all their output
ports. A type says by which fields a task emits once, and the types above say which fields they change. If those fields
come unchanged from the source, all that an event of the source led to has the same values in them, whatever ways it
took, so the task emits once for it. An event of a source is still whole where a task that emits at most one event for
one is all that reads the source, or all that reads such a task; the fields that it changes are as good as the source's.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from dags import Emission
from dags.vocabulary import Scheduler
from merge.jobs import JobId, Jobs, parents
from merge.reconfiguration.alteration import Alteration, is_changed
from merge.reconfiguration.covering import Component, components
from merge.running_graph import RunningGraph
from merge.tasks import Instance, RunningTask, downwards


def unique_tasks(tasks: Iterable[RunningTask], unsteady: AbstractSet[Instance] = frozenset()) -> frozenset[Instance]:
    """The unique tasks among some, which include all that is above any of them.

    Tasks that are unsteady get another config at a time of their own: what they do is unknown.
    """
    order = downwards(tasks)
    once = {
        task.instance: fields
        for task in order
        if task.instance not in unsteady and (fields := _fields(task, task.type.unique_by)) is not None
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
        own = None if task.instance in unsteady else _fields(task, task.type.sets)
        changed[task.instance] = frozenset() if task.instance in whole else _together((arriving, own))
    return frozenset(unique)


def _fields(task: RunningTask, by_config: Callable[[Any], tuple[str, ...] | None] | None) -> frozenset[str] | None:
    if by_config is None or (config := task.typed_config) is None or (fields := by_config(config)) is None:
        return None
    return frozenset(fields)


def _together(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    known = list(parts)
    return None if None in known else frozenset[str]().union(*(part for part in known if part is not None))


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


class StreamEnd(NamedTuple):
    """An output port of a running task, where a stream to another job begins."""

    instance: Instance
    port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSwitch:
    """The part of one job in a reconfiguration; made by `switches`."""

    job: JobId
    awaits: frozenset[StreamEnd] = frozenset()
    """The bridges whose markers it waits for."""
    sources: frozenset[Instance] = frozenset()
    """The sources whose markers it waits for: another job that switches reads them too, or they are read no more."""
    announces: frozenset[StreamEnd] = frozenset()
    """The bridges into which it puts the marker."""

    @property
    def is_head(self) -> bool:
        """Whether it switches at its next batch."""
        return not self.awaits and not self.sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How the jobs of a reconfiguration switch; made by `switches`."""

    components: tuple[Component, ...]
    """The components, with the names of instances."""
    jobs: Mapping[JobId, JobSwitch] = field(default_factory=dict)

    @property
    def is_coordinated(self) -> bool:
        """Whether one job waits for another, or for a marker in a source."""
        return any(not switch.is_head for switch in self.jobs.values())


_Stream: TypeAlias = tuple[Instance, Instance, str]
"""Parent, child and the parent's port."""


def switches(
    running: RunningGraph,
    jobs: Jobs,
    by: Alteration,
    *,
    earlier: AbstractSet[Instance] = frozenset(),
    scheduler: Scheduler = Scheduler.FRIES,
) -> Switches:
    """How the jobs of an alteration switch; `running` and `jobs` are those before it.

    `earlier` are tasks that were changed a moment ago. Events that met some of them before their change may still be
    under way, so the components hold them as if they changed again.
    """
    # A fork takes up what its origin has done, so each origin of a fork switches too.
    # A state that is dropped is dropped where the events change.
    switching = {
        task.instance
        for task in by.alters
        if task.instance in by.unfit or is_changed(running.tasks[task.instance], task)
    }
    switching |= {fork.origin for fork in by.forks if fork.origin is not None}
    # What an inserted task feeds stands for it.
    switching |= {task.instance for task in by.alters if task.instance in by.rewired} | by.removed
    left = _left_sources(running, by)
    switching |= left
    streams = list(_streams(running, by))
    # The stream of a fork begins at its marker, and a state is dropped where the events change.
    apart = {task.instance for task in by.alters} & by.apart - by.unfit - by.rewired
    apart -= {fork.origin for fork in by.forks if fork.origin is not None}
    together = switching - apart
    covering = _components(running, by, streams, together | earlier & _used(by), scheduler)
    names = {_name(instance) for instance in together}
    covering = tuple(component for component in covering if component.scope & names)
    making: dict[JobId, _Part] = {
        jobs.homes[instance].job: _Part() for instance in switching if running.tasks[instance].inputs
    }
    for component in covering:
        inside = {Instance(int(name)) for name in component.scope}
        marked = inside if scheduler is Scheduler.EPOCH else left
        _connect(running, jobs, streams, inside, making, marked)
    return Switches(
        components=covering,
        jobs={
            job: JobSwitch(
                job=job,
                awaits=frozenset(part.awaits),
                sources=frozenset(part.sources),
                announces=frozenset(part.announces),
            )
            for job, part in sorted(making.items())
        },
    )


def _left_sources(running: RunningGraph, by: Alteration) -> frozenset[Instance]:
    """The sources that a dataflow reads no more. All that comes before their markers is still read."""
    left = (set(old.instances) - set(new.instances) for old, new in by.swaps)
    return frozenset(source for sources in left for source in sources if not running.tasks[source].inputs)


def _components(
    running: RunningGraph,
    by: Alteration,
    streams: Sequence[_Stream],
    switching: AbstractSet[Instance],
    scheduler: Scheduler,
) -> tuple[Component, ...]:
    if scheduler is Scheduler.EPOCH:
        every = _used(by)
        heads = frozenset(_name(instance) for instance in every if not running.tasks[instance].inputs)
        return (Component(scope=frozenset(map(_name, every)), heads=heads),)
    emits = {parent for parent, _, _ in streams if running.tasks[parent].type.emission is Emission.MANY}
    # A task gives each of the streams that leave it its events.
    fans = {instance for instance, count in Counter(parent for parent, _, _ in streams).items() if count > 1}
    # A task that switches apart from the others counts as unchanged, but not what it does.
    unique = unique_tasks((running.tasks[instance] for instance in _used(by)), by.apart)
    pruned = scheduler is Scheduler.FRIES
    return components(
        [(_name(parent), _name(child)) for parent, child, _ in streams],
        [_name(instance) for instance in sorted(switching)],
        one_to_many={_name(instance) for instance in emits | fans},
        per_edge={_name(instance) for instance in fans - (emits - unique)} if pruned else (),
        unique={_name(instance) for instance in unique} if pruned else (),
    )


@dataclass(slots=True)
class _Part:
    awaits: set[StreamEnd] = field(default_factory=set)
    sources: set[Instance] = field(default_factory=set)
    announces: set[StreamEnd] = field(default_factory=set)


def _connect(  # noqa: PLR0913, PLR0917 - what runs and where, the component, and what is made of it
    running: RunningGraph,
    jobs: Jobs,
    streams: Iterable[_Stream],
    inside: set[Instance],
    making: dict[JobId, _Part],
    marked: AbstractSet[Instance],
) -> None:
    """Add what the jobs of one component await and announce. The sources in `marked` carry a marker in any case."""
    readers: dict[Instance, set[JobId]] = {}
    for parent, child, port in streams:
        if parent not in inside or child not in inside:
            continue
        to = jobs.homes[child].job
        if not running.tasks[parent].inputs:
            readers.setdefault(parent, set()).add(to)
            continue
        at = jobs.homes[parent].job
        if at != to:
            making.setdefault(to, _Part()).awaits.add(StreamEnd(parent, port))
            making.setdefault(at, _Part()).announces.add(StreamEnd(parent, port))
    for source, reading in readers.items():
        # A job that alone reads a source switches between two batches, at one place in it.
        for job in reading if source in marked or len(reading) > 1 else ():
            making.setdefault(job, _Part()).sources.add(source)


def _streams(running: RunningGraph, by: Alteration) -> Iterator[_Stream]:
    """The streams of the dataflows that are altered."""
    for child in sorted(_used(by)):
        for edge in running.tasks[child].inputs:
            for _ in range(edge.times):
                yield Instance(edge.parent), child, edge.parent_port


def _used(by: Alteration) -> frozenset[Instance]:
    """The tasks of the dataflows that are altered."""
    return frozenset(instance for old, _ in by.swaps for instance in old.instances)


def _name(instance: Instance) -> str:
    return str(instance)
