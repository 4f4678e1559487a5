"""One task's part of a batch: its events go through its behaviour, and its faults stay its own.

A behaviour is called with all events at once. If it raises, its state is rolled back and the events are halved until
those are found that raise alone; they are parked, and all others are worked off. This gives what one event after the
other would give, at a cost that hardly grows with the events that are good. A task that does nothing but raise is
parked whole once that is plain.

A task that is suspected of killing its worker runs event by event from the start, see `engine/kernel/watchdog.py`. One that
has an effect outside is told what its events are called, see `engine/side_effect.py`.
"""

import traceback
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, PortEmission
from engine.kernel.streams import EventStream, Numbers, PortRun, joined
from engine.kernel.task_watch import EventName, TaskWatch
from engine.records.record import Dead
from engine.records.staged_state import Staged
from engine.side_effect import NOWHERE, ActingBehaviour, EventNames, Origins, OutsideUnreachable, names_of

_LONGEST_REASON = 500
_HOPELESS = 20
"""So many first events that each raise the same type of error alone, and the rest is parked untried."""


class Nonsense(ValueError):
    """A behaviour gave what no behaviour may give."""


class TaskInput:
    """What an instance takes in a batch, in order; events are counted over all its ports."""

    def __init__(self, runs: Sequence[PortRun]) -> None:
        self._runs = runs
        self._ends = list(accumulate(len(run.stream) for run in runs))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def between(self, first: int, end: int) -> Iterator[PortRun]:
        """The runs of the events between two indexes."""
        at = bisect_right(self._ends, first)
        while first < end:
            (port, stream), low = self._runs[at], first - (self._ends[at - 1] if at else 0)
            high = min(len(stream), low + end - first)
            yield PortRun(port, stream if (low, high) == (0, len(stream)) else stream.slice(low, high))
            first += high - low
            at += 1

    def causes(self) -> Numbers:
        """The cause of each event."""
        return np.concatenate([run.stream.causes for run in self._runs]) if self._runs else np.empty(0, np.int64)

    def names(self) -> list[EventName]:
        """What each event is called."""
        names: list[EventName] = []
        for cause in [cause for run in self._runs for cause in run.stream.causes.tolist()]:
            again = bool(names) and names[-1][0] == cause
            names.append((cause, names[-1][1] + 1 if again else 0))
        return names

    def parked(self, instance: int, reasons: Sequence["Reason"]) -> tuple[Dead, ...]:
        """Dead letters; neighbours of one port and reason go together."""
        found: list[Dead] = []
        at = 0
        while at < len(reasons):
            first, reason = reasons[at]
            begun = at
            while at < len(reasons) and reasons[at] == (first + at - begun, reason):
                at += 1
            found += [
                Dead(instance=instance, port=run.port, reason=reason, events=run.stream.rows)
                for run in self.between(first, first + at - begun)
            ]
        return tuple(found)


class Reason(NamedTuple):
    """Why an event is parked."""

    at: int
    reason: str


class Outcome(NamedTuple):
    """What came of a task's events."""

    emitted: Mapping[str, EventStream]
    dead: tuple[Dead, ...]


