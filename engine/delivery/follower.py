"""The follower of a job: takes up its records one by one, and has their contents forwarded and published.

Only the follower knows what has left the job for good. So it also says what may be removed: records that no consumer
can ask for any more, and events that the spools need not keep for this job.
"""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.files import write_whole
from bridge.sender import Sender
from bridge.sparkplug_nodes import SparkplugNodes
from engine.delivery.forwarder import JobForwarder
from engine.delivery.latencies import DataflowOutput
from engine.delivery.publisher import JobPublisher, LeftOutSoFar
from engine.plan import Plan
from engine.records.files import Header, damage_named
from engine.records.job_folder import JobFolder, KeptCut
from engine.records.record import InstanceMeter
from engine.records.store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies

REWIND = 3
"""How many batches Spark may go back at most, with room to spare."""
MOST_UNSENT = 64_000_000
"""Bytes of outputs and dead letters of one job that the broker may not have confirmed yet."""


@dataclass(kw_only=True)
class FollowedSoFar:
    """The sum of the records that were followed so far."""

    batch: int = -1
    entry: int = 0
    """The entry of the log of plans that it ran."""
    positions: Mapping[str, int] = field(default_factory=dict)
    meters: dict[int, InstanceMeter] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    """For each stream how many of its positions were processed."""
    left: int = 0
    """How many events left the job, over all streams."""
    shards: Counter[int] = field(default_factory=Counter)
    """The CPU in nanoseconds of each shard, over the batches that had several."""
    grouped: Counter[int] = field(default_factory=Counter)
    """How many events of each key group such batches took."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """The bytes of each state after the last batch, but for small ones."""


class Follower:
    """Follows one job's records; called from one thread of the host."""

    def __init__(  # noqa: PLR0913 - what it reads, where it sends to, whom it notifies, and the run and its clock are six things
        self,
        folder: JobFolder,
        store: RecordStore,
        sender: Sender,
        *,
        run: int,
        clock: Callable[[], float] = time.time,
        on_record: Callable[[Header, Plan], None] = lambda _header, _plan: None,
        copies: Copies = NO_COPIES,
        nodes: SparkplugNodes | None = None,
    ) -> None:
        """`on_record` is called with each record, and the plan that its batch ran."""
        self._folder = folder
        self._store = store
        self.run = run
        """The number of this start of the job, counted from 1."""
        self.so_far = FollowedSoFar()
        self._on_record = on_record
        self._copies = copies
        self.waits_for_copies = False
        """Whether there is a record that is not at all peers yet."""
        self._headers: deque[Header] = deque()
        self.forwarder = JobForwarder(store, sender, run=run)
        self._publisher = JobPublisher(sender, run=run, clock=clock, nodes=nodes)
        self.latencies = self._publisher.latencies
        """The ages of outputs when the broker had them."""
        self._noted: dict[str, Any] = {}
        self._left_before = 0
        """The batch before which nothing leaves again: so it is on disk, and at all peers."""
        self._gone = folder.gone()
        self._resume()

    def follow(self) -> list[Header]:
        """Follow new records, but none while the broker is behind: what is not sent yet is held in memory."""
        followed: list[Header] = []
        self._publisher.settle()
        self.waits_for_copies = False
        while self._publisher.waiting_bytes < MOST_UNSENT:
            if (file := self._store.find(self.so_far.batch + 1)) is None:
                break
            # Nobody may see what would be lost with this machine.
            if not self._copies.has(file.path):
                self.waits_for_copies = True
                break
            header = file.header
            plan, emitted, dead = self._folder.entry(header.end.entry).plan, file.emitted(), file.dead()
            for cut in header.cuts:
                self._folder.cuts.keep(KeptCut(cut.name, header.batch, cut.instances, cut.positions))
            # Everything that can fail is done by now, so that a record is followed completely or not at all.
            self._note(header)
            self._advance(header)
            self.forwarder.take(header, plan, emitted)
            self._publisher.publish(header.batch, plan, emitted)
            self._publisher.publish_dead_letters(header.batch, dead)
            followed.append(header)
            self._on_record(header, plan)
        return followed

    @property
    def left_out(self) -> Mapping[DataflowOutput, LeftOutSoFar]:
        """The outputs whose format or topic could not say some events since this start."""
        return dict(self._publisher.left_out)

    @property
    def first_unsent(self) -> int:
        """The first batch of which something may still have to be sent."""
        return self._publisher.first_unsent(self.so_far.batch + 1)

    def has_left(self) -> bool:
        """Whether it is done, so that nothing leaves again, even if this host or machine is lost."""
        return self.is_done() and self._left_before > self.so_far.batch

    def oldest_leaving_entry(self) -> int:
        """The oldest entry of the log of plans whose outputs may leave, even after a crash; 0 if there is no record."""
        # Later batches never run an older plan.
        unsent = (header.end.entry for header in self._headers if header.batch >= self._left_before)
        return next(unsent, self.so_far.entry)

    def first_not_handed_on(self) -> int:
        """The first batch of which a job that reads on over a bridge may still lack something in its spool."""
        return min(self.forwarder.needed_batches(), default=self.so_far.batch + 1)

    def is_done(self) -> bool:
        """Whether every record was followed, and everything for tenants has left."""
        return self.first_unsent > self.so_far.batch and self._store.batches().stop <= self.so_far.batch + 1

    def tidy(self) -> None:
        """Write the progress to disk, and remove records that are no longer needed."""
        self.forwarder.forget_confirmed()
        path = self._folder.path / "published"
        progress = {"batch": self.first_unsent, **self.forwarder.state()}
        # As it was since the last time, before it is another file that no peer has yet.
        self._settle_left(path)
        if progress != self._noted:
            write_whole(path, json.dumps(progress).encode())
            self._noted = progress
            self._settle_left(path)
        self._store.prune(self._oldest_needed())

    def _settle_left(self, path: Path) -> None:
        if self._copies.has(path):
            self._left_before = int(self._noted["batch"])

    def needed_from(self) -> dict[str, int]:
        """For each stream the position from which this job may still need its events."""
        if (oldest := self._oldest_to_run()) is None:
            return {}
        needed = dict(oldest.start.at)
        for cut in self._folder.cuts.all():
            for stream, position in cut.positions.items():
                needed[stream] = min(needed.get(stream, position), position)
        return needed

    def oldest_entry_to_run(self) -> int:
        """The oldest entry of the log of plans that Spark may still run."""
        return 0 if (oldest := self._oldest_to_run()) is None else oldest.start.entry

    def _oldest_to_run(self) -> Header | None:
        """The oldest record whose batch Spark may run again."""
        return next((header for header in self._headers if header.batch > self.so_far.batch - REWIND), None)

    def oldest_recorded_entry(self) -> int:
        """The oldest entry of the log of plans that any record begins with; 0 if there is none yet."""
        return self._headers[0].start.entry if self._headers else 0

    def _oldest_needed(self) -> int:
        """The oldest batch whose record has to stay."""
        batches = [self.first_unsent, self.so_far.batch - REWIND]
        bases = {header.batch: header.base for header in self._headers}
        batches += [base for batch, base in bases.items() if batch >= self.so_far.batch - REWIND]
        batches += [bases.get(cut.batch, cut.batch) for cut in self._folder.cuts.all()]
        batches += self.forwarder.needed_batches()
        oldest = max(0, min(batches))
        while self._headers and self._headers[0].batch < oldest:
            self._headers.popleft()
        return oldest

    def _resume(self) -> None:
        """Continue where the last run was: what may not have left leaves again, with the same numbers."""
        path = self._folder.path / "published"
        self._noted = {"batch": 0, "opened": [], "closing": []}
        with damage_named(path):
            if path.exists():
                self._noted = json.loads(path.read_bytes())
            begin = int(self._noted["batch"])
            self.forwarder.restore_numbers(self._noted)
        self.so_far.batch = begin - 1
        for batch in self._store.batches():
            # Those that `follow` takes up are read too: if one is missing, it would wait for that one for ever.
            header = self._store.file(batch).header
            if batch < begin:
                self._note(header)
        plan: Plan | None = None
        if self._headers:
            last = self._headers[-1]
            self.so_far.entry, self.so_far.positions = last.end.entry, last.end.at
            self.so_far.sizes = last.sizes
            plan = self._folder.entry(last.end.entry).plan
        self.forwarder.resume(begin - 1, self._noted, plan)

    def _note(self, header: Header) -> None:
        self._headers.append(header)
        self.forwarder.note(header)

    def _advance(self, header: Header) -> None:
        """Add a record to the sum. At the start of a run or a plan a batch has no events and may jump ahead."""
        so_far = self.so_far
        so_far.batch, so_far.entry, so_far.positions = header.batch, header.end.entry, header.end.at
        so_far.sizes = header.sizes
        for instance, meter in header.meters.items():
            so_far.meters[instance] = so_far.meters.get(instance, InstanceMeter()) + meter
        if (header.start.run, header.start.entry) == (header.end.run, header.end.entry):
            for stream, end in header.end.at.items():
                # A batch that was planned before some of its events were removed has only the others.
                begin = max(header.start.at.get(stream, end), self._gone.get(stream, 0))
                so_far.entered[stream] = so_far.entered.get(stream, 0) + max(0, end - begin)
        so_far.grouped.update(header.grouped)
        so_far.shards.update({shard: part.cpu_ns for shard, part in enumerate(header.shards)})
        so_far.left += sum(emitted.count for emitted in header.emitted if not emitted.marker)
