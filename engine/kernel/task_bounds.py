"""The bounds of what one task may take in a batch, so that a greedy one costs its neighbours in the job little.

A bound turns too much into dead letters of the task itself: events that would make its state or an emitted event too
large, and all that is left once it has used its CPU. A task that does nothing else is failed, as any other.

Of the dead letters of a task only the newest are kept, as many as the service keeps of it. A task that can take nothing
would otherwise send all its events once more, through a broker and a database that it shares with others, only to have
them dropped there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bridge.messages import LARGEST_EVENT
from engine.behaviour import task_cpu_ns
from engine.plan import Plan
from engine.records.record import Dead
from engine.records.state import StateGrowth

FIRST_EVENTS = 8
"""Events of the first call of a task whose cost is not known yet: it cannot be interrupted."""
_MORE = 8
"""The most by which the next call is larger."""
_CALLS = 40
"""The part of its CPU that a call should take is one of so many."""
_OVERSPENT = "it took more than"


class BeyondBound(Exception):
    """More than a task may have; its text is the reason of the dead letters."""


class StateFull(BeyondBound):
    """A state that would grow beyond its bound."""


class EventCost(NamedTuple):
    """What one event of a task cost on average in the last batch."""

    ns: float
    """Of CPU."""
    emitted: float
    """In bytes."""


class Allowance:
    """What one task may take in one batch, and how many events at once; made by the kernel.

    >>> Allowance(seconds=5.0, emitted=1_000).at_once
    8
    """

    def __init__(self, *, seconds: float, emitted: int, known: EventCost | None = None) -> None:
        """`seconds` are of CPU, `emitted` are bytes; `known` is what an event cost before, if that is known."""
        self._most_emitted = emitted
        self._emitted = 0
        self._most = int(seconds * 1e9)
        self._used = self._events = 0
        self._begun = task_cpu_ns()
        self._call = self._most // _CALLS
        self.at_once = FIRST_EVENTS
        """The events of the next call."""
        if known is not None:
            by_emitted = emitted / _CALLS / max(1.0, known.emitted)
            self.at_once = max(1, int(min(self._call / max(1.0, known.ns), by_emitted)))

    @property
    def spent(self) -> bool:
        """True once no more events are tried in this batch."""
        return self._emitted > self._most_emitted or task_cpu_ns() - self._begun > self._most

    @property
    def reason(self) -> str:
        """Why the events after that are parked."""
        if self._emitted > self._most_emitted:
            return f"{_OVERSPENT} {self._most_emitted:,} bytes for what it emits in one batch; emit less for an event"
        return f"{_OVERSPENT} {self._most / 1e9:g} s of CPU in one batch; let it do less for an event"

    def note_emitted(self, size: int) -> None:
        """Count the bytes that it emitted."""
        self._emitted += size

    def note_call(self, begun_ns: int) -> None:
        """Choose the size of the next call by what the last one took."""
        if task_cpu_ns() - begun_ns < self._call and self._emitted < self._most_emitted // _CALLS:
            self.at_once *= _MORE

    def resume(self) -> None:
        """Go on counting the CPU that it uses."""
        self._begun = task_cpu_ns() - self._used

    def pause(self, events: int) -> EventCost:
        """Stop counting after so many more events; returns what each of them all cost on average."""
        self._used = task_cpu_ns() - self._begun
        self._events += events
        return EventCost(self._used / self._events, self._emitted / self._events)


def seconds_of(plan: Plan) -> float:
    """The CPU that each task of a plan may take in a batch: slower jobs have larger batches."""
    return plan.limits.task_seconds * max(1.0, plan.pace)


def is_overspent(reason: str) -> bool:
    """Whether events were parked because their task had used what it may."""
    return reason.startswith(_OVERSPENT)


def check_sizes(port: str, rows: pa.RecordBatch) -> None:
    """Raise `BeyondBound` if an emitted event is larger than any event may be: no message could carry it.

    >>> check_sizes("out", pa.record_batch({"t": ["small"]}))
    """
    # The first is many times as fast, and counts all that the buffers hold, even if these are parts of larger ones.
    if rows.get_total_buffer_size() <= LARGEST_EVENT or rows.nbytes <= LARGEST_EVENT:
        return
    texts = [column for column in rows.columns if pa.types.is_string(column.type) or pa.types.is_binary(column.type)]
    sizes = [pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in texts]
    if not sizes:
        return
    if (largest := pc.max(reduce(pc.add, sizes)).as_py() or 0) > LARGEST_EVENT:
        raise BeyondBound(
            f"it would emit an event of {largest:,} bytes at port {port!r}, and an event may have {LARGEST_EVENT:,}; "
            "gather less in one event"
        )


class StateBound(NamedTuple):
    """What the state of one task may have in a batch."""

    most: int
    """In bytes."""
    of_quota: bool = False
    """Whether that is because of all that its tenant keeps."""

    @property
    def reason(self) -> str:
        """Why events that would let it grow further are parked."""
        if self.of_quota:
            return (
                "the states of its tenant have as much as the quota `state_mb` allows, so this one may grow no "
                "further; use fewer keys or shorter windows, remove a dataflow, or ask for more"
            )
        return (
            f"its state would have more than {self.most:,} bytes; beside the other states of its job it may not have "
            "more, so use fewer keys or shorter windows, or ask for more"
        )


class StateRoom:
    """The room that the states of a job have in one batch; made by the kernel.

    As long as they have less together than a job's may, each may have what a task's may. From then on each may have
    its equal part, so that what one keeps never takes that from another.

    >>> from engine.plan import Limits
    >>> plan = Plan(job="1", host="north", version=1, limits=Limits(state_bytes=100), state_bounds={2: 50})
    >>> StateRoom(plan, {1: 90, 2: 90, 3: 90}).bound_of(1).most
    100
    >>> [StateRoom(plan, dict.fromkeys(range(5), 90)).bound_of(each).most for each in (1, 2)]
    [80, 50]
    """

    def __init__(self, plan: Plan, sizes: Mapping[int, int]) -> None:
        """`sizes` are those of the states before the batch."""
        self._bounds = plan.state_bounds
        self._shards = plan.shards
        self._limits = plan.limits
        self._sizes = sizes
        self._before = self._held = sum(sizes.values())
        self._staged: dict[int, tuple[StateGrowth, int]] = {}
        """The growth of each task that has staged something, and how much of its state is counted in `_held`."""

    def bound_of(self, instance: int) -> StateBound:
        """What the state of the next task may have."""
        most, bound = self._most(), self._bounds.get(instance)
        if bound is None or (own := bound // self._shards) > most:
            return StateBound(most)
        return StateBound(own, of_quota=True)

    def _most(self) -> int:
        most = self._limits.job_state_bytes
        if self._held >= most and self._staged:
            # Now it is worth to count.
            self._held = self._before + sum(
                growth.size() - self._sizes.get(instance, 0) for instance, (growth, _) in self._staged.items()
            )
        if self._held < most:
            return self._limits.state_bytes
        new = (growth for instance, (growth, _) in self._staged.items() if not self._sizes.get(instance))
        states = len(self._sizes) + sum(growth.most > 0 for growth in new)
        return min(self._limits.state_bytes, most // max(1, states))

    def note(self, instance: int, growth: StateGrowth) -> None:
        """Note what a task has staged so far."""
        _, held = self._staged.get(instance, (growth, self._sizes.get(instance, 0)))
        self._held += growth.most - held
        self._staged[instance] = growth, growth.most


MOST_DEAD_BYTES = 16 * 1024 * 1024
"""Bytes of events of one task in one batch."""
MOST_DEAD = 1_000
"""Groups of neighbours with one reason, of one task in one batch; each is a message."""


def newest_dead(dead: Sequence[Dead], *, most: int = MOST_DEAD, most_bytes: int = MOST_DEAD_BYTES) -> list[Dead]:
    """The last dead letters of one task; of the first that is kept perhaps only its last events, but one at least."""
    kept: list[Dead] = []
    left = most_bytes
    for letter in reversed(dead[-most:]):
        size, count = letter.events.nbytes, letter.events.num_rows
        if size > left:
            fit = count * left // size
            if fit or not kept:
                kept.append(replace(letter, events=letter.events.slice(count - max(1, fit))))
            break
        left -= size
        kept.append(letter)
    return kept[::-1]
