"""The worker of a job: it runs the kernel for a batch and writes the record, unless the record exists.

Spark gives a job's batches to any free process. So each process keeps the states of its jobs, and catches up from their
records.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from engine.behaviour import Behaviour, behaviours_of
from engine.kernel.batch import Arrived, BatchTime, run_batch
from engine.kernel.entering_events import Portion, new_feeds
from engine.kernel.part_times import RUN_TASKS, PartTimes
from engine.kernel.plans import brought
from engine.kernel.task_bounds import EventCost
from engine.kernel.watchdog import Attempt
from engine.offset import Span
from engine.outside import HostOutside
from engine.plan import Division, Entry, StateImport
from engine.port_events import PortSampling
from engine.records.files import Header, RecordFile, has_read_beyond
from engine.records.job_folder import KeptCut, job_folder
from engine.records.record import Table
from engine.records.state import InstanceStates, ShardStates
from engine.records.store import RecordStore


class WrongRecord(RuntimeError):
    """The record of a batch covers other positions than the batch."""


class _Kept(NamedTuple):
    """The state of a shard, and the division that says which part it is."""

    state: InstanceStates
    division: Division
    repeats: int
    """How often the shard had run the last batch before."""


class Worker:
    """The work of one process for one job."""

    def __init__(self, root: Path, job: str) -> None:
        self._root = root
        self._folder = job_folder(root, job)
        self._store = RecordStore(self._folder.records)
        self._kept: dict[int, _Kept] = {}
        """The state of each shard that this process has worked for."""
        self._outside = HostOutside(root)
        self._made_at = self._folder.made_at()
        self._behaviours_version: object = None
        self._behaviours: dict[int, Behaviour] = {}
        self._costs: dict[int, EventCost] = {}
        """What an event of each instance cost in the last batch."""
        self._time = BatchTime()

    def work_off(  # noqa: PLR0913 - what a shard of a batch has, and who looks at it
        self,
        batch: int,
        span: Span,
        items: Sequence[Arrived],
        shard: int = 0,
        *,
        sampling: PortSampling | None = None,
        times: PartTimes | None = None,
    ) -> bool:
        """Make the record of a shard of a batch, and once all have theirs the whole; True if all have theirs.

        What is recorded already is not computed again, even if a worker that was taken for dead ended it elsewhere;
        unless others have ended early before the end of that.
        """
        if (whole := self._store.find(batch)) is not None:
            self._check(batch, whole, span)
            return True
        shards = span.end.shards
        before = self._store.find_shard(batch, shard) if shards > 1 else None
        if before is not None and not has_read_beyond(before.header, span.early):
            self._check(batch, before, span)
            return self._store.complete(batch, shards)
        repeats = 0 if before is None else before.header.repeats + 1
        entry = self._folder.entry(span.end.entry)
        portion = Portion(division=entry.division, shard=shard)
        # What a job with fewer shards than before keeps of the others is of no use any more.
        self._kept = {number: kept for number, kept in self._kept.items() if number < shards}
        begun = list(self._begun(span))
        with _part(times, "restore state"):
            state = self._state_before(batch, portion)
        with Attempt(self._folder.attempts_of(shard), batch, entry.plan.limits) as attempt:
            behaviours = self._made_behaviours(entry, attempt)
            # A shard that runs again has had time for more.
            time = None if repeats else self._time
            if time is not None:
                time.begin(entry.plan.batch_seconds)
            with _part(times, RUN_TASKS):
                record = run_batch(
                    batch,
                    entry,
                    span.start,
                    span.end,
                    items,
                    state,
                    behaviours,
                    imports=self._imports(span, begun),
                    begun=begun,
                    feeds=new_feeds(begun, self._folder.entry(span.start.entry) if span.start.entry else None),
                    attempt=attempt if times is None else times.watched(attempt),
                    deployment=self._outside.deployment,
                    outside=self._outside,
                    portion=portion,
                    costs=self._costs,
                    time=time,
                    early=span.early,
                    repeats=repeats,
                    # What it takes again was sampled before.
                    sampling=None if repeats else sampling,
                )
            # Until the record is written, the state is ahead of the durable one.
            self._kept.pop(shard, None)
            settled = state.settle(record)
            with _part(times, "write record"):
                is_kept = self._store.write(settled) if portion.is_all else self._store.write_shard(settled, shard)
            if is_kept:
                self._kept[shard] = _Kept(state, portion.division, repeats)
                return portion.is_all or self._store.complete(batch, shards)
        # Another worker was quicker, and its record counts.
        return self.work_off(batch, span, items, shard)

    def _check(self, batch: int, file: RecordFile, span: Span) -> None:
        header = file.header
        if header.start != span.start or any(at > span.end.at.get(stream, 0) for stream, at in header.end.at.items()):
            raise WrongRecord(
                f"the record of batch {batch} in {self._folder.path} covers other positions than the batch; "
                "restore the whole folder from one backup"
            )

    def is_over(self) -> bool:
        """True if the job was stopped, or another job has its name now."""
        return self._folder.is_stopped() or self._folder.made_at() != self._made_at

    def _state_before(self, batch: int, portion: Portion) -> InstanceStates:
        kept = self._kept.get(portion.shard)
        if kept is None or kept.state.version >= batch or isinstance(kept.state, ShardStates) == portion.is_all:
            if portion.is_all:
                return self._store.state(batch)
        elif not isinstance(kept.state, ShardStates):
            self._store.catch_up(kept.state, batch)
            return kept.state
        elif self._catches_up(kept.state, kept, batch, portion):
            return kept.state
        return self._store.shard_state(batch, portion.shard, portion.owns)

    def _catches_up(self, state: ShardStates, kept: _Kept, batch: int, portion: Portion) -> bool:
        """Bring the state of a shard to a batch from the records since; False if it is not what the shard has now."""
        division = kept.division

        def stays(header: Header) -> bool:
            nonlocal division
            before, division = division, self._folder.entry(header.end.entry).division
            return before.moves_nothing(division)

        return self._store.catch_up_shard(state, batch, stays, kept.repeats) and division.moves_nothing(
            portion.division
        )

    def _made_behaviours(self, entry: Entry, attempt: Attempt) -> dict[int, Behaviour]:
        # A changed secret reaches its task without a new plan.
        wanted = (entry.number, self._outside.version)
        if wanted != self._behaviours_version:
            # Within the attempt, because an import may kill the worker too.
            self._behaviours = behaviours_of(entry.plan.active, entry.behaviours, attempt, self._outside)
            self._behaviours_version = wanted
            self._costs, self._time = {}, BatchTime()
        return self._behaviours

    def _imports(self, span: Span, begun: Sequence[Entry]) -> list[Table]:
        """The states of the instances that begin in this batch with state from elsewhere."""
        before = self._folder.entry(span.start.entry).plan if span.start.entry else None
        return list(imported(self._root, brought(begun, before)))

    def _begun(self, span: Span) -> Iterator[Entry]:
        """The entries of the log that take effect in a batch, even if all but the last are skipped."""
        return (self._folder.entry(number) for number in range(span.start.entry + 1, span.end.entry + 1))


def _part(times: PartTimes | None, name: str) -> AbstractContextManager[None]:
    return nullcontext() if times is None else times.part(name)


def imported(root: Path, wanted: Iterable[StateImport]) -> Iterator[Table]:
    """The states of instances at cuts of other jobs. Those of one cut are read together, from the same records."""
    for (job, batch), instances in _by_batch(root, wanted).items():
        yield RecordStore(job_folder(root, job).records).state_at(batch, instances)


def check_imports(root: Path, wanted: Iterable[StateImport]) -> None:
    """Check that all states to import are kept. Raises `NoCut`."""
    _by_batch(root, wanted)


class NoCut(LookupError):
    """The states of a cut are not kept."""


def _by_batch(root: Path, wanted: Iterable[StateImport]) -> dict[tuple[str, int], set[int]]:
    """The instances whose states are wanted, by job and by the batch of the cut."""
    kept: dict[str, list[KeptCut]] = {}
    instances: dict[tuple[str, int], set[int]] = {}
    for wish in wanted:
        if wish.job not in kept:
            kept[wish.job] = job_folder(root, wish.job).cuts.all()
        parts = (cut for cut in kept[wish.job] if cut.name == wish.cut and wish.instance in cut.instances)
        if (part := next(parts, None)) is None:
            raise NoCut(f"job {wish.job!r} keeps no state of instance {wish.instance} at the cut {wish.cut!r}")
        instances.setdefault((wish.job, part.batch), set()).add(wish.instance)
    return instances
