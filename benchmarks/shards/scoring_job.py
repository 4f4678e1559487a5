"""A job that scores payments by user, some work for each, over events that another job would forward."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from benchmarks.engine_plans import HOST, delivery, slot
from benchmarks.engine_test_bed import Bed
from bridge.wire import Emitted, Stream
from engine.plan import Bridged, Ingress, Plan

PIECE = 20
"""The events of one message."""


class ScoringJob:
    """One such job on a test bed; nothing waits in its spool when it is made."""

    def __init__(  # noqa: PLR0913 - the bed, its numbers, and what makes it light or heavy are six things
        self, bed: Bed, first: int, *, work: int, shards: int, users: int = 1_000, pace: float = 0.2
    ) -> None:
        self.bed = bed
        self.sent = 0
        """How many events were sent."""
        self._users = users
        self._stream = Stream(first, "out")
        slots = (slot(first + 1, "bench:inference", first, {"work": work}), slot(first + 2, "output", first + 1))
        self.plan = Plan(
            job=f"scores {first}",
            host=HOST,
            version=1,
            ingress=(Ingress(stream=f"scored {first}", instance=first, supply=Bridged()),),
            slots=slots,
            deliveries=(delivery(first + 2, f"scores {first}"),),
            pace=pace,
            shards=shards,
        )
        bed.run(self.plan)
        bed.sender.forward(self._stream, epoch=1, first=0, kept=self._kept)

    def send(self, events: int) -> None:
        """Send the next events."""
        for _ in range(events // PIECE):
            first, self.sent = self.sent, self.sent + PIECE
            self.bed.sender.emit(self._stream, Emitted(first=first, events=self._payments(first)))

    def outputs(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """When each output came, and the output."""
        for message in self.bed.outputs[self.plan.job]:
            yield from ((message.at, event) for event in json.loads(message.payload)["events"])

    def came(self) -> int:
        """How many outputs came since the job began; their numbers have no gaps."""
        if not (messages := self.bed.outputs[self.plan.job]):
            return 0
        last = json.loads(messages[-1].payload)
        return int(last["first"]) + len(last["events"])

    def work_off(self, events: int) -> float:
        """Send events and wait until all have come; the events per second from the first output message to the last."""
        messages = self.bed.outputs[self.plan.job]
        messages.clear()
        self.send(events)
        self.bed.wait(lambda: self.came() >= self.sent)
        return events / (messages[-1].at - messages[0].at)

    def become(self, shards: int) -> float:
        """Change the number of shards; the milliseconds from the request until the host says that it is in effect."""
        self.plan = replace(self.plan, shards=shards, version=self.plan.version + 1)
        begun = time.monotonic()
        self.bed.run(self.plan)
        return (time.monotonic() - begun) * 1_000

    def end(self) -> None:
        """End the job, and forget what came."""
        self.bed.end(self.plan.job)
        self.bed.outputs[self.plan.job].clear()

    def _kept(self, number: int) -> Iterator[Emitted]:
        for first in range(number, self.sent, PIECE):
            yield Emitted(first=first, events=self._payments(first))

    def _payments(self, first: int) -> pa.RecordBatch:
        numbers = range(first, first + PIECE)
        return pa.record_batch(
            {
                # Neighbours have users far apart.
                "user": [number * 7_919 % self._users for number in numbers],
                "amount": [float(number % 97) for number in numbers],
                "sent": [time.time()] * PIECE,
            }
        )
