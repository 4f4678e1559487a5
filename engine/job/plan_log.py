"""The log of a job's plans: whether a new one can be logged, which are in effect, and where streams begin.

**The start.** An instance comes from another job with its state at a cut there. Or it returns: it left this job at a
cut, and no other job took it over. A plan that returns instances need not know how far the job is. If the job has not
come to the cut, or has come to it without giving the instances up, they go on as they are.

**The division.** `dags.dataflow` says how each connected part of a plan is divided over shards, by what its tasks
keep: by key, by position, or not at all. Then the whole part belongs to one shard. A task whose key is made on the way
needs its events exchanged. Streams between jobs do that: behind a bridge the key is in what enters.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from dags import Catalogue
from dags.dataflow import DividedBy, TaskKeeping, divisibility, evenly, shard_of_whole
from engine.catalogue import installed_catalogue
from engine.offset import Offset
from engine.plan import UNDIVIDED, Division, Entry, Plan, Slot, StreamDivision
from engine.plan_messages import RefusedPlan
from engine.records.files import Header
from engine.records.job_folder import JobFolder, KeptCut
from engine.records.store import RecordStore

_NOTHING: Mapping[str, int] = {}


class JobProgress(NamedTuple):
    """How far a job is when a plan is logged; no batch is decided meanwhile."""

    at: Mapping[str, int]
    ran: Plan | None
    decided: Offset | None
    """The last end that was decided, if it is known; its batch may not be recorded yet."""


def returning(kept: Iterable[KeptCut], plan: Plan) -> dict[int, KeptCut]:
    """For each instance that a plan returns from a cut of its own job, the part of the cut that it is in."""
    wanted = {state.instance: state.cut for state in plan.imports if state.job == plan.job}
    parts: dict[int, KeptCut] = {}
    for cut in kept:
        for instance in cut.instances:
            if wanted.get(instance) == cut.name:
                parts.setdefault(instance, cut)
    return parts


def check_return(plan: Plan, back: Mapping[int, KeptCut], standing: JobProgress) -> None:
    """Refuse a plan that returns an instance whose stream the job has read past the cut, for other instances."""
    here = standing.ran.instances if standing.ran is not None else frozenset()
    streams_of = {instance: part.streams for part in plan.parts() for instance in part.instances}
    for instance, cut in sorted(back.items()):
        if instance in here:
            continue
        # Other parts may have been cut in the same batch.
        for stream in sorted(streams_of.get(instance, frozenset()) & cut.positions.keys()):
            if standing.at.get(stream, cut.positions[stream]) != cut.positions[stream]:
                raise RefusedPlan(
                    f"instance {instance} left job {plan.job!r} at the cut {cut.name!r}, with {stream!r} at "
                    f"{cut.positions[stream]}, and the job has read that on to {standing.at[stream]} for others; "
                    "let all that reads one stream leave together"
                )


def past_gone(entry: Entry, gone: Mapping[str, int]) -> Entry:
    """An entry that begins each stream after the events that were removed while the job was stopped."""
    if not gone:
        return entry
    return replace(entry, starts={stream: max(at, gone.get(stream, 0)) for stream, at in entry.starts.items()})


def start_positions(
    plan: Plan, starts: Mapping[str, int], standing: JobProgress, latest: Mapping[str, int] = _NOTHING
) -> dict[str, int]:
    """The position that each stream begins at; `starts` are for new streams, and `latest` are of the entry before."""
    # A plan names a position if it takes it that the job has left the stream. If that is not sure, it may not have.
    named = {ingress.stream for ingress in plan.ingress if ingress.start is not None}
    sure = named - standing.decided.at.keys() if standing.decided is not None else frozenset()
    return {
        stream: start if stream in latest or stream in sure else standing.at.get(stream, start)
        for stream, start in starts.items()
    }


def divided(plan: Plan, catalogue: Catalogue) -> Division:
    """The division of a plan over its shards."""
    if plan.shards == 1:
        return UNDIVIDED
    tasks = {slot.instance: _keeping(slot, catalogue) for slot in plan.slots}
    streams: dict[str, StreamDivision] = {}
    # A paused task takes no events, so it is in no part. Its state stays where it is.
    whole = {instance: 0 for instance, task in tasks.items() if task is None or task.key is None}
    for part in plan.parts():
        part_divided = divisibility({instance: tasks[instance] for instance in part.instances & tasks.keys()})
        shard = shard_of_whole(part.instances, plan.shards) if part_divided.by is DividedBy.NOTHING else 0
        streams.update(
            dict.fromkeys(part.streams, StreamDivision(by=part_divided.by, key=part_divided.key, shard=shard))
        )
        if part_divided.by is DividedBy.NOTHING:
            whole.update(dict.fromkeys(part.instances & tasks.keys(), shard))
    for change in plan.changes:
        # The state that a fork takes over has to be where the fork is.
        if change.source is not None and change.source not in tasks and change.instance in whole:
            whole[change.source] = whole[change.instance]
    return Division(
        shards=plan.shards,
        groups=plan.groups or evenly(plan.shards),
        streams=streams,
        keyed=frozenset(tasks.keys() - whole.keys()),
        whole=whole,
    )


def _keeping(slot: Slot, catalogue: Catalogue) -> TaskKeeping | None:
    """What the task of a slot keeps; None if its type is not known here."""
    kind = catalogue.find(slot.type)
    if kind is None or kind.version != slot.version:
        return None
    config = kind.config.model_validate_json(slot.config)
    return TaskKeeping.of(kind, config, (edge.parent for edge in slot.inputs))


_types = cache(installed_catalogue)
"""Found when they are needed, which they are on few hosts, since jobs with one shard do not need them."""


class PlanLog:
    """The plans of one job, on disk and in memory; changed only from the host's main thread."""

    def __init__(self, folder: JobFolder, store: RecordStore) -> None:
        self._folder = folder
        self._store = store
        self.entries: Sequence[Entry] = folder.entries(1)
        """The entries that are left; the list is replaced and never changed, because other threads read it."""

    @property
    def latest(self) -> Entry | None:
        """The last entry, even if it is not in effect yet."""
        return self.entries[-1] if self.entries else None

    @property
    def plan(self) -> Plan | None:
        """The plan of the last entry."""
        return self.entries[-1].plan if self.entries else None

    def is_new(self, plan: Plan) -> bool:
        """Whether a plan is newer than the latest; refused if its maker does not lead any more."""
        latest = self.plan
        if latest is not None and plan.term < latest.term:
            raise RefusedPlan(
                f"the plan is of term {plan.term}, and job {plan.job!r} follows term {latest.term} already"
            )
        return latest is None or (plan.term, plan.version) > (latest.term, latest.version)

    def check(self, plan: Plan, *, decided: Offset | None, decided_cuts: AbstractSet[str]) -> JobProgress:
        """The standing of the job for a plan, which is refused if it would take effect before what was decided."""
        past = {cut.name for cut in self._folder.cuts.all()} | decided_cuts
        if plan.at_cut in past - (decided.cuts.keys() if decided else set()):
            raise RefusedPlan(
                f"the plan is to take effect at the cut {plan.at_cut!r}, which is past in job {plan.job!r}; "
                "take another"
            )
        at = decided.at if decided else self.positions()
        for stream, position in plan.at.items():
            if at.get(stream, 0) > position:
                raise RefusedPlan(
                    f"the plan is to take effect at {stream!r} {position}, and job {plan.job!r} is at {at[stream]} "
                    "already; choose a later position"
                )
        standing = self._standing(decided)
        check_return(plan, returning(self._folder.cuts.all(), plan), standing)
        return standing

    def append(
        self, plan: Plan, standing: JobProgress, starts: Mapping[str, int], behaviours: Mapping[str, str]
    ) -> None:
        """Make a plan that was checked the next entry; `starts` are for streams that the job does not read yet."""
        number, latest = (self.entries[-1].number, self.entries[-1].starts) if self.entries else (0, {})
        entry = Entry(
            number=number + 1,
            plan=plan,
            starts=start_positions(plan, starts, standing, latest),
            behaviours=behaviours,
            division=UNDIVIDED if plan.shards == 1 else divided(plan, _types()),
        )
        self._folder.log(entry)
        self.entries = [*self.entries, entry]

    def since(self, number: int) -> list[Entry]:
        """The entries from a number on; from any thread."""
        return [entry for entry in self.entries if entry.number >= number]

    def in_effect(self) -> list[Entry]:
        """The entry that the last record ran, and those that wait behind it."""
        last = self._last()
        return self.since(last.end.entry if last else 1)

    def positions(self) -> Mapping[str, int]:
        """How far the job has read each stream, by its records."""
        last = self._last()
        return last.end.at if last else {}

    def reads(self, stream: str, in_effect: int) -> bool:
        """Whether a plan since one in effect reads a stream; from any thread."""
        for entry in reversed(self.entries):
            # Until the latest plan takes effect the one before it runs, and there may be a cut between them.
            # Called whenever any spool grows, so it builds no set.
            if any(ingress.stream == stream for ingress in entry.plan.ingress):
                return True
            if entry.number <= in_effect:
                break
        return False

    def forget(self, before: int) -> None:
        """Remove entries that no batch runs again."""
        if self.entries and self.entries[0].number < before:
            self._folder.forget_entries(before)
            self.entries = self.since(before)

    def _standing(self, decided: Offset | None) -> JobProgress:
        last = self._last()
        return JobProgress(
            last.end.at if last else {}, self._folder.entry(last.end.entry).plan if last else None, decided
        )

    def _last(self) -> Header | None:
        batches = self._store.batches()
        return self._store.file(batches[-1]).header if batches else None
