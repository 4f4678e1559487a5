"""The changes that reconfigurations bring: begun on request, then taken on by the events that the reconciler sees."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from sqlmodel import Session, col, select

from dags import Catalogue
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import running_dataflow
from manager.kernel.draft import SERVICE, UNBOUNDED, Draft, write_idempotency
from manager.kernel.state import CommittedState
from manager.kernel.transitions import HAS_SWITCHED, Comer, Phase, Prepared, Transition, TransitionKind
from manager.kernel.wanted import JobStreams, ReachedJob, Reconfiguring
from manager.problem import Conflict, InvalidDataflow, NotFound, QuotaExceeded
from manager.reconfigurations import steps
from manager.reconfigurations.decision import ReconfigurationDecision, decide_reconfiguration
from manager.reconfigurations.request import (
    QueuePlace,
    ReconfigurationRequest,
    RequestKey,
    ahead,
    in_the_way,
    queue_place,
    read_request,
)
from manager.reconfigurations.snapshot import ReconfigurationReader, ReconfigurationSnapshot, StaleSnapshot, decided_on
from manager.store.database import Store
from manager.store.tables import IdempotencyRow, ReconfigurationRow, ReconfiguredRow
from manager.tenants.quotas import check_rate, check_size
from merge import Instance

Answer = TypeVar("Answer")
log = logging.getLogger("braid.committer")


MOST_QUEUED = 20
"""Reconfigurations of one dataflow that wait at once at most."""


class _Asking(NamedTuple):
    """A reconfiguration that is asked for, or asked for earlier."""

    wanted: ReconfigurationRequest
    who: str
    key: RequestKey | None
    comer: Comer
    begun: float
    waited: int | None = None
    """Its number, if it has waited."""
    waits: bool = True
    """Whether it waits for what is in its way; else it is refused."""


class _Known(Exception):
    """The idempotency key has been used for the same request."""

    def __init__(self, row: ReconfigurationRow) -> None:
        super().__init__(row.id)
        self.row = row


class ReconfigurationChanges:
    """All that is done with reconfigurations."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        committer.cancel_with(TransitionKind.RECONFIGURATION, steps.give_up)
        self._store = store
        self._reader = ReconfigurationReader(committer, store, catalogue)

    def preview(
        self, wanted: ReconfigurationRequest, report: Callable[[CommittedState, ReconfigurationDecision], Answer]
    ) -> Answer:
        """A preview of a reconfiguration, made by `report`; nothing changes."""
        while True:
            try:
                snapshot = self._reader.read(wanted)
                with self._committer.looking() as state:
                    return report(state, self._decided(state, datetime.now(UTC), snapshot, wanted))
            except StaleSnapshot:
                continue

    def begin(
        self,
        wanted: ReconfigurationRequest,
        *,
        who: str,
        key: RequestKey | None = None,
        comer: Comer = Comer.RECONFIGURATION,
        waits: bool = True,
    ) -> ReconfigurationRow:
        """Begin a reconfiguration, or have it wait for the transitions in its way; refused if it may not wait.

        What was asked for under the same key is not done again.
        """
        asked = _Asking(wanted, who, key, comer, time.monotonic(), waits=waits)
        try:
            return self._begun(asked)
        except (Conflict, InvalidDataflow):
            # The same request, sent at the same time, may be why.
            if key is None or (row := self.asked_before(key)) is None:
                raise
            return row

    def asked_before(self, key: RequestKey) -> ReconfigurationRow | None:
        """What the same request under the same key has made, if there was one."""
        with self._store.read() as session:
            known = session.get(IdempotencyRow, (key.tenant, key.stored))
            if known is None:
                return None
            if known.digest != key.digest:
                raise Conflict(
                    f"the idempotency key {key.key!r} was used for another reconfiguration; use a new key for each"
                )
            return session.get_one(ReconfigurationRow, known.reconfiguration)

    def proceed(self, reconfiguration: int) -> None:
        """Begin one that has waited: nothing is in its way any more. It is given up if it does not fit any more."""
        with self._store.read() as session:
            row = session.get_one(ReconfigurationRow, reconfiguration)
        if row.request is None:
            self.give_up(reconfiguration, why="an older version of the service did not keep what was asked for")
            return
        request = read_request(row.request)
        try:
            self._begun(
                _Asking(request, row.who, None, Comer.RECONFIGURATION, time.monotonic(), waited=reconfiguration)
            )
        except (Conflict, InvalidDataflow, NotFound, QuotaExceeded) as error:
            self.give_up(reconfiguration, why=f"it does not fit any more: {error}")

    def interrupt(self, reconfiguration: int) -> None:
        """Have one wait again that a manager prepared which is gone."""
        self._committer.go_on(lambda session, draft: steps.interrupt(session, draft, reconfiguration))

    def _begun(self, asking: _Asking) -> ReconfigurationRow:
        while True:
            try:
                return self._begin(self._reader.read(asking.wanted), asking)
            except StaleSnapshot:
                continue
            except _Known as known:
                return known.row

    def _begin(self, snapshot: ReconfigurationSnapshot, asking: _Asking) -> ReconfigurationRow:
        asked = steps.AskedReconfiguration(
            request=asking.wanted,
            documents={read.row.id: read.document for read in snapshot.readings},
            who=asking.who,
            begun=asking.begun,
            waited=asking.waited,
        )

        def decide(state: CommittedState, now: datetime) -> ReconfigurationDecision:
            if asking.key is not None and (row := self.asked_before(asking.key)) is not None:
                raise _Known(row)
            # One that has waited is the first of its dataflows.
            follows = asking.waited is None and asking.waits and bool(_waiting(state, asking.wanted.dataflows))
            return self._decided(state, now, snapshot, asking.wanted, follows=follows)

        def write(session: Session, draft: Draft, decided: ReconfigurationDecision) -> ReconfigurationRow:
            _check(session, draft, decided, snapshot, asking)
            row = steps.begin(session, draft, decided, asked)
            _keep_key(session, draft, snapshot, asking.key, row)
            return row

        def queue(session: Session, draft: Draft, decided: ReconfigurationDecision) -> ReconfigurationRow:
            _check(session, draft, decided, snapshot, asking)
            if asking.waited is None:
                _check_queue(draft.state, asking.wanted.dataflows)
            row = steps.wait(session, draft, decided, asked)
            _keep_key(session, draft, snapshot, asking.key, row)
            return row

        return self._committer.commit(
            decide,
            write,
            scope=lambda _state, decided: decided.scope,
            comer=asking.comer,
            waits=False,
            queue=queue if asking.waits else None,
            under_way=partial(_ahead, asking.waited),
        )

    def _decided(
        self,
        state: CommittedState,
        now: datetime,
        snapshot: ReconfigurationSnapshot,
        wanted: ReconfigurationRequest,
        *,
        follows: bool = False,
    ) -> ReconfigurationDecision:
        hosts = self._committer.ground.offering(state)
        return decided_on(state, now, snapshot, wanted, hosts, follows=follows)

    def undoing(self, reconfiguration: int) -> ReconfigurationRequest:
        """The request that undoes a reconfiguration: back to its configs, with the states as they are by now."""
        with self._store.read() as session:
            named = select(ReconfiguredRow).where(col(ReconfiguredRow.reconfiguration) == reconfiguration)
            rows = session.exec(named.order_by(col(ReconfiguredRow.dataflow))).all()
            if not rows:
                raise NotFound("reconfiguration", str(reconfiguration))
            phase = session.get_one(ReconfigurationRow, reconfiguration).phase
            if phase in {Phase.WAITING, Phase.PREPARING}:
                raise Conflict(f"this reconfiguration is {phase} and has changed nothing yet; cancel it instead")
            if phase not in {Phase.PROVING, Phase.DONE}:
                raise Conflict(f"this reconfiguration is {phase}; only one that has switched can be undone")
            for row in rows:
                if running_dataflow(session, row.dataflow).revision != row.revision:
                    raise Conflict(
                        f"the dataflow {row.dataflow!r} has not what this reconfiguration gave it; undo the last one"
                    )
        return ReconfigurationRequest(
            dataflows=tuple(row.dataflow for row in rows),
            documents={row.dataflow: row.before for row in rows},
            undoes=reconfiguration,
            lenient=True,
            revisions={row.dataflow: row.revision for row in rows},
        )

    def under_way(self) -> tuple[Reconfiguring, ...]:
        """The reconfigurations under way; none is known if this manager does not lead."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            if not state.reconfigurations:
                return ()
            return tuple(_going(state))

    def queue_places(self) -> Mapping[int, QueuePlace]:
        """The places of all that wait; none is known if this manager does not lead."""
        if not self._committer.leads:
            return {}
        with self._committer.looking() as state:
            waiting = [each for each in state.reconfigurations.values() if each.phase is Phase.WAITING]
            return {each.id: queue_place(each, state.transitions) for each in waiting}

    def switch(self, reconfiguration: int) -> None:
        """All that wait are prepared: let the heads switch. It is given up if it would do something else by now."""

        def write(session: Session, draft: Draft) -> None:
            under_way = draft.state.reconfigurations.get(reconfiguration)
            prepared = None if under_way is None else under_way.prepared
            if under_way is None or prepared is None:
                raise Conflict("this reconfiguration is over, or has to be prepared anew")
            state = draft.state
            decided = decide_reconfiguration(
                state.running,
                state.jobs,
                prepared.decision.edits,
                draft.now,
                fresh=prepared.fresh,
                earlier=prepared.decision.earlier,
                scheduler=prepared.decision.scheduler,
                first=prepared.decision.first,
            )
            if not _is_same(decided, prepared):
                steps.give_up(session, draft, reconfiguration, why="what runs has changed meanwhile")
                return
            steps.switch(session, draft, under_way, decided)

        self._committer.go_on(write)

    def prove(self, reconfiguration: int) -> None:
        """All jobs run the new plans."""
        self._committer.go_on(lambda session, draft: steps.prove(session, draft, reconfiguration))

    def end(self, reconfiguration: int) -> None:
        """It has proven itself, or is undone, and all events from before its switch are gone."""
        self._committer.go_on(lambda session, draft: steps.end(session, draft, reconfiguration))

    def give_up(self, reconfiguration: int, *, why: str) -> None:
        """Abandon a reconfiguration that waits or is only prepared."""
        self._committer.go_on(lambda session, draft: steps.give_up(session, draft, reconfiguration, why=why))

    def revert(self, reconfiguration: int, *, why: str) -> None:
        """Undo a reconfiguration whose changed tasks fail."""
        try:
            wanted = self.undoing(reconfiguration)
        except (Conflict, NotFound) as error:
            # It was changed again or removed meanwhile. Events from before it may still be under way.
            self._keep(reconfiguration, f"{why}: {error}")
            return
        try:
            self.begin(wanted, who=SERVICE, comer=Comer.REPAIR, waits=False)
        except InvalidDataflow as error:
            log.warning("the reconfiguration %d cannot be undone: %s", reconfiguration, error)
            self._keep(reconfiguration, f"{why}: {error}")
            return
        self._committer.go_on(lambda session, draft: steps.revert(session, draft, reconfiguration, why))

    def _keep(self, reconfiguration: int, why: str) -> None:
        self._committer.go_on(lambda session, draft: steps.keep(session, draft, reconfiguration, why))


def _going(state: CommittedState) -> Iterator[Reconfiguring]:
    running, homes = state.running.tasks, state.jobs.homes
    streams = JobStreams(state.plans, homes)
    reached: dict[frozenset[Instance], tuple[ReachedJob, ...]] = {}
    # One that waits changes nothing yet, perhaps for long.
    settled = HAS_SWITCHED | {Phase.WAITING}
    changing = [
        each for each in state.transitions if each.kind is not TransitionKind.DRAIN and each.phase not in settled
    ]
    for each in state.reconfigurations.values():
        # Those of all its dataflows: a later one may have led other events to what it changed.
        sources = frozenset(instance for instance in each.instances & running.keys() if not running[instance].inputs)
        if each.phase in HAS_SWITCHED and sources not in reached:
            # Of many that wait for one job most have the same.
            reached[sources] = streams.reached(sources)
        yield Reconfiguring(
            reconfiguration=each,
            plans={job: state.plans[job] for job in each.jobs if job in state.plans},
            # Its dataflows may be gone once it has switched.
            streams=state.streams_of(each.sources & running.keys()),
            below=frozenset(homes[instance].job for instance in each.watched if instance in homes),
            waits=each.phase is Phase.WAITING and bool(in_the_way(each, state.transitions)),
            reached=reached.get(sources, ()) if each.phase in HAS_SWITCHED else (),
            is_held=any(
                other is not each and not other.scope.instances.isdisjoint(each.instances) for other in changing
            ),
        )


def _check(
    session: Session,
    draft: Draft,
    decided: ReconfigurationDecision,
    snapshot: ReconfigurationSnapshot,
    asking: _Asking,
) -> None:
    """Refuse what its tenants may not have; `StaleSnapshot` if a dataflow has another document by now."""
    for read, (_, new) in zip(snapshot.readings, decided.alteration.swaps, strict=True):
        row = running_dataflow(session, read.row.id)
        if row.revision != read.row.revision:
            raise StaleSnapshot
        if asking.who not in UNBOUNDED and asking.waited is None:
            check_rate(session, row.tenant, draft.now)
        tasks, streams = len(set(new.instances)) - row.tasks, read.by.streams - row.streams
        check_size(session, row.tenant, dataflows=0, tasks=tasks, streams=streams)


def _keep_key(
    session: Session,
    draft: Draft,
    snapshot: ReconfigurationSnapshot,
    key: RequestKey | None,
    row: ReconfigurationRow,
) -> None:
    """Write down what came of a request under its key."""
    if key is not None:
        dataflow = next(read.row for read in snapshot.readings if read.row.tenant == key.tenant)
        write_idempotency(session, draft, dataflow, key.stored, key.digest, row.id)


def _ahead(waited: int | None, state: CommittedState) -> tuple[Transition, ...]:
    """What is under way for one that is new, or that has waited."""
    waiting = None if waited is None else state.reconfigurations.get(waited)
    return state.transitions if waiting is None else ahead(waiting, state.transitions)


def _waiting(state: CommittedState, dataflows: Sequence[str]) -> Counter[str]:
    """How many reconfigurations wait, for each of some dataflows with any."""
    under_way = (each for each in state.reconfigurations.values() if each.phase is Phase.WAITING)
    return Counter(name for each in under_way for name in each.dataflows if name in dataflows)


def _check_queue(state: CommittedState, dataflows: Sequence[str]) -> None:
    """Refuse one more that waits where too many of the same dataflow do."""
    waiting = _waiting(state, dataflows)
    for name in dataflows:
        if waiting[name] >= MOST_QUEUED:
            raise QuotaExceeded(
                f"{MOST_QUEUED} reconfigurations of the dataflow {name!r} wait already; cancel one, or ask later",
                retry_after=1.0,
            )


def _is_same(decided: ReconfigurationDecision, prepared: Prepared) -> bool:
    """Whether a decision is the one that the plans of the waiting jobs were made for."""
    return _outcome(decided) == _outcome(prepared.decision)


def _outcome(decided: ReconfigurationDecision) -> object:
    by = decided.alteration
    return (
        {task.instance: task.key for task in by.alters},
        {fork.task.instance: (fork.task.key, fork.origin) for fork in by.forks},
        {task.instance for task in by.stops},
        decided.switches,
    )
