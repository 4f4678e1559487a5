"""The changes that drains bring: begun on request, and ended once everything is worked off."""

import time
from datetime import datetime

from sqlmodel import Session

from manager.answers import OperationKind
from manager.committed.state import CommittedState, running_id
from manager.committed.wanted import Draining
from manager.committer.committer import Committer
from manager.committer.dataflow_changes import DataflowChanges
from manager.committer.dataflow_rows import running_dataflow
from manager.committer.draft import Draft
from manager.committer.rows import write_down
from manager.planner import public_id
from manager.store.database import Store
from manager.store.tables import DataflowRow
from manager.transitions.connected_dags import reading_the_same
from manager.transitions.drain import Drain
from manager.transitions.scope import Comer


class DrainChanges:
    """All that is done with drains."""

    def __init__(self, committer: Committer, store: Store, dataflows: DataflowChanges) -> None:
        self._committer = committer
        self._store = store
        self._dataflows = dataflows

    def begin(self, dataflow: str, *, who: str) -> DataflowRow:
        """Have a dataflow removed once what its sources have sent by now is worked off; idempotent."""
        begun = time.monotonic()

        def decide(state: CommittedState, now: datetime) -> Drain:
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            name = running_id(dataflow, row.revision)
            instances = frozenset(state.running.dataflow(name).instances)
            return state.drains.get(name) or Drain(dataflow=name, since=now.timestamp(), instances=instances)

        def write(session: Session, draft: Draft, drain: Drain) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            if row.draining is None:
                row.draining = drain.since
                session.add(row)
                draft.drain(drain)
                write_down(session, draft, OperationKind.DRAIN, who=who, subject=dataflow, begun=begun)
            return row

        return self._committer.commit(decide, write, scope=lambda _state, drain: drain.scope, comer=Comer.DRAIN)

    def under_way(self) -> tuple[Draining, ...]:
        """The dataflows that drain."""
        with self._committer.looking() as state:
            return tuple(_draining(state, each) for _, each in sorted(state.drains.items()))

    def drained(self, dataflow: str) -> None:
        """All that the sources of a dataflow had sent is worked off: remove it."""
        with self._committer.looking() as state:
            names = {public_id(each): each for each in state.drains}
            # It may have been removed at once meanwhile.
            if dataflow in names:
                self._dataflows.remove(dataflow, who=state.running.dataflow(names[dataflow]).tenant)


def _draining(state: CommittedState, drain: Drain) -> Draining:
    running = state.running
    dags = reading_the_same(running, running.dags_of(drain.dataflow))
    sources = frozenset(source for source, dag in running.running_dags.of_source.items() if dag in dags)
    return Draining(
        dataflow=public_id(drain.dataflow),
        since=drain.since,
        streams=state.streams_of(sources),
        instances=frozenset(each for each in drain.instances if running.tasks[each].inputs),
    )
