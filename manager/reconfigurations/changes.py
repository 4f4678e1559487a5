"""The changes that reconfigurations bring: begun on request, then taken on by the events that the reconciler sees."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from sqlmodel import col, select

from dags import Catalogue
from engine.log_lines import note
from engine.plan import Plan
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import running_dataflow
from manager.kernel.draft import SERVICE, UNBOUNDED, write_idempotency
from manager.kernel.state import CommittedState
from manager.kernel.transitions import (
    HAS_SWITCHED,
    Comer,
    Phase,
    Transition,
    TransitionEvent,
    TransitionKind,
    TransitionScope,
    Turn,
)
from manager.kernel.wanted import JobStreams, ReachedJob, Reconfiguring
from manager.planner import is_bridge
from manager.problem import Conflict, InvalidDataflow, NotFound, QuotaExceeded
from manager.reconfigurations import steps
from manager.reconfigurations.decision import ReconfigurationDecision
from manager.reconfigurations.request import (
    AskedReconfiguration,
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


class ReconfigurationChanges:
    """All that is done with reconfigurations."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        committer.cancel_with(TransitionKind.RECONFIGURATION, steps.take)
        self._store = store
        self._reader = ReconfigurationReader(committer, store, catalogue)

    def preview(
        self, request: ReconfigurationRequest, report: Callable[[CommittedState, ReconfigurationDecision], Answer]
    ) -> Answer:
        """A preview of a reconfiguration, made by `report`; nothing changes."""
        while True:
            with suppress(StaleSnapshot):
                snapshot = self._reader.read(request)
                with self._committer.looking() as state:
                    hosts = self._committer.ground.offering(state)
                    return report(state, decided_on(state, datetime.now(UTC), snapshot, hosts, follows=False))

    def begin(self, asked: AskedReconfiguration) -> ReconfigurationRow:
        """Begin a reconfiguration, or have it wait for the transitions in its way; refused if it may not wait.

        What was asked for under the same key is not done again.
        """
        try:
            while True:
                with suppress(StaleSnapshot):
                    return self._begin(self._reader.read(asked.request), asked)
        except (Conflict, InvalidDataflow):
            # The same request, sent at the same time, may be why.
            if asked.key is None or (row := self.asked_before(asked.key)) is None:
                raise
            return row

    def _begin(self, snapshot: ReconfigurationSnapshot, asked: AskedReconfiguration) -> ReconfigurationRow:
        def decide(state: CommittedState, now: datetime) -> tuple[TransitionScope, ReconfigurationDecision]:
            # One that has waited is the first of its dataflows.
            follows = asked.waited is None and asked.waits and bool(_waiting(state, asked.request.dataflows))
            hosts = self._committer.ground.offering(state)
            decided = decided_on(state, now, snapshot, hosts, follows=follows)
            return decided.scope, decided

        def under_way(state: CommittedState) -> tuple[Transition, ...]:
            waiting = None if asked.waited is None else state.reconfigurations.get(asked.waited)
            return state.transitions if waiting is None else ahead(waiting, state.transitions)

        with self._committer.looking():
            if asked.key is not None and (known := self.asked_before(asked.key)) is not None:
                return known
            with self._committer.changing(
                decide, comer=asked.comer, waits=False, queues=asked.waits, under_way=under_way
            ) as change:
                edited = _checked(change, snapshot, asked)
                if change.is_queued and asked.waited is None:
                    _check_queue(change.draft.state, asked.request.dataflows)
                row = steps.begin(change, asked, edited)
                if (key := asked.key) is not None:
                    own = next(dataflow.row for dataflow in edited if dataflow.row.tenant == key.tenant)
                    write_idempotency(change.session, change.draft, own, key.stored, key.digest, row.id)
                return row

    def asked_before(self, key: RequestKey) -> ReconfigurationRow | None:
        """Return what the same request under the same key has made, if there was one."""
        with self._store.read() as session:
            known = session.get(IdempotencyRow, (key.tenant, key.stored))
            if known is None:
                return None
            if known.digest != key.digest:
                raise Conflict(
                    f"the idempotency key {key.key!r} was used for another reconfiguration; use a new key for each"
                )
            note(repeated=True)
            return session.get_one(ReconfigurationRow, known.reconfiguration)

    def take(self, turn: Turn) -> None:
        """Take a reconfiguration on by an event in its life."""
        match turn.event:
            case TransitionEvent.CLEARED:
                self._proceed(turn)
            case TransitionEvent.FAILED:
                self._revert(turn)
            case _:
                self._take(turn)

    def give_up(self, reconfiguration: int, *, why: str) -> None:
        """Abandon a reconfiguration that waits or is only prepared."""
        with self._committer.writing() as (session, draft):
            known = draft.state.reconfigurations.get(reconfiguration)
            if known is None:
                raise Conflict("this reconfiguration is over, or went on meanwhile")
            steps.take(session, draft, Turn(known, TransitionEvent.HINDERED, why))

    def _take(self, turn: Turn) -> None:
        with self._committer.writing() as (session, draft):
            steps.take(session, draft, turn)

    def _proceed(self, turn: Turn) -> None:
        """Begin one that has waited: nothing is in its way any more. It is given up if it does not fit any more."""
        with self._store.read() as session:
            row = session.get_one(ReconfigurationRow, turn.transition.id)
        if row.request is None:
            why = "an older version of the service did not keep what was asked for"
        else:
            try:
                self.begin(AskedReconfiguration(request=read_request(row.request), who=row.who, waited=row.id))
            except (Conflict, InvalidDataflow, NotFound, QuotaExceeded) as error:
                why = f"it does not fit any more: {error}"
            else:
                return
        self._take(turn._replace(event=TransitionEvent.HINDERED, why=why))

    def _revert(self, turn: Turn) -> None:
        """Undo a reconfiguration whose changed tasks fail."""
        number = turn.transition.id
        try:
            request = self.undoing(number)
        except (Conflict, NotFound) as error:
            # It was changed again or removed meanwhile. Events from before it may still be under way.
            self._keep(number, f"{turn.why}: {error}")
            return
        try:
            self.begin(AskedReconfiguration(request=request, who=SERVICE, comer=Comer.REPAIR, waits=False))
        except InvalidDataflow as error:
            log.warning("the reconfiguration %d cannot be undone: %s", number, error)
            self._keep(number, f"{turn.why}: {error}")
            return
        self._take(turn)

    def _keep(self, reconfiguration: int, why: str) -> None:
        with self._committer.writing() as (session, draft):
            steps.keep(session, draft, reconfiguration, why)

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
            waiting = [
                reconfiguration
                for reconfiguration in state.reconfigurations.values()
                if reconfiguration.phase is Phase.WAITING
            ]
            return {reconfiguration.id: queue_place(reconfiguration, state.transitions) for reconfiguration in waiting}


