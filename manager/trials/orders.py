"""The order of a trial: the plan of a dataflow that a process runs once, and what the result says of each task.

Tasks that write or read outside do not run, nor does published code, which only hosts have cells for. What enters them
is shown all the same. A task below them lacks their events.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from braid_client.answers.trials import TriedEvents, TriedRejection, TriedTask
from dags import Dataflow, Effect, Input, State, Task, fields_in
from dags.problems import listed, problem_at, quoted
from engine.behaviour import place_of
from engine.dataflow_trial import RejectedEvents, ShownEvents, TrialOrder, TrialResult, TrialStream
from engine.plan import Edge, Forward, Ingress, Limits, Plan, Port, Slot, declaring
from engine.records.job_folder import spool_folder
from engine.tasks.code import CODE_TYPES
from engine.tasks.compute import OUTPUT
from manager.kernel.registered_sources import Registered, full_name
from manager.problem import FieldError, InvalidRequest

SHOWN = 20
"""The events that are shown of each stream, and of each reason for rejections."""
MOST_SHOWN_BYTES = 1_000_000
TRIAL_LIMITS = Limits(task_seconds=2.0, state_bytes=64_000_000, emitted_bytes=64_000_000)
"""What one task may use, as in a job. Beyond that its events are rejected, and the other tasks go on."""
_WRITES = "it writes outside, which a trial does not; what entered it is what it would have written"
_READS = "it reads outside, which a trial does not"
_CODE = "it is published code, which runs in a cell of a host only"
_NAMES = "its config names a secret or a file, which a trial does not get"
_CODE_TYPES = frozenset(kind.name for kind in CODE_TYPES)


def why_not_run(task: Task) -> str:
    """Why a trial does not run a task; empty if it does."""
    if task.type.name in _CODE_TYPES:
        return _CODE
    match task.type.effect:
        case Effect.WRITES_OUTSIDE:
            return _WRITES
        case Effect.READS_OUTSIDE:
            return _READS
        case Effect.NONE:
            return _NAMES if _names_what_hosts_have(task.config) else ""


def _names_what_hosts_have(value: Any) -> bool:
    """Whether a canonical config has a secret or a place, each of which names its owner."""
    if isinstance(value, dict):
        is_reference = "owner" in value and ("secret" in value or "place" in value)
        return is_reference or any(map(_names_what_hosts_have, value.values()))
    return isinstance(value, list) and any(map(_names_what_hosts_have, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialWishes:
    """The events that a trial is to have."""

    pasted: Mapping[str, Sequence[str]]
    """Each as JSON, by the id of a source's task, or the name of the source."""
    newest: int
    now: float


