"""Feeds of dead letters: which can go to their tasks again, with the next plans of which jobs.

A plan brings what is fed, so it is as durable as the plan and is taken as often: once. It must stay small enough to be
sent and kept with each plan until it is taken, so a job has only so much of it on its way at a time.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.plan import Feed
from manager.committed.state import CommittedState
from manager.problem import Conflict, Forbidden, StateNotReady, Trouble
from manager.store.tables import DeadLetterRow
from merge import Instance, JobId

MOST_BYTES = 1_000_000
"""Bytes of events that a job may be fed at a time; a single letter may be a little larger."""
AGAIN = 2.0
"""Seconds after which it is worth asking for more."""


class Kept(NamedTuple):
    """A letter before its events are read: what decides whether they can be fed."""

    id: int
    instance: int


@dataclass(kw_only=True)
class DeadLetterReplay:
    """A replay of dead letters; filled from the oldest on."""

    state: CommittedState
    letters: list[DeadLetterRow] = field(default_factory=list)
    feeds: dict[JobId, list[Feed]] = field(default_factory=dict)
    full: set[JobId] = field(default_factory=set)
    left: int = 0
    trouble: Trouble | None = None
    """The reason why the first of those is left."""
    _bytes: dict[JobId, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """The number of events that are fed."""
        return sum(len(row.events) for row in self.letters)

    def leave(self, why: Trouble) -> None:
        """Leave a letter as it is."""
        self.left += 1
        self.trouble = self.trouble or why

    def add(self, rows: Iterable[DeadLetterRow]) -> None:
        """Take letters that can be fed, for as long as there is room."""
        for row in rows:
            job = self.state.jobs.homes[Instance(row.instance)].job
            events = json.dumps(row.events, separators=(",", ":"), ensure_ascii=False)
            known = self._bytes.setdefault(job, _waiting(self.state, job))
            if job in self.full or (known and known + len(events.encode()) > MOST_BYTES):
                # Whatever comes later waits too, so that the order stays.
                self.full.add(job)
                self.leave(_full())
                continue
            self._bytes[job] += len(events.encode())
            feed = Feed(id=row.id or 0, instance=row.instance, port=row.port, events=events)
            self.feeds.setdefault(job, []).append(feed)
            self.letters.append(row)


def feedable(
    state: CommittedState, tenant: str | None, letters: Sequence[Kept]
) -> tuple[list[int], Mapping[int, Trouble]]:
    """The letters that can be fed for a tenant, or for an operator; and the reasons why the others cannot."""
    why = {instance: _why_not(state, tenant, instance) for instance in {letter.instance for letter in letters}}
    fit = [letter.id for letter in letters if why[letter.instance] is None]
    return fit, {letter.id: found for letter in letters if (found := why[letter.instance]) is not None}


def _why_not(state: CommittedState, tenant: str | None, instance: int) -> Trouble | None:
    running = state.running
    tenants = running.tenants_of(Instance(instance))
    if not tenants or (tenant is not None and tenant not in tenants):
        return Conflict(
            f"instance {instance}, which could not take it, runs {'for nobody' if tenant is None else 'not for you'} "
            "any more; look at the dead letter, or discard it"
        )
    if not running.tasks[Instance(instance)].inputs:
        return Conflict(
            f"instance {instance} is a source, whose schema the events do not fit; publish them anew, corrected"
        )
    if tenant is not None and tenants != {tenant}:
        return Forbidden(
            f"instance {instance}, which could not take it, serves others as well, who would get its events too; ask "
            "an operator to replay it"
        )
    return None


def _waiting(state: CommittedState, job: JobId) -> int:
    return sum(len(each.events.encode()) for each in state.plans[job].feeds)


def _full() -> Trouble:
    return StateNotReady(
        "its job still takes what was replayed before; ask again in a moment for the rest", retry_after=AGAIN
    )
