"""The forwarder of a job: sends its streams to the jobs that consume them, and sends again what they ask for.

A stream is forwarded from when a plan asks for it until a later plan does not. After that it stays open until its
consumer has confirmed all of it.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from bridge.sender import Sender
from bridge.wire import Emitted as Sent
from bridge.wire import Stream
from engine.delivery.publisher import run_epoch
from engine.plan import Forward, Plan, Port
from engine.records.files import Header
from engine.records.record import EmittedEvents
from engine.records.store import RecordStore


class RecordedRange(NamedTuple):
    """The numbers of a stream that one record holds."""

    first: int
    end: int
    batch: int


@dataclass(slots=True)
class ForwardedStream:
    """A stream from when it is forwarded until it is closed, when its end is known."""

    forward: Forward
    first: int
    end: int | None = None


class JobForwarder:
    """Forwards the streams of one job; called from the thread of its follower."""

    def __init__(self, store: RecordStore, sender: Sender, *, run: int) -> None:
        self.trouble = ""
        """The reason that a stream is not forwarded although it should be."""
        self._store = store
        self._sender = sender
        self._run = run
        self._batch = -1
        self._ranges: dict[Port, deque[RecordedRange]] = {}
        # The follower's thread adds ranges, and the sender's thread reads them.
        self._guard = threading.Lock()
        self._first_numbers: dict[Port, int] = {}
        """For each port that was ever forwarded the number that its stream begins with."""
        self._open_streams: dict[Port, ForwardedStream] = {}
        self._closing: dict[Port, list[ForwardedStream]] = {}
        """Streams that are no longer forwarded, until their consumers have all of them."""

    def note(self, header: Header) -> None:
        """Note which numbers a record holds."""
        for emitted in header.emitted:
            noted = RecordedRange(emitted.first, emitted.first + emitted.count, header.batch)
            with self._guard:
                self._ranges.setdefault(emitted.origin, deque()).append(noted)

    def resume(self, batch: int, state: Mapping[str, Any], plan: Plan | None) -> None:
        """Continue from a state that an earlier run wrote, after a batch that ran a plan."""
        self._batch = batch
        for instance, port, epoch, first, end in state["closing"]:
            stream = ForwardedStream(Forward(instance=instance, port=port, epoch=epoch), first, end)
            self._open(stream)
            self._close(stream)
        if plan is not None:
            self._apply(plan)

    def restore_numbers(self, state: Mapping[str, Any]) -> None:
        """Take over the first numbers from a state that an earlier run wrote."""
        self._first_numbers = {Port(instance, port): first for instance, port, first in state["opened"]}

    def take(self, header: Header, plan: Plan, emitted: Sequence[EmittedEvents]) -> None:
        """Forward what a batch emitted, by the plan that it ran."""
        self._batch = header.batch
        for origin, number in header.opened:
            if origin not in self._open_streams:
                self._first_numbers[origin] = number
        self._apply(plan)
        for events in emitted:
            if events.origin in self._open_streams:
                self._sender.emit(Stream(*events.origin), _sent(events))

    def unconfirmed(self) -> dict[str, int]:
        """For each stream the first number that its consumer is not known to have."""
        return {f"{origin.instance}:{origin.port}": self._sender.needed(Stream(*origin)) for origin in self._origins()}

    def forget_confirmed(self) -> None:
        """Forget closed streams that their consumers have completely."""
        for origin, streams in list(self._closing.items()):
            needed = self._sender.needed(Stream(*origin))
            # Only once the consumer is past the end: it has to learn that there was one.
            if left := [stream for stream in streams if stream.end is None or needed <= stream.end]:
                self._closing[origin] = left
            else:
                del self._closing[origin]

    def state(self) -> dict[str, Any]:
        """The state that the next run resumes from, as JSON."""
        return {
            "opened": [[*origin, first] for origin, first in sorted(self._first_numbers.items())],
            "closing": [
                [*origin, stream.forward.epoch, stream.first, stream.end]
                for origin, streams in sorted(self._closing.items())
                for stream in streams
            ],
        }

    def needed_batches(self) -> list[int]:
        """For each stream the oldest batch that its consumer may still ask for; forgets the ranges before it."""
        batches: list[int] = []
        for origin in self._origins():
            needed = self._sender.needed(Stream(*origin))
            with self._guard:
                ranges = self._ranges.get(origin, deque())
                while ranges and ranges[0].end <= needed:
                    ranges.popleft()
                batches += [oldest.batch for oldest in islice(ranges, 1)]
        return batches

    def _origins(self) -> set[Port]:
        return {*self._open_streams, *self._closing}

    def _apply(self, plan: Plan) -> None:
        wanted = {forward.origin: forward for forward in plan.forwards}
        for origin, stream in list(self._open_streams.items()):
            if origin not in wanted:
                del self._open_streams[origin]
                self._close(stream)
        for origin, forward in wanted.items():
            known = self._open_streams.get(origin)
            if known is None or known.forward != forward:
                self._open_streams[origin] = ForwardedStream(forward, self._first_numbers.get(origin, 0))
                self._open(self._open_streams[origin])

    def _open(self, stream: ForwardedStream) -> None:
        try:
            self._sender.forward(
                Stream(*stream.forward.origin),
                epoch=run_epoch(stream.forward.epoch, self._run),
                first=stream.first,
                kept=partial(self._recorded, stream),
            )
        except ValueError as error:
            # The maker of the plan has to raise the epoch; everything else goes on.
            self.trouble = str(error)

    def _close(self, stream: ForwardedStream) -> None:
        origin = stream.forward.origin
        if stream.end is None:
            # The record that is being taken up begins the plan that closes the stream.
            before = (
                recorded.end for recorded in reversed(self._ranges.get(origin, ())) if recorded.batch < self._batch
            )
            stream.end = next(before, stream.first)
        self._closing.setdefault(origin, []).append(stream)
        self._sender.close(Stream(*origin))

    def _recorded(self, stream: ForwardedStream, number: int) -> Iterator[Sent]:
        """The recorded events of a stream from a number on, until it was closed; called in the sender's thread."""
        origin = stream.forward.origin
        with self._guard:
            ranges = list(self._ranges.get(origin, ()))
        for recorded in ranges:
            # A batch that is taken up later is emitted then. What a port emits after the end is not of this stream.
            if recorded.end <= number or recorded.batch > self._batch:
                continue
            if stream.end is not None and recorded.first >= stream.end:
                return
            for emitted in self._store.file(recorded.batch).emitted(origin):
                yield _sent(emitted)


def _sent(emitted: EmittedEvents) -> Sent:
    return Sent(first=emitted.first, events=emitted.events, marker=emitted.marker, births=emitted.births)