class DraftTrial:
    """The trial of a dataflow. A task's instance is its place, counted from 1; those of taps come after all tasks."""

    def __init__(self, dataflow: Dataflow, sources: Mapping[str, Registered], wishes: TrialWishes) -> None:
        """`sources` are those that its tenant may read, by their full names. Raises `InvalidRequest`."""
        self._dataflow = dataflow
        self._sources = sources
        self._wishes = wishes
        self._not_run = [why_not_run(task) for task in dataflow.tasks]
        self._pasted = self._placed(wishes.pasted)
        self._taps: dict[Port, int] = {}
        """The tap of each input port."""
        self._slots: list[Slot] = []
        for place in range(len(dataflow.tasks)):
            self._slots += self._slots_of(place)

    def _placed(self, pasted: Mapping[str, Sequence[str]]) -> dict[int, Sequence[str]]:
        """Pasted events by the place of their source."""
        ids = self._dataflow.places
        of_sources = {self._source(place): place for place in ids.values() if self._reads_source(place)}
        placed: dict[int, Sequence[str]] = {}
        problems: list[FieldError] = []
        known = listed(sorted(task for task, at in ids.items() if self._reads_source(at)))
        for name, events in pasted.items():
            place = ids[name] if name in ids else of_sources.get(full_name(self._dataflow.tenant, name))
            if place is None or not self._reads_source(place):
                message = f"the document reads no source by {quoted(name)}"
                remedy = f"name the task of one of its sources, which are: {known}"
                problems.append(problem_at("unknown-source", message, remedy, "events", name))
            elif place in placed:
                message = f"{quoted(name)} is a source that has events here already"
                problems.append(problem_at("same-source", message, "give the events of a source once", "events", name))
            else:
                placed[place] = events
        if problems:
            raise InvalidRequest(problems)
        return placed

    def _reads_source(self, place: int) -> bool:
        return self._dataflow.tasks[place].type.reads_source

    def _source(self, place: int) -> str:
        return str(self._dataflow.tasks[place].config["source"])

    def _slots_of(self, place: int) -> Iterator[Slot]:
        task, instance = self._dataflow.tasks[place], place + 1
        edges = tuple(
            Edge(port=at.port, parent=at.parent + 1, parent_port=at.parent_port, times=at.times)
            for at in sorted(task.inputs, key=self._order)
        )
        for port in dict.fromkeys(edge.port for edge in edges):
            tap = self._taps[Port(instance, port)] = len(self._dataflow.tasks) + len(self._taps) + 1
            yield Slot(
                instance=tap,
                type=OUTPUT.name,
                version=OUTPUT.version,
                inputs=tuple(
                    Edge(parent=edge.parent, parent_port=edge.parent_port, times=edge.times)
                    for edge in edges
                    if edge.port == port
                ),
                json_fields=tuple(("in", name) for at, name in task.json_fields if at == port),
            )
        if task.inputs and not self._not_run[place]:
            yield Slot(
                instance=instance,
                type=task.type.name,
                version=task.type.version,
                config=json.dumps(task.config, separators=(",", ":")),
                inputs=edges,
                json_fields=task.json_fields,
            )

    def _order(self, edge: Input) -> tuple[Any, ...]:
        # As in the plans of jobs: the order must not depend on anything else.
        key = self._dataflow.tasks[edge.parent].key
        return (edge.port, key.signature, key.scope or (), edge.parent_port)

    def order(self, root: Path | None, behaviours: Mapping[str, str]) -> TrialOrder:
        """The order, for a root that has the spools of sources, or for no root."""
        streams: dict[str, TrialStream] = {}
        ingress: list[Ingress] = []
        for place, task in enumerate(self._dataflow.tasks):
            if not self._reads_source(place):
                continue
            registered = self._sources[self._source(place)]
            stream, supply = registered.supplied
            if place in self._pasted:
                # Two tasks may read one source, each with events of its own.
                entering = f"pasted/{place}"
                streams[entering] = TrialStream(pasted=tuple(self._pasted[place]))
            else:
                entering = stream
                since = registered.since(self._dataflow.tenant)
                folder = None if root is None else str(spool_folder(root, stream))
                streams[entering] = TrialStream(folder=folder, since=int(since * 1000))
            supply = declaring(supply, fields_in(task.text))
            ingress.append(Ingress(stream=entering, instance=place + 1, supply=supply))
        plan = Plan(
            job="trial",
            host="trial",
            version=1,
            slots=tuple(self._slots),
            ingress=tuple(ingress),
            forwards=tuple(self._forwards()),
            limits=TRIAL_LIMITS,
        )
        types = sorted({slot.type for slot in plan.slots})
        return TrialOrder(
            plan=plan,
            behaviours={name: at for name in types if (at := place_of(name, behaviours)) is not None},
            streams=streams,
            newest=self._wishes.newest,
            now=int(self._wishes.now * 1000),
            shown=SHOWN,
            most_bytes=MOST_SHOWN_BYTES,
            taps=frozenset(self._taps.values()),
        )

    def _forwards(self) -> Iterator[Forward]:
        for place, task in enumerate(self._dataflow.tasks):
            if not self._not_run[place]:
                yield from (Forward(instance=place + 1, port=port) for port in task.type.outputs)
        yield from (Forward(instance=tap) for tap in self._taps.values())

    def task_at(self, instance: int) -> str | None:
        """The id of the task that an instance is; None for a tap."""
        return next((id_ for id_, place in self._dataflow.places.items() if place + 1 == instance), None)

    def answers(self, result: TrialResult, ids: Iterable[str]) -> Iterator[TriedTask]:
        """Yield what the result says of each sound task among some ids."""
        lacks = self._lacks()
        rejections: dict[int, list[TriedRejection]] = {}
        for events in result.rejected:
            rejections.setdefault(events.instance, []).append(_rejection(events))
        entered: dict[int, dict[str, TriedEvents]] = {}
        for (instance, port), tap in self._taps.items():
            entered.setdefault(instance, {})[port] = _shown(result.left.get(tap, {}).get("out"))
        for id_ in ids:
            place = self._dataflow.places.get(id_)
            if place is None:
                continue
            task, instance = self._dataflow.tasks[place], place + 1
            left = result.left.get(instance, {})
            rejected, taken = result.rejections.get(instance, 0), result.taken.get(instance, 0)
            runs, reads_source = not self._not_run[place], self._reads_source(place)
            if reads_source:
                taken = rejected + sum(shown.count for shown in left.values())
            yield TriedTask(
                id=id_,
                not_run=self._not_run[place],
                lacks=tuple(lacks[place]),
                taken=taken,
                origin=self._origin(place, taken) if reads_source else None,
                seen=taken - rejected if runs and task.type.state is not State.NONE else None,
                inputs=entered.get(instance, {}),
                outputs={port: _shown(left.get(port)) for port in task.type.outputs} if runs else {},
                rejected=rejected,
                rejections=tuple(rejections.get(instance, ())),
            )

    def _origin(self, place: int, taken: int) -> Literal["pasted", "kept", "none"]:
        if place in self._pasted:
            return "pasted"
        return "kept" if taken else "none"

    def _lacks(self) -> list[list[str]]:
        """For each place the tasks above it that do not run, by their first ids."""
        ids = {place: id_ for id_, place in sorted(self._dataflow.places.items(), reverse=True)}
        above: list[set[int]] = []
        for task in self._dataflow.tasks:
            parents = {edge.parent for edge in task.inputs}
            idle = {parent for parent in parents if self._not_run[parent]}
            above.append(idle.union(*(above[parent] for parent in parents)))
        return [sorted(ids[place] for place in places) for places in above]


def _shown(events: ShownEvents | None) -> TriedEvents:
    return TriedEvents(count=0) if events is None else TriedEvents(count=events.count, newest=events.newest)


def _rejection(rejected: RejectedEvents) -> TriedRejection:
    return TriedRejection(port=rejected.port, reason=rejected.reason, events=_shown(rejected.events))
