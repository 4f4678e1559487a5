"""The log of a job's plans: which plans it has, which of them are in effect, and whether a new one can be logged."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from dags import Catalogue
from engine.catalogue import installed_catalogue
from engine.division import UNDIVIDED
from engine.job.start import JobProgress, check_return, returning, start_positions
from engine.offset import Offset
from engine.plan import Entry, Plan
from engine.plan_division import divided
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import JobFolder
from engine.records.record_header import Header
from engine.records.record_store import RecordStore


@cache
def _types() -> Catalogue:
    """The installed task types; few hosts need them, since jobs with one shard do not."""
    return installed_catalogue()


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
        """The latest plan, even if it is not in effect yet."""
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
        """Refuse a plan that would take effect in the past; the standing of the job that it is logged at.

        `decided` is the last end of a batch that was decided, and `decided_cuts` are all cuts that were.
        """
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
        if last is None:
            return JobProgress({}, None, decided)
        return JobProgress(last.end.at, self._folder.entry(last.end.entry).plan, decided)

    def _last(self) -> Header | None:
        batches = self._store.batches()
        return self._store.file(batches[-1]).header if batches else None
