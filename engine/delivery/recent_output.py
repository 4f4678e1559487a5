"""What left last at an output, as far as the records of its job still hold it: the last batches, and often more."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from bridge.events.output_messages import output_message
from engine.delivery.publisher import RUNS
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder
from engine.records.record_store import RecordStore


def recent_output(folder: JobFolder, dataflow: str, sink: str, most: int) -> Iterator[bytes]:
    """The messages with the last events of an output, so many at least where there are, the oldest first.

    Whatever cannot be read ends the look back: its host may be removing it.
    """
    store, found, events = RecordStore(folder.records), deque[list[bytes]](), 0
    with suppress(*DAMAGE):
        for batch in reversed(store.batches()):
            if events >= most:
                break
            file = store.file(batch)
            plan = folder.entry(file.header.end.entry).plan
            messages: list[bytes] = []
            for delivery in plan.deliveries:
                if (delivery.dataflow, delivery.sink) != (dataflow, sink):
                    continue
                epoch = delivery.epoch * RUNS + file.header.end.run
                for left in file.emitted(delivery.origin):
                    if left.events is not None:
                        told = output_message(sink, epoch, left.first, left.events)
                        messages += [payload for _, payload in told]
                        events += left.count
            found.appendleft(messages)
    for messages in found:
        yield from messages