@dataclass(slots=True, kw_only=True)
class TaskRun:
    """One instance and its events in one batch; made by the kernel."""

    instance: int
    behaviour: Behaviour
    outputs: Mapping[str, pa.Schema]
    """The schema at each output port."""
    state: Staged
    taken: TaskInput
    watch: TaskWatch
    origins: Origins = NOWHERE
    _emitted: list[Mapping[str, EventStream]] = field(default_factory=list)
    _parked: list[Reason] = field(default_factory=list)
    _raised: list[type[Exception]] = field(default_factory=list)
    """What the events raised that raised alone."""
    _names: EventNames | None = None
    """What the events are called for good, where the behaviour acts."""

    def work_off(self) -> Outcome:
        """PortRun the behaviour over all events."""
        if isinstance(self.behaviour, ActingBehaviour):
            self._names = names_of(self.instance, self.origins, self.taken.causes())
        if isinstance(self.behaviour, ActingBehaviour) and self.behaviour.whole:
            self._all_at_once()
        elif self.watch.alone(self.instance):
            self._one_by_one()
        else:
            self._halving()
        emitted = {
            port: joined([each[port] for each in self._emitted if port in each and len(each[port])], schema)
            for port, schema in self.outputs.items()
        }
        return Outcome(emitted, self.taken.parked(self.instance, self._parked))

    def _all_at_once(self) -> None:
        self.watch.running(self.instance)
        error = self._attempt(0, len(self.taken))
        if error is not None:
            self._parked += [Reason(at, reason_of(error)) for at in range(len(self.taken))]

    def _park_rest(self, at: int, error: Exception) -> bool:
        """Park an event and all after it, where none of them is to blame; whether that was so."""
        blameless = isinstance(error, OutsideUnreachable)
        if blameless:
            self._parked += [Reason(rest, reason_of(error)) for rest in range(at, len(self.taken))]
        return blameless

    def _one_by_one(self) -> None:
        for at, name in enumerate(self.taken.names()):
            if reason := self.watch.parked(self.instance, name):
                self._parked.append(Reason(at, reason))
                continue
            self.watch.running(self.instance, name)
            error = self._attempt(at, at + 1)
            if error is not None and (self._park_rest(at, error) or self._park(at, error)):
                break

    def _halving(self) -> None:
        waiting = [(0, len(self.taken))]
        while waiting:
            first, end = waiting.pop()
            self.watch.running(self.instance)
            error = self._attempt(first, end)
            if error is None:
                continue
            if self._park_rest(first, error):
                break
            if end - first > 1:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
            elif self._park(first, error):
                break

    def _park(self, at: int, error: Exception) -> bool:
        """Park an event; whether the rest went with it."""
        self._raised.append(type(error))
        self._parked.append(Reason(at, reason_of(error)))
        hopeless = at == _HOPELESS - 1 and len(self._raised) == _HOPELESS and len(set(self._raised)) == 1
        if hopeless:
            self._parked += [Reason(rest, reason_of(error)) for rest in range(at + 1, len(self.taken))]
        return hopeless

    def _attempt(self, first: int, end: int) -> Exception | None:
        """PortRun some events; what it raised, in which case nothing is left of it."""
        token = self.state.mark()
        emitted: list[Mapping[str, EventStream]] = []
        try:
            at = first
            for run in self.taken.between(first, end):
                emissions = self._called(run, at)
                at += len(run.stream)
                emitted.append({port: self._caused(port, each, run.stream) for port, each in emissions.items()})
        except Exception as error:  # noqa: BLE001 - whatever a task raises is its own fault, and parks its events
            self.state.rollback(token)
            # Its frames would keep the events.
            return error.with_traceback(None)
        self._emitted += emitted
        return None

    def _called(self, run: PortRun, at: int) -> Mapping[str, PortEmission]:
        if isinstance(self.behaviour, ActingBehaviour) and self._names is not None:
            names = self._names.between(at, at + len(run.stream))
            return self.behaviour.act(run.port, run.stream.rows, self.state, names)
        return self.behaviour(run.port, run.stream.rows, self.state)

    def _caused(self, port: str, emission: PortEmission, taken: EventStream) -> EventStream:
        rows, origin = emission
        _check(port, rows, self.outputs)
        return EventStream(rows.replace_schema_metadata(None), _causes(port, len(rows), origin, taken.causes))


def reason_of(error: Exception) -> str:
    """Why events are parked: the type of what was raised, and its message."""
    told = "".join(traceback.format_exception_only(error)).strip()
    # A message may hold halves of characters, which no file can.
    return told.encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]


def _check(port: str, rows: pa.RecordBatch, outputs: Mapping[str, pa.Schema]) -> None:
    if not isinstance(rows, pa.RecordBatch):
        raise Nonsense(f"it emits {type(rows).__name__} at port {port!r}, which is no RecordBatch")
    if port not in outputs:
        raise Nonsense(
            f"it emits at port {port!r}, but not so for an empty batch; give every port an empty batch there"
        )
    if not rows.schema.equals(outputs[port]):
        told = f"it emits {_told(rows.schema)} at port {port!r}, but for an empty batch {_told(outputs[port])}"
        raise Nonsense(f"{told}; give every batch the same fields")


def _causes(port: str, count: int, origin: Numbers | None, causes: Numbers) -> Numbers:
    if origin is None:
        if count != len(causes):
            raise Nonsense(f"it emits {count} events at port {port!r} for {len(causes)}; name the origin of each")
        return causes
    if len(origin) != count:
        raise Nonsense(f"it emits {count} events at port {port!r} and names the origins of {len(origin)}")
    if count and (origin[0] < 0 or origin[-1] >= len(causes) or bool(np.any(np.diff(origin) < 0))):
        raise Nonsense(f"the origins that it names at port {port!r} fall, or lie outside of what it took")
    of_each: Numbers = causes[origin]
    return of_each


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "no field"
