"""Reconfigurations of running dataflows: previewed, begun, watched, cancelled and undone."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from braid_client.answers.base import Page
from braid_client.answers.overview import OperationKind
from braid_client.answers.reconfigurations import (
    QueueAnswer,
    ReconfigurationAnswer,
    ReconfigurationForm,
    ReconfigurationScope,
    ReconfigurationState,
)
from dags import Problem
from dags.problems import pointer
from dags.vocabulary import Scheduler
from manager.documents.revisions import Tags, check_unchanged
from manager.kernel.transitions import Phase
from manager.problem import Conflict, InvalidDataflow, InvalidRequest, NotFound
from manager.reconfigurations.request import AskedReconfiguration, ReconfigurationRequest, request_key
from manager.reconfigurations.steps import reconfiguration_scope
from manager.store.tables import DataflowRow, ReconfigurationRow, ReconfiguredRow
from manager.use_case import Base, Caller, Paging, moment, number_in, operators_only, paged


class Reconfigurations(Base):
    """Reconfigurations, for the tenants of the dataflows and for operators."""

    def preview(
        self,
        caller: Caller,
        dataflow: str,
        form: ReconfigurationForm,
        *,
        lenient: bool = False,
        tags: Tags | None = None,
    ) -> ReconfigurationAnswer:
        """A preview of a reconfiguration; nothing changes."""
        row = self._own_dataflow(caller, dataflow)
        self._check_unchanged(row, tags)
        return self._previewed(caller, self._wanted(caller, row, form, lenient=lenient))

    def begin(
        self,
        caller: Caller,
        dataflow: str,
        form: ReconfigurationForm,
        *,
        idempotency_key: str | None = None,
        tags: Tags | None = None,
    ) -> ReconfigurationAnswer:
        """Begin a reconfiguration, or have it wait for those in its way.

        The same key and form get the same reconfiguration again. It is refused, or later abandoned, if the dataflow has
        none of the documents with these tags.
        """
        row = self._own_dataflow(caller, dataflow)
        key = request_key(row.tenant, idempotency_key, dataflow, form.model_dump(mode="json"))
        if key is not None and (known := self._changes.reconfigurations.asked_before(key)) is not None:
            return self._answer(caller, known)
        request = self._wanted(caller, row, form)
        if tags is not None:
            self._check_unchanged(row, tags)
            request = replace(request, revisions={row.id: row.revision})
        asked = AskedReconfiguration(request=request, who=caller.who, key=key)
        return self._asked_for(caller, asked)

    def fill(
        self, caller: Caller, dataflow: str, form: ReconfigurationForm, *, revision: int, lenient: bool
    ) -> ReconfigurationAnswer:
        """Begin one that was planned for a revision of a dataflow, and fits no other.

        If it is lenient, states of which nobody knows what becomes are dropped.
        """
        row = self._own_dataflow(caller, dataflow)
        wanted = replace(self._wanted(caller, row, form, lenient=lenient), revisions={dataflow: revision})
        asked = AskedReconfiguration(request=wanted, who=caller.who)
        return self._asked_for(caller, asked)

    def adapt(self, documents: Mapping[str, str], *, apart: Mapping[str, frozenset[str]], who: str) -> None:
        """Begin one reconfiguration of dataflows that adapt together; refused if it would have to wait.

        The tasks in `apart` may switch before or after the others.
        """
        wanted = ReconfigurationRequest(dataflows=tuple(documents), documents=documents, apart=apart, lenient=True)
        self._changes.reconfigurations.begin(AskedReconfiguration(request=wanted, who=who, waits=False))

    def undo(
        self,
        caller: Caller,
        dataflow: str,
        reconfiguration: str,
        *,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> ReconfigurationAnswer:
        """Undo a reconfiguration, or preview that: back to the configs before, with the states as they are by now."""
        row = self._row(caller, dataflow, reconfiguration)
        key = request_key(self._own_dataflow(caller, dataflow).tenant, idempotency_key, dataflow, "undo", row.id)
        if key is not None and not dry_run and (known := self._changes.reconfigurations.asked_before(key)) is not None:
            return self._answer(caller, known)
        wanted = self._changes.reconfigurations.undoing(row.id or 0)
        self._check_alone(caller, row)
        try:
            if dry_run:
                return self._previewed(caller, wanted)
            asked = AskedReconfiguration(request=wanted, who=caller.who, key=key)
            return self._asked_for(caller, asked)
        except InvalidDataflow as error:
            # Its types or sources have changed since.
            raise Conflict(f"the dataflow cannot go back: {error}") from error

    def _asked_for(self, caller: Caller, asked: AskedReconfiguration) -> ReconfigurationAnswer:
        row = self._changes.reconfigurations.begin(asked)
        # What it changes is noted once it switches, which nobody asks for any more.
        with self._noted(OperationKind.ASK_TO_RECONFIGURE, caller, ", ".join(asked.request.dataflows)):
            pass
        return self._answer(caller, row)

    def cancel(self, caller: Caller, dataflow: str, reconfiguration: str) -> ReconfigurationAnswer:
        """Cancel a reconfiguration, which is possible until its first head switches; idempotent."""
        row = self._row(caller, dataflow, reconfiguration)
        self._check_alone(caller, row)
        if row.phase != Phase.ABANDONED:
            try:
                self._changes.reconfigurations.give_up(row.id or 0, why=f"{caller.who} cancelled it")
            except Conflict as error:
                if (why := _too_late(self._row(caller, dataflow, reconfiguration))) is not None:
                    raise Conflict(why) from error
            with self._noted(OperationKind.CANCEL_RECONFIGURATION, caller, dataflow):
                pass
        return self.get(caller, dataflow, reconfiguration)

    def get(self, caller: Caller, dataflow: str, reconfiguration: str) -> ReconfigurationAnswer:
        """One reconfiguration of a dataflow."""
        return self._answer(caller, self._row(caller, dataflow, reconfiguration))

    def page(self, caller: Caller, dataflow: str, paging: Paging) -> Page[ReconfigurationAnswer]:
        """The reconfigurations of a dataflow, newest first."""
        self._own_dataflow(caller, dataflow)
        wanted = _of(dataflow).order_by(col(ReconfigurationRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(ReconfigurationRow.id) < paging.after_number)
        with self._store.read() as session:
            rows = session.exec(wanted.limit(paging.limit + 1)).all()
        return paged(rows, paging.limit, cursor=lambda row: row.id, answer=partial(self._answer, caller))

    def _previewed(self, caller: Caller, wanted: ReconfigurationRequest) -> ReconfigurationAnswer:
        return ReconfigurationAnswer(
            id="",
            state=ReconfigurationState.PREVIEW,
            dataflows=wanted.dataflows,
            who=caller.who,
            begun=datetime.now(UTC),
            undoes=None if wanted.undoes is None else str(wanted.undoes),
            scope=self._changes.reconfigurations.preview(wanted, reconfiguration_scope),
        )

    def _wanted(
        self, caller: Caller, row: DataflowRow, form: ReconfigurationForm, *, lenient: bool = False
    ) -> ReconfigurationRequest:
        if form.dataflows or form.scheduler is not Scheduler.FRIES:
            operators_only(caller)
        if bool(form.tasks) == (form.document is not None):
            given = form.document is not None
            raise _invalid(
                pointer("document" if given else "tasks"),
                "document-and-tasks" if given else "missing",
                "both patches and a whole document are given" if given else "nothing to change is given",
                "send patches in `tasks`, or the edited `document`",
            )
        if form.document is not None and form.dataflows:
            remedy = "send patches in `tasks` to change several dataflows"
            raise _invalid(pointer("dataflows"), "whole-document", "a whole document is one dataflow's", remedy)
        if unknown := sorted(set(form.fresh) - set(row.task_ids)):
            at, message = pointer("fresh", form.fresh.index(unknown[0])), f"the dataflow has no task {unknown[0]!r}"
            raise _invalid(at, "unknown-task", message, "name a task of its document")
        names = tuple(dict.fromkeys([row.id, *form.dataflows]))
        for name in names[1:]:
            self._own_dataflow(caller, name)
        document = None if form.document is None else json.dumps(form.document, ensure_ascii=False)
        return ReconfigurationRequest(
            dataflows=names,
            patches=form.tasks,
            documents={} if document is None else {row.id: document},
            fresh=frozenset(form.fresh),
            scheduler=form.scheduler,
            lenient=lenient,
        )

    def _check_unchanged(self, row: DataflowRow, tags: Tags | None) -> None:
        with self._store.read() as session:
            check_unchanged(session, row, tags)

    def _row(self, caller: Caller, dataflow: str, reconfiguration: str) -> ReconfigurationRow:
        self._own_dataflow(caller, dataflow)
        number = number_in(reconfiguration)
        with self._store.read() as session:
            row = session.exec(_of(dataflow).where(col(ReconfigurationRow.id) == (number or 0))).one_or_none()
        if row is None:
            raise NotFound("reconfiguration", reconfiguration)
        return row

    def _answer(self, caller: Caller, row: ReconfigurationRow) -> ReconfigurationAnswer:
        every = self._dataflows(caller, row.id)
        dataflows = tuple(dataflow for dataflow, is_seen in every.items() if is_seen)
        scope = ReconfigurationScope.model_validate(row.report) if row.report else None
        if scope is not None and len(dataflows) < len(every):
            # Nobody learns with whom it shares.
            tasks = tuple(task for task in scope.tasks if task.dataflow in dataflows)
            scope = scope.model_copy(update={"tasks": tasks, "components": ()})
        return ReconfigurationAnswer(
            id=str(row.id),
            state=_STATES.get(Phase(row.phase)) or ReconfigurationState(row.phase),
            dataflows=dataflows,
            who=row.who,
            begun=moment(row.begun),
            queue=self._queue(caller, row) if row.phase == Phase.WAITING else None,
            switched=None if row.switched is None else moment(row.switched),
            ended=None if row.ended is None else moment(row.ended),
            undoes=None if row.undoes is None else str(row.undoes),
            outcome=row.outcome,
            scope=scope,
        )

    def _queue(self, caller: Caller, row: ReconfigurationRow) -> QueueAnswer | None:
        """The place of one that waits."""
        place = self._changes.reconfigurations.queue_places().get(row.id or 0)
        if place is None:
            return None
        # Nobody learns with whom it shares.
        seen = [str(ahead.id) for ahead in place.behind if any(self._dataflows(caller, ahead.id).values())]
        return QueueAnswer(
            place=place.place,
            behind=tuple(seen),
            behind_others=len(place.behind) - len(seen),
            behind_moves=place.behind_moves,
        )

    def _dataflows(self, caller: Caller, reconfiguration: int | None) -> dict[str, bool]:
        """The dataflows that a reconfiguration changes, and whether the caller may see each."""
        named = select(ReconfiguredRow.dataflow, DataflowRow.tenant).where(
            col(ReconfiguredRow.reconfiguration) == reconfiguration
        )
        owned = named.join(DataflowRow, col(DataflowRow.id) == col(ReconfiguredRow.dataflow), isouter=True)
        with self._store.read() as session:
            rows = session.exec(owned.order_by(col(ReconfiguredRow.dataflow))).all()
        return {dataflow: caller.tenant in {None, tenant} for dataflow, tenant in rows}

    def _check_alone(self, caller: Caller, row: ReconfigurationRow) -> None:
        """Refuse to change what others would feel."""
        if not all(self._dataflows(caller, row.id).values()):
            raise Conflict("it changed other dataflows too, as one; reconfigure this one alone instead")


def _of(dataflow: str) -> SelectOfScalar[ReconfigurationRow]:
    """The reconfigurations of a dataflow."""
    join = col(ReconfiguredRow.reconfiguration) == col(ReconfigurationRow.id)
    return select(ReconfigurationRow).join(ReconfiguredRow, join).where(col(ReconfiguredRow.dataflow) == dataflow)


def _invalid(at: str, code: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([Problem(pointer=at, code=code, message=message, remedy=remedy)])


def _too_late(row: ReconfigurationRow) -> str | None:
    """Why a reconfiguration can't be cancelled any more; None if it changes nothing anyway."""
    match Phase(row.phase):
        case Phase.SWITCHING:
            return f"reconfiguration {row.id} is switching already, which has to end; undo it after that"
        case Phase.PROVING | Phase.DONE:
            return f"reconfiguration {row.id} has switched already; undo it instead, at .../{row.id}/undo"
        case Phase.REVERTED:
            return f"reconfiguration {row.id} is over: it was {row.outcome}"
        case _:
            return None


_STATES = {Phase.PROVING: ReconfigurationState.SWITCHED}
"""The states of phases that have another name."""
