"""The worker of a job: it runs the kernel for a batch and writes the record, unless the record exists.

Spark gives a job's batches to any free process. So each process keeps the states of its jobs, and catches up from their
records.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from engine.behaviour import Behaviour, behaviours_of
from engine.host_outside import HostOutside
from engine.kernel.batch import Arrived, run_batch
from engine.kernel.batch_rows import Span
from engine.kernel.dead_letter_feed import new_feeds
from engine.kernel.state_imports import brought
from engine.kernel.watchdog import Attempt
from engine.plan import Entry, StateImport
from engine.records.job_folder import job_folder
from engine.records.kept_cuts import KeptCut
from engine.records.record import Table
from engine.records.record_store import RecordStore
from engine.records.state import InstanceStates


class WrongRecord(RuntimeError):
    """The record of a batch covers other positions than the batch."""


class Worker:
    """The work of one process for one job."""

    def __init__(self, root: Path, job: str) -> None:
        self._root = root
        self._folder = job_folder(root, job)
        self._store = RecordStore(self._folder.records)
        self._state: InstanceStates | None = None
        self._outside = HostOutside(root)
        self._made_at = self._folder.made_at()
        self._behaviours_version: object = None
        self._behaviours: dict[int, Behaviour] = {}

    def work_off(self, batch: int, span: Span, items: Sequence[Arrived]) -> bool:
        """Make the record of a batch; False if it existed."""
        if (found := self._store.find(batch)) is not None:
            if (found.header.start, found.header.end) != span:
                raise WrongRecord(
                    f"the record of batch {batch} in {self._folder.path} has other positions than Spark's checkpoint; "
                    "restore the checkpoint and the records from the same backup"
                )
            return False
        entry = self._folder.entry(span.end.entry)
        begun = list(self._begun(span))
        state = self._state_before(batch)
        with Attempt(self._folder.attempts, batch, entry.plan.limits) as attempt:
            record = run_batch(
                batch,
                entry,
                span.start,
                span.end,
                items,
                state,
                self._made_behaviours(entry, attempt),
                imports=self._imports(span, begun),
                begun=begun,
                feeds=new_feeds(begun, self._folder.entry(span.start.entry) if span.start.entry else None),
                attempt=attempt,
                deployment=self._outside.deployment,
            )
            # Until the record is written, the state is ahead of the durable one.
            self._state = None
            if self._store.write(state.settle(record)):
                self._state = state
        return True

    def is_over(self) -> bool:
        """True if the job was stopped, or another job has its name now."""
        return self._folder.is_stopped() or self._folder.made_at() != self._made_at

    def _state_before(self, batch: int) -> InstanceStates:
        if self._state is None or self._state.version >= batch:
            return self._store.state(batch)
        self._state.discard()
        self._store.catch_up(self._state, batch)
        return self._state

    def _made_behaviours(self, entry: Entry, attempt: Attempt) -> dict[int, Behaviour]:
        # A changed secret reaches its task without a new plan.
        wanted = (entry.number, self._outside.version)
        if wanted != self._behaviours_version:
            # Within the attempt, because an import may kill the worker too.
            self._behaviours = behaviours_of(entry.plan.active, entry.behaviours, attempt, self._outside)
            self._behaviours_version = wanted
        return self._behaviours

    def _imports(self, span: Span, begun: Sequence[Entry]) -> list[Table]:
        """The states of the instances that begin in this batch with state from elsewhere."""
        before = self._folder.entry(span.start.entry).plan if span.start.entry else None
        return list(imported(self._root, brought(begun, before)))

    def _begun(self, span: Span) -> Iterator[Entry]:
        """The entries of the log that take effect in a batch, even if all but the last are skipped."""
        return (self._folder.entry(number) for number in range(span.start.entry + 1, span.end.entry + 1))


def imported(root: Path, wanted: Iterable[StateImport]) -> Iterator[Table]:
    """The states of instances at cuts of other jobs. Those of one cut are read together, from the same records."""
    for (job, batch), each in _by_batch(root, wanted).items():
        yield RecordStore(job_folder(root, job).records).state_at(batch, each)


def check_imports(root: Path, wanted: Iterable[StateImport]) -> None:
    """Check that all states to import are kept. Raises `NoCut`."""
    _by_batch(root, wanted)


class NoCut(LookupError):
    """The states of a cut are not kept."""


def _by_batch(root: Path, wanted: Iterable[StateImport]) -> dict[tuple[str, int], set[int]]:
    """The instances whose states are wanted, by job and by the batch of the cut."""
    kept: dict[str, list[KeptCut]] = {}
    found: dict[tuple[str, int], set[int]] = {}
    for each in wanted:
        if each.job not in kept:
            kept[each.job] = job_folder(root, each.job).cuts.all()
        parts = (cut for cut in kept[each.job] if cut.name == each.cut and each.instance in cut.instances)
        if (part := next(parts, None)) is None:
            raise NoCut(f"job {each.job!r} keeps no state of instance {each.instance} at the cut {each.cut!r}")
        found.setdefault((each.job, part.batch), set()).add(each.instance)
    return found
