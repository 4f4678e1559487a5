"""The run of one task in a batch: its events go through its behaviour, and its faults do not affect others.

A behaviour is called with all events at once. If it raises, its state is rolled back, and the events are halved until
those that raise alone are found. These are parked, and all others are processed. The result is that of one event after
the other, at a cost that hardly grows with the number of good events. If a task does nothing but raise, all its events
are parked. If very many would let its state grow beyond its bound, those near them are parked too.

What a behaviour emits is checked: events of the declared fields, each with its cause, and none too large.

A task that is suspected of killing its worker runs event by event from the start, see `engine/kernel/watchdog.py`. An
acting behaviour also gets the names of its events, and a refusing one says itself which events it cannot take; for
both, see `engine/behaviour.py`.
"""

import traceback
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, EventName, NoBehaviour, PortEmission, RefusingBehaviour, TaskWatch, task_cpu_ns
from engine.event_streams import EventStream, Numbers, PortRun, joined, without_metadata
from engine.kernel.task_bounds import Allowance, BeyondBound, StateBound, StateFull, check_sizes
from engine.records.record import CodeTraceback, Dead
from engine.records.state import Staged
from engine.side_effect import (
    NOWHERE,
    ActingBehaviour,
    EventNames,
    Origins,
    OutsideUnreachable,
    PartlyWritten,
    names_of,
)


class InvalidEmission(ValueError):
    """A behaviour returned something that breaks the rules for behaviours."""


def check_emission(port: str, rows: pa.RecordBatch, outputs: Mapping[str, pa.Schema]) -> None:
    """Check the events that a behaviour returned for a port. Raises `InvalidEmission`, or `BeyondBound`."""
    if not isinstance(rows, pa.RecordBatch):
        raise InvalidEmission(f"the task emits {type(rows).__name__} at port {port!r}, not a RecordBatch")
    if port not in outputs:
        raise InvalidEmission(
            f"the task emits at port {port!r}, but not for an empty batch; emit an empty batch there too"
        )
    if not rows.schema.equals(outputs[port]):
        fields = f"{_text(rows.schema)} at port {port!r}, but for an empty batch {_text(outputs[port])}"
        raise InvalidEmission(f"the task emits {fields}; emit the same fields for every batch")
    check_sizes(port, rows)


def causes_of(port: str, count: int, origin: Numbers | None, causes: Numbers) -> Numbers:
    """The causes of emitted events, by the indexes of the events that they were emitted for."""
    if origin is None:
        if count != len(causes):
            raise InvalidEmission(
                f"the task emits {count} events at port {port!r} for {len(causes)}; name the origin of each"
            )
        return causes
    if len(origin) != count:
        raise InvalidEmission(f"the task emits {count} events at port {port!r} and names the origins of {len(origin)}")
    if count and (origin[0] < 0 or origin[-1] >= len(causes) or bool((origin[1:] < origin[:-1]).any())):
        raise InvalidEmission(f"the origins at port {port!r} are not in ascending order, or outside the batch")
    of_each: Numbers = causes[origin]
    return of_each


