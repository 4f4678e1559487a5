"""The twin of a job: the same plans, pace, kernel and records in one process, without Spark.

It makes tests fast, and its results can be compared with those of a real job. It proves nothing about Spark.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bridge import SpoolIndex
from dags import Catalogue
from engine.catalogue import installed_catalogue
from engine.job.pace import NextBatch, ReadableSpool, next_batch
from engine.job.plan_log import divided
from engine.kernel.batch_rows import arriving
from engine.kernel.entering_events import Portion
from engine.kernel.worker import Worker
from engine.offset import Offset, Span
from engine.plan import Entry, Plan
from engine.records.job_folder import job_folder, spool_folder
from engine.records.store import RecordStore


class TwinJob:
    """A job that runs a batch on request. It has no clock."""

    def __init__(
        self, root: Path, name: str, behaviours: Mapping[str, str], catalogue: Catalogue | None = None
    ) -> None:
        """`catalogue` has the task types by which work is divided; by default, those that are installed."""
        self._catalogue = installed_catalogue() if catalogue is None else catalogue
        self._root = root
        self._name = name
        self._behaviours = behaviours
        self._folder = job_folder(root, name)
        self._folder.make()
        self.store = RecordStore(self._folder.records)
        self._readers: dict[str, SpoolIndex] = {}
        self._run = self._folder.begin_run()
        self._worker = Worker(root, name)
        batches = self.store.batches()
        self.batch = batches.stop
        self.offset = self.store.file(batches[-1]).header.end if batches else Offset()

    def log(self, plan: Plan, starts: Mapping[str, int] | None = None) -> Entry:
        """Make a plan the next entry of the log. Streams begin at `starts`, else at their first position."""
        entries = self._folder.entries(1)
        known = {**dict.fromkeys(plan.streams, 0), **(starts or {}), **(entries[-1].starts if entries else {})}
        entry = Entry(
            number=entries[-1].number + 1 if entries else 1,
            plan=plan,
            starts={stream: known[stream] for stream in sorted(plan.streams)},
            behaviours=self._behaviours,
            division=divided(plan, self._catalogue),
        )
        self._folder.log(entry)
        return entry

    def step(self) -> bool:
        """Run the next batch; False if there is nothing to do."""
        entries = self._folder.entries(max(1, self.offset.entry))
        # A batch that may have been begun ends where it was to end.
        end = self.store.ends.find(self.batch) or self._next(entries).end
        if end == self.offset:
            return False
        self.store.ends.keep(self.batch, end)
        entry = self._folder.entry(end.entry)
        span = Span(self.offset, end)
        for shard in range(end.shards):
            items = list(arriving(self._root, entry, span, portion=Portion(division=entry.division, shard=shard)))
            self._worker.work_off(self.batch, span, items, shard)
        # It may have ended early for some streams.
        self.batch, self.offset = self.batch + 1, self.store.file(self.batch).header.end
        return True

    def settle(self) -> None:
        """Run batches until there is nothing to do."""
        while self.step():
            pass

    def _next(self, entries: Sequence[Entry]) -> NextBatch:
        streams = {stream for entry in entries for stream in entry.plan.streams}
        readers: dict[str, ReadableSpool] = {}
        for stream in streams:
            reader = self._readers.setdefault(stream, SpoolIndex(spool_folder(self._root, stream)))
            reader.refresh()
            readers[stream] = reader
        return next_batch(self.offset, run=self._run, entries=entries, spools=readers)
