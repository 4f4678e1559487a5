"""The changes that reconfigurations bring: begun on request, then taken on by the events that the reconciler sees."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlmodel import Session, col, select

from dags import Catalogue
from manager.committed.state import CommittedState
from manager.committed.wanted import Reconfiguring
from manager.committer import reconfiguration_steps as steps
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import running_dataflow
from manager.committer.draft import Draft
from manager.committer.reconfiguration_snapshot import (
    ReconfigurationReader,
    ReconfigurationRequest,
    ReconfigurationSnapshot,
    StaleSnapshot,
    decided_on,
)
from manager.committer.rows import SERVICE, UNBOUNDED
from manager.problem import Conflict, InvalidDataflow, NotFound
from manager.store.database import Store
from manager.store.tables import ReconfigurationRow, ReconfiguredRow
from manager.submissions.quota import check_rate, check_size
from manager.transitions.life import Phase
from manager.transitions.reconfiguration import Prepared
from manager.transitions.reconfiguration_decision import ReconfigurationDecision, decide_reconfiguration
from manager.transitions.scope import Comer

Answer = TypeVar("Answer")
log = logging.getLogger("braid.committer")


class ReconfigurationChanges:
    """All that is done with reconfigurations."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
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
        report: Callable[[CommittedState, ReconfigurationDecision], dict[str, Any]],
        *,
        who: str,
        waits: bool = True,
    ) -> ReconfigurationRow:
        """Begin a reconfiguration, which may wait for another transition or not. What `report` says is kept with it."""
        begun = time.monotonic()
        while True:
            try:
                return self._begin(self._reader.read(wanted), wanted, report, who, begun, waits=waits)
            except StaleSnapshot:
                continue

    def _begin(  # noqa: PLR0913 - a request, how it was read, and who asked for it when
        self,
        snapshot: ReconfigurationSnapshot,
        wanted: ReconfigurationRequest,
        report: Callable[[CommittedState, ReconfigurationDecision], dict[str, Any]],
        who: str,
        begun: float,
        *,
        waits: bool,
    ) -> ReconfigurationRow:
        def write(session: Session, draft: Draft, decided: ReconfigurationDecision) -> ReconfigurationRow:
            for read, (_, new) in zip(snapshot.readings, decided.alteration.swaps, strict=True):
                row = running_dataflow(session, read.row.id)
                if row.revision != read.row.revision:
                    raise StaleSnapshot
                if who not in UNBOUNDED:
                    check_rate(session, row.tenant, draft.now)
                check_size(session, row.tenant, dataflows=0, tasks=len(set(new.instances)) - row.tasks)
            return steps.begin(
                session,
                draft,
                decided,
                {read.row.id: read.document for read in snapshot.readings},
                who=who,
                fresh=wanted.fresh,
                undoes=wanted.undoes,
                report=report(draft.state, decided),
                begun=begun,
            )

        return self._committer.commit(
            lambda state, now: self._decided(state, now, snapshot, wanted),
            write,
            scope=lambda _state, decided: decided.scope,
            comer=Comer.RECONFIGURATION,
            waits=waits,
        )

    def _decided(
        self, state: CommittedState, now: datetime, snapshot: ReconfigurationSnapshot, wanted: ReconfigurationRequest
    ) -> ReconfigurationDecision:
        return decided_on(state, now, snapshot, wanted, self._committer.ground.offering(state))

    def undoing(self, reconfiguration: int) -> ReconfigurationRequest:
        """The request that undoes a reconfiguration: back to its configs, with the states as they are by now."""
        with self._store.read() as session:
            named = select(ReconfiguredRow).where(col(ReconfiguredRow.reconfiguration) == reconfiguration)
            rows = session.exec(named.order_by(col(ReconfiguredRow.dataflow))).all()
            if not rows:
                raise NotFound("reconfiguration", str(reconfiguration))
            phase = session.get_one(ReconfigurationRow, reconfiguration).phase
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
        )

    def under_way(self) -> tuple[Reconfiguring, ...]:
        """The reconfigurations under way; none is known if this manager does not lead."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            return tuple(
                Reconfiguring(
                    reconfiguration=each,
                    plans={job: state.plans[job] for job in each.jobs if job in state.plans},
                    # Its dataflows may be gone once it has switched.
                    streams=state.streams_of(each.sources & state.running.tasks.keys()),
                    below=frozenset(
                        state.jobs.homes[instance].job for instance in each.watched if instance in state.jobs.homes
                    ),
                )
                for each in state.reconfigurations.values()
            )

    def switch(self, reconfiguration: int) -> None:
        """All that wait are prepared: let the heads switch. It is given up if it would do something else by now."""

        def write(session: Session, draft: Draft) -> None:
            under_way = draft.state.reconfigurations.get(reconfiguration)
            prepared = None if under_way is None else under_way.prepared
            if under_way is None or prepared is None:
                steps.give_up(session, draft, reconfiguration, why="the manager that prepared it is gone")
                return
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
        """It has proven itself."""
        self._committer.go_on(lambda session, draft: steps.end(session, draft, reconfiguration))

    def give_up(self, reconfiguration: int, *, why: str) -> None:
        """Abandon a reconfiguration that is only prepared."""
        self._committer.go_on(lambda session, draft: steps.give_up(session, draft, reconfiguration, why=why))

    def revert(self, reconfiguration: int, *, why: str) -> None:
        """Undo a reconfiguration whose changed tasks fail."""
        try:
            wanted = self.undoing(reconfiguration)
        except (Conflict, NotFound):
            # It was changed again or removed meanwhile.
            self.end(reconfiguration)
            return
        try:
            self.begin(wanted, lambda _state, _decided: {}, who=SERVICE, waits=False)
        except InvalidDataflow as error:
            log.warning("the reconfiguration %d cannot be undone: %s", reconfiguration, error)
            self.end(reconfiguration)
            return
        self._committer.go_on(lambda session, draft: steps.revert(session, draft, reconfiguration, why))


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