def _text(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "no field"


_SINGLY = 1_000
"""Events too many for a state after which no more are looked for one by one, as that would take all the task's CPU."""
_TOGETHER = 64
"""The most events that are parked together then."""
_FEW_BYTES = 100_000
_LONGEST_REASON = 500
_HOPELESS = 20
"""If this many first events each raise the same type of error alone, the rest is parked without a try."""


class TaskInput:
    """The events that an instance takes in a batch, in order. Indexes count over all its ports."""

    def __init__(self, runs: Sequence[PortRun]) -> None:
        self._runs = runs
        self._ends = list(accumulate(len(run.stream) for run in runs))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def only_stream(self) -> EventStream | None:
        """All of its events, if they came at one port; else None."""
        return self._runs[0].stream if len(self._runs) == 1 else None

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
        """The name of each event."""
        return [(cause, place) for cause, group in groupby(self.causes().tolist()) for place, _ in enumerate(group)]

    def parked(self, instance: int, reasons: Sequence["Reason"]) -> tuple[Dead, ...]:
        """Dead letters of events. Neighbours with the same port and reason share one."""
        letters: list[Dead] = []
        at = 0
        while at < len(reasons):
            first, reason, trace = reasons[at]
            begun = at
            while at < len(reasons) and reasons[at] == (first + at - begun, reason, trace):
                at += 1
            letters += [
                Dead(instance=instance, port=run.port, reason=reason, events=run.stream.rows, traceback=trace)
                for run in self.between(first, first + at - begun)
            ]
        return tuple(letters)


class Reason(NamedTuple):
    """The reason why an event is parked."""

    at: int
    reason: str
    traceback: CodeTraceback | None = None


class TaskOutcome(NamedTuple):
    """The result of a task's events."""

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
    allowance: Allowance
    room: StateBound
    """What its state may have."""
    origins: Origins = NOWHERE
    _emitted: list[Mapping[str, EventStream]] = field(default_factory=list)
    _parked: list[Reason] = field(default_factory=list)
    _raised: list[type[Exception]] = field(default_factory=list)
    """The types of the errors of events that raised alone."""
    _beyond: int = 0
    """The events that were too many for the state, as far as they were found one by one."""
    _names: EventNames | None = None
    """The permanent names of the events, for an acting behaviour."""

    def work_off(self) -> TaskOutcome:
        """Run the behaviour over all events."""
        if isinstance(self.behaviour, ActingBehaviour):
            self._names = names_of(self.instance, self.origins, self.taken.causes())
        if isinstance(self.behaviour, ActingBehaviour) and self.behaviour.whole:
            self._all_at_once()
        elif self.watch.alone(self.instance):
            self._one_by_one()
        else:
            self._in_calls()
        emitted = {
            port: joined([streams[port] for streams in self._emitted if port in streams and len(streams[port])], schema)
            for port, schema in self.outputs.items()
        }
        return TaskOutcome(emitted, self.taken.parked(self.instance, self._parked))

    def _all_at_once(self) -> None:
        self.watch.running(self.instance)
        error = self._attempt(0, len(self.taken))
        if error is not None:
            self._park_from(0, reason_of(error))

    def _park_rest(self, at: int, error: Exception) -> bool:
        """Park an event and all after it if none of them is to blame; False if one is."""
        if blameless := isinstance(error, OutsideUnreachable):
            self._park_from(at, reason_of(error))
        return blameless

    def _park_from(self, at: int, reason: str) -> None:
        self._parked += [Reason(rest, reason) for rest in range(at, len(self.taken))]

    def _one_by_one(self) -> None:
        for at, name in enumerate(self.taken.names()):
            if reason := self.watch.parked(self.instance, name):
                self._parked.append(Reason(at, reason))
                continue
            if self._is_spent(at):
                break
            self.watch.running(self.instance, name)
            error = self._attempt(at, at + 1)
            if error is not None and (self._park_rest(at, error) or self._park(at, error)):
                break

    def _in_calls(self) -> None:
        """Take the events in calls as large as the task's CPU allows."""
        # A cell has bounds of its own, and would be made for each call.
        at, at_once = 0, len(self.taken) if isinstance(self.behaviour, RefusingBehaviour) else 0
        while at < len(self.taken):
            end = min(len(self.taken), at + (at_once or self.allowance.at_once))
            begun = task_cpu_ns()
            if not self._halving(at, end):
                break
            self.allowance.note_call(begun)
            at = end

    def _is_spent(self, at: int) -> bool:
        """Park all events from one on if the task has used its CPU."""
        if spent := self.allowance.spent:
            self._park_from(at, self.allowance.reason)
        return spent

    def _halving(self, begin: int, over: int) -> bool:
        """Run some events; False if the rest of all was parked with them."""
        waiting = [(begin, over)]
        while waiting:
            first, end = waiting.pop()
            if self._beyond >= _SINGLY and end - first > _TOGETHER:
                # Most larger calls would be for nothing.
                waiting += [(first + _TOGETHER, end), (first, first + _TOGETHER)]
                continue
            if self._is_spent(first):
                return False
            self.watch.running(self.instance)
            error = self._attempt(first, end)
            if error is None:
                continue
            if self._park_rest(first, error):
                return False
            if isinstance(error, StateFull) and self._beyond >= _SINGLY:
                self._parked += [Reason(at, reason_of(error)) for at in range(first, end)]
            elif end - first > 1:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
            elif self._park(first, error):
                return False
            else:
                self._beyond += isinstance(error, StateFull)
        return True

    def _park(self, at: int, error: Exception) -> bool:
        """Park an event; True if the rest was parked with it."""
        self._raised.append(type(error))
        self._parked.append(Reason(at, reason_of(error)))
        if hopeless := at == _HOPELESS - 1 and len(self._raised) == _HOPELESS and len(set(self._raised)) == 1:
            self._park_from(at + 1, reason_of(error))
        return hopeless

    def _attempt(self, first: int, end: int) -> Exception | None:
        """Run some events; returns the error if it raised, with all effects undone."""
        token = self.state.mark()
        emitted: list[Mapping[str, EventStream]] = []
        refused: list[Reason] = []
        try:
            at = first
            for run in self.taken.between(first, end):
                emissions = self._called(run, at, refused)
                at += len(run.stream)
                emitted.append({port: self._caused(port, emission, run.stream) for port, emission in emissions.items()})
            if self.state.growth.exceeds(self.room.most, token):
                raise StateFull(self.room.reason)  # noqa: TRY301 - undone like all other errors
        except Exception as error:  # noqa: BLE001 - a task may raise anything, and its events are parked then
            self.state.rollback(token)
            # Its frames would keep the events in memory.
            return error.with_traceback(None)
        streams = [stream for by_port in emitted for stream in by_port.values()]
        size = sum([stream.rows.get_total_buffer_size() for stream in streams])
        if size > _FEW_BYTES or end - first < len(self.taken):
            # It takes longer to ask for, but does not count what is only beside the events in the same buffers.
            size = sum([stream.rows.nbytes for stream in streams])
        self.allowance.note_emitted(size)
        self._emitted += emitted
        self._parked += refused
        return None

    def _called(self, run: PortRun, at: int, refused: list[Reason]) -> Mapping[str, PortEmission]:
        if isinstance(self.behaviour, RefusingBehaviour):
            emission, refusals = self.behaviour.take(run.stream.rows, self.state)
            owner = self.behaviour.owner
            for place, reason, trace in refusals:
                refused.append(Reason(at + place, sound(reason), CodeTraceback(owner, trace) if trace else None))
            return {"out": emission}
        if isinstance(self.behaviour, ActingBehaviour) and self._names is not None:
            names = self._names.between(at, at + len(run.stream))
            outcome = self.behaviour.act(run.port, run.stream.rows, self.state, names)
            if not isinstance(outcome, PartlyWritten):
                return outcome
            refused += [Reason(at + refusal.at, sound(refusal.reason)) for refusal in outcome.refusals]
            return outcome.emissions
        return self.behaviour(run.port, run.stream.rows, self.state)

    def _caused(self, port: str, emission: PortEmission, taken: EventStream) -> EventStream:
        rows, origin = emission
        check_emission(port, rows, self.outputs)
        return EventStream(without_metadata(rows), causes_of(port, len(rows), origin, taken.causes))


def reason_of(error: Exception) -> str:
    """The reason to park events: the type of the error, and its message."""
    if isinstance(error, BeyondBound | NoBehaviour):
        # Written for its reader.
        return sound(str(error))
    return sound("".join(traceback.format_exception_only(error)).strip())


def sound(text: str) -> str:
    """A reason as it is kept."""
    # A message may contain lone surrogates, which a file cannot.
    return text.encode("utf-8", "backslashreplace").decode()[:_LONGEST_REASON]
