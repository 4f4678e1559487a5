"""Pipelines of running dataflows: planned anew, so that the difference takes effect while they run."""

import json
from collections.abc import Sequence

from manager.answers import ReconfigurationForm, ReplanAnswer, ReplanForm, ReplanKind
from manager.cases.base import Base, Caller
from manager.cases.planned.composer import Composed, PipelineComposer, Present, fillings_in
from manager.cases.planned.plan_answers import plan_answer
from manager.cases.reconfigurations import Reconfigurations
from manager.committer.dataflow_rows import running_dataflow
from manager.problem import Conflict, InvalidDataflow, NotFound
from manager.store.tables import DataflowRow
from manager.submissions.edited_document import rerouted, shape_problems
from planning.forms.form_reader import read_form
from planning.forms.pipeline_form import PipelineForm
from planning.planning_problem import Criterion

_PLACED_ANEW = frozenset({"no-host", "other-jobs"})
"""The problems with a reconfiguration that a replacement does not have, because it places tasks anew."""


class Pipelines(Base):
    """Pipelines, for the tenants of their dataflows and for operators."""

    def replan(self, caller: Caller, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew, and apply the difference; without a better plan everything stays as it is.

        The difference is one reconfiguration, in which tasks keep their states, also if places begin or cease to hold
        something. Only what cannot be reconfigured is replaced: tasks above go on, and those below begin anew.
        """
        row = self._own(caller, dataflow)
        if row.pipeline is None:
            raise Conflict(f"the dataflow {dataflow!r} has no open places; submit a pipeline to have it planned")
        before = fillings_in(row.document, row.pipeline)
        composed = self._composed(row, form)
        after = composed.planned.fillings
        changed = tuple(place for place in after if before.get(place) != after[place])
        kind, why = _kind(row, composed)
        answer = ReplanAnswer(
            dataflow=dataflow,
            how=kind,
            why=why,
            plan=plan_answer(composed.planned, with_alternatives=dry_run),
            changed=changed,
        )
        return self._apply(caller, row, composed, answer, dry_run=dry_run)

    def _composed(self, row: DataflowRow, form: ReplanForm) -> Composed:
        pipeline = row.pipeline or ""
        raw = (pipeline if form.pipeline is None else json.dumps(form.pipeline, ensure_ascii=False)).encode()
        criteria: Sequence[Criterion] | None = form.prefer
        if criteria is None:
            prefer = read_form(pipeline, PipelineForm).prefer
            criteria = (Criterion.CHANGES, *(each for each in prefer if each is not Criterion.CHANGES))
        present = Present(
            dataflow=row.id, fillings=fillings_in(row.document, pipeline), without=frozenset(form.without)
        )
        composer = PipelineComposer(self._committer, self._store, self._tools.catalogue)
        return composer.composed(row.tenant, raw, present=present, criteria=criteria)

    def _apply(
        self, caller: Caller, row: DataflowRow, composed: Composed, answer: ReplanAnswer, *, dry_run: bool
    ) -> ReplanAnswer:
        if answer.how is ReplanKind.RECONFIGURATION:
            answer = self._reconfigured(caller, row, composed, answer, dry_run=dry_run)
        if answer.how is ReplanKind.REPLACEMENT and not dry_run:
            self._changes.dataflows.replace(row.id, composed.document, who=caller.who, pipeline=composed.pipeline)
        elif not dry_run and composed.pipeline.decode() != row.pipeline:
            # Only now, because the reconfiguration may have been refused.
            self._changes.dataflows.keep_pipeline(row.id, composed.pipeline, who=caller.who)
        return answer

    def _reconfigured(
        self, caller: Caller, row: DataflowRow, composed: Composed, answer: ReplanAnswer, *, dry_run: bool
    ) -> ReplanAnswer:
        changes = Reconfigurations(self._tools)
        form = ReconfigurationForm(document=dict(composed.planned.assembled.document))
        apply = changes.preview if dry_run else changes.begin
        reshaped = bool(rerouted(row.document, composed.document.decode()))
        try:
            # A replacement would drop all states below; this drops those that do not go with the events from now on.
            begun = apply(caller, row.id, form, lenient=reshaped)
        except InvalidDataflow as refused:
            if not reshaped or not {each.code for each in refused.errors} <= _PLACED_ANEW:
                raise
            why = refused.errors[0].message
            return answer.model_copy(update={"how": ReplanKind.REPLACEMENT, "why": why})
        return answer.model_copy(update={"reconfiguration": begun})

    def _own(self, caller: Caller, dataflow: str) -> DataflowRow:
        with self._store.read() as session:
            row = running_dataflow(session, dataflow)
        if caller.tenant not in {None, row.tenant}:
            raise NotFound("dataflow", dataflow)
        return row


def _kind(row: DataflowRow, composed: Composed) -> tuple[ReplanKind, str]:
    """How a plan takes effect, as far as the documents say, and why it is a replacement."""
    document = composed.document.decode()
    if (problem := next(shape_problems(row.document, document), None)) is not None:
        return ReplanKind.REPLACEMENT, problem.message
    same = _tasks(row.document) == _tasks(document) and not rerouted(row.document, document)
    return ReplanKind.NOTHING if same else ReplanKind.RECONFIGURATION, ""


def _tasks(document: str) -> dict[str, tuple[object, object]]:
    return {task["id"]: (task["type"], task.get("config", {})) for task in json.loads(document)["tasks"]}