def _going(state: CommittedState) -> Iterator[Reconfiguring]:
    running, homes = state.running.tasks, state.jobs.homes
    streams = JobStreams(state.plans, homes)
    reached: dict[frozenset[Instance], tuple[ReachedJob, ...]] = {}
    # One that waits changes nothing yet, perhaps for long.
    settled = HAS_SWITCHED | {Phase.WAITING}
    changing = [
        transition
        for transition in state.transitions
        if transition.kind is not TransitionKind.DRAIN and transition.phase not in settled
    ]
    for reconfiguration in state.reconfigurations.values():
        # Those of all its dataflows: a later one may have led other events to what it changed.
        sources = frozenset(
            instance for instance in reconfiguration.instances & running.keys() if not running[instance].inputs
        )
        if reconfiguration.phase in HAS_SWITCHED and sources not in reached:
            # Of many that wait for one job most have the same.
            reached[sources] = streams.reached(sources)
        plans = {job: state.plans[job] for job in reconfiguration.jobs if job in state.plans}
        yield Reconfiguring(
            reconfiguration=reconfiguration,
            plans=plans,
            # By the plans, because a source that carries it may be read no more after it.
            streams=_marked_streams(plans.values(), reconfiguration.marker),
            below=frozenset(homes[instance].job for instance in reconfiguration.watched if instance in homes),
            waits=reconfiguration.phase is Phase.WAITING and bool(in_the_way(reconfiguration, state.transitions)),
            reached=reached.get(sources, ()) if reconfiguration.phase in HAS_SWITCHED else (),
            is_held=any(
                other is not reconfiguration and not other.scope.instances.isdisjoint(reconfiguration.instances)
                for other in changing
            ),
        )


def _marked_streams(plans: Iterable[Plan], marker: str) -> frozenset[str]:
    """The raw streams in which plans await a marker."""
    awaited = (plan.switch.awaits for plan in plans if plan.switch is not None and plan.switch.marker == marker)
    return frozenset(stream for streams in awaited for stream in streams if not is_bridge(stream))


def _checked(
    change: steps.AskedChange, snapshot: ReconfigurationSnapshot, asked: AskedReconfiguration
) -> list[steps.EditedDataflow]:
    """The dataflows to edit; refused if its tenants may not have that, stale if one has another document by now."""
    session, draft, decided, _ = change
    edited = []
    for read, (_, new) in zip(snapshot.readings, decided.alteration.swaps, strict=True):
        row = running_dataflow(session, read.row.id)
        if row.revision != read.row.revision:
            raise StaleSnapshot
        if asked.who not in UNBOUNDED and asked.waited is None:
            check_rate(session, row.tenant, draft.now)
        tasks, streams = len(set(new.instances)) - row.tasks, read.edit.by.streams - row.streams
        check_size(session, row.tenant, dataflows=0, tasks=tasks, streams=streams)
        edited.append(steps.EditedDataflow(row, read.document))
    return edited


def _waiting(state: CommittedState, dataflows: Sequence[str]) -> Counter[str]:
    """How many reconfigurations wait, for each of some dataflows with any."""
    under_way = (
        reconfiguration for reconfiguration in state.reconfigurations.values() if reconfiguration.phase is Phase.WAITING
    )
    return Counter(name for transition in under_way for name in transition.dataflows if name in dataflows)


def _check_queue(state: CommittedState, dataflows: Sequence[str]) -> None:
    """Refuse one more that waits where too many of the same dataflow do."""
    waiting = _waiting(state, dataflows)
    for name in dataflows:
        if waiting[name] >= MOST_QUEUED:
            raise QuotaExceeded(
                f"{MOST_QUEUED} reconfigurations of the dataflow {name!r} wait already; cancel one, or ask later",
                retry_after=1.0,
            )
