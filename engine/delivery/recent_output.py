"""The latest events of an output, read from its job's records: at least the last batches, and often more."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from bridge.output_messages import event_texts, output_message
from engine.delivery.publisher import run_epoch
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder
from engine.records.record_store import RecordStore


def recent_output(folder: JobFolder, dataflow: str, sink: str, most: int) -> Iterator[bytes]:
    """The latest messages of an output, oldest first, with at least `most` events if there are as many.

    A record that cannot be read ends the search: its host may be removing it.
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
                epoch = run_epoch(delivery.epoch, file.header.end.run)
                for left in file.emitted(delivery.origin):
                    if left.events is not None:
                        messages += [
                            payload for _, payload in output_message(sink, epoch, left.first, event_texts(left.events))
                        ]
                        events += left.count
            found.appendleft(messages)
    for messages in found:
        yield from messages
