"""What a Spark worker does with a batch: nothing if its record is there, else run the kernel and write the record.

Spark gives a job's batches to whichever process is free, so each keeps the state of the jobs it has met and catches up
from their records.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from engine.behaviour import Behaviour, behaviours_of
from engine.host_outside import HostOutside
from engine.job.start import brought
from engine.kernel.batch import Arrived, run_batch
from engine.kernel.batch_rows import Span
from engine.kernel.dead_letter_feed import news
from engine.kernel.watchdog import Attempt
from engine.plan import Entry, Import
from engine.records.job_folder import KeptCut, job_folder
from engine.records.record import Table
from engine.records.record_store import RecordStore
from engine.records.state import InstanceStates


class WrongRecord(RuntimeError):
    """A batch has a record that answers another range of its streams."""


class Worker:
    """One job, as one process works for it."""

    def __init__(self, root: Path, job: str) -> None:
        self._root = root
        self._folder = job_folder(root, job)
        self._store = RecordStore(self._folder.records)
        self._state: InstanceStates | None = None
        self._outside = HostOutside(root)
        self._made_at = self._folder.made_at()
        self._made_of: object = None
        self._behaviours: dict[int, Behaviour] = {}

    def work_off(self, batch: int, span: Span, items: Sequence[Arrived]) -> bool:
        """Make the record of a batch; False where it was there."""
        if (found := self._store.find(batch)) is not None:
            if (found.header.start, found.header.end) != span:
                raise WrongRecord(
                    f"batch {batch} in {self._folder.path} was recorded for other positions than Spark's checkpoint "
                    "names; restore the checkpoint and the records from one backup"
                )
            return False
        entry = self._folder.entry(span.end.entry)
        state = self._state_before(batch)
        with Attempt(self._folder.attempts, batch, entry.plan.limits) as attempt:
            record = run_batch(
                batch,
                entry,
                span.start,
                span.end,
                items,
                state,
                self._made(entry, attempt),
                imports=self._imports(span),
                feeds=news(self._begun(span), self._folder.entry(span.start.entry) if span.start.entry else None),
                attempt=attempt,
                deployment=self._outside.deployment,
            )
            # Until the record is there the state is ahead of what is durable.
            self._state = None
            if self._store.write(state.settle(record)):
                self._state = state
        return True

    def is_over(self) -> bool:
        """Whether the job was stopped, or its name is another one's by now."""
        return self._folder.is_stopped() or self._folder.made_at() != self._made_at

    def _state_before(self, batch: int) -> InstanceStates:
        if self._state is None or self._state.version >= batch:
            return self._store.state(batch)
        self._state.discard()
        self._store.catch_up(self._state, batch)
        return self._state

    def _made(self, entry: Entry, attempt: Attempt) -> dict[int, Behaviour]:
        # A secret that is put anew reaches its task without a new plan.
        wanted = (entry.number, self._outside.version)
        if wanted != self._made_of:
            # Within the attempt, because what is imported may kill the worker too.
            self._behaviours = behaviours_of(entry.plan.active, entry.behaviours, attempt, self._outside)
            self._made_of = wanted
        return self._behaviours

    def _imports(self, span: Span) -> list[Table]:
        """What instances bring along that begin in this batch."""
        before = self._folder.entry(span.start.entry).plan if span.start.entry else None
        return list(imported(self._root, brought(self._begun(span), before)))

    def _begun(self, span: Span) -> Iterator[Entry]:
        """The entries of the log that take effect in a batch, be it that all but the last are passed over."""
        return (self._folder.entry(number) for number in range(span.start.entry + 1, span.end.entry + 1))


def imported(root: Path, wanted: Iterable[Import]) -> Iterator[Table]:
    """The states of instances at cuts of other jobs; those of one cut together, because the same records hold them."""
    for (job, batch), each in _by_batch(root, wanted).items():
        yield RecordStore(job_folder(root, job).records).state_at(batch, each)


def check_imports(root: Path, wanted: Iterable[Import]) -> None:
    """See whether all states are kept that are to be brought along."""
    _by_batch(root, wanted)


class NoCut(LookupError):
    """A cut's states are not kept."""


def _by_batch(root: Path, wanted: Iterable[Import]) -> dict[tuple[str, int], set[int]]:
    """For each job, and each of its batches after which there was a cut, whose states are wanted."""
    kept: dict[str, list[KeptCut]] = {}
    found: dict[tuple[str, int], set[int]] = {}
    for each in wanted:
        if each.job not in kept:
            kept[each.job] = job_folder(root, each.job).kept_cuts()
        parts = (cut for cut in kept[each.job] if cut.name == each.cut and each.instance in cut.instances)
        if (part := next(parts, None)) is None:
            raise NoCut(f"job {each.job!r} keeps no state of instance {each.instance} at the cut {each.cut!r}")
        found.setdefault((each.job, part.batch), set()).add(each.instance)
    return found
