"""Pipelines of running dataflows: planned again, so that the difference takes effect while they run."""

import json
from collections.abc import Sequence

from braid_client.answers.overview import OperationKind
from braid_client.answers.pipelines import ReplanAnswer, ReplanForm, ReplanKind
from braid_client.answers.reconfigurations import ReconfigurationForm
from dags.json_text import read_form
from dags.vocabulary import Criterion
from manager.documents.edited import compared
from manager.kernel.dataflow_rows import keeping, running_dataflow, take_origin
from manager.kernel.registered_sources import as_submitted
from manager.pipelines.composer import (
    Composed,
    PipelineComposer,
    Present,
    changed_places,
    fillings_in,
    plan_answer,
    previewed,
    steady,
)
from manager.problem import Conflict, InvalidDataflow
from manager.reconfigurations.use_cases import Reconfigurations
from manager.store.tables import DataflowRow
from manager.use_case import Base, Caller
from merge import Instance
from planning.forms import PipelineForm

_PLACED_ANEW = frozenset({"no-host", "other-code", "other-jobs"})
"""The problems with a reconfiguration that a replacement does not have, because it places tasks anew."""


class Pipelines(Base):
    """Pipelines, for the tenants of their dataflows and for operators."""

    def replan(self, caller: Caller, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline again, and apply the difference; without a better plan everything stays as it is.

        The difference is one reconfiguration, in which tasks keep their states, also if places begin or cease to hold
        something. Only what cannot be reconfigured is replaced: tasks above go on, and those below begin anew.
        """
        row = self._own_dataflow(caller, dataflow, running_dataflow)
        if row.pipeline is None:
            raise Conflict(f"the dataflow {dataflow!r} has no open places; submit a pipeline to have it planned")
        before = fillings_in(row.document, row.pipeline)
        composed = self._composed(row, form)
        after = composed.planned.fillings
        changed = tuple(place.id for place in changed_places(before, after))
        kind, why = self._kind(row, composed)
        answer = ReplanAnswer(
            dataflow=dataflow,
            how=kind,
            why=why,
            plan=previewed(PipelineComposer(self._tools), row.tenant, composed, dataflow=row.id)
            if dry_run
            else plan_answer(composed.planned),
            changed=changed,
        )
        return self._apply(caller, row, composed, answer, dry_run=dry_run)

    def _composed(self, row: DataflowRow, form: ReplanForm) -> Composed:
        pipeline = row.pipeline or ""
        raw = (pipeline if form.pipeline is None else json.dumps(form.pipeline, ensure_ascii=False)).encode()
        criteria: Sequence[Criterion] | None = form.prefer
        if criteria is None:
            criteria = steady(read_form(pipeline, PipelineForm).prefer)
        present = Present(
            dataflow=row.id, fillings=fillings_in(row.document, pipeline), without=frozenset(form.without)
        )
        return PipelineComposer(self._tools).composed(row.tenant, raw, present=present, criteria=criteria)

    def _apply(
        self, caller: Caller, row: DataflowRow, composed: Composed, answer: ReplanAnswer, *, dry_run: bool
    ) -> ReplanAnswer:
        if answer.how is ReplanKind.RECONFIGURATION:
            answer = self._reconfigured(caller, row, composed, answer, dry_run=dry_run)
        if answer.how is ReplanKind.REPLACEMENT and not dry_run:
            self._changes.dataflows.replace(row.id, composed.document, who=caller.who, origin=composed.origin)
        elif not dry_run and composed.pipeline.decode() != row.pipeline:
            # Only now, because the reconfiguration may have been refused.
            with keeping(self._committer, row.id, OperationKind.REPLAN, who=caller.who) as kept:
                take_origin(kept, composed.origin)
        return answer

    def _reconfigured(
        self, caller: Caller, row: DataflowRow, composed: Composed, answer: ReplanAnswer, *, dry_run: bool
    ) -> ReplanAnswer:
        changes = Reconfigurations(self._tools)
        form = ReconfigurationForm(document=dict(composed.planned.assembled.document))
        reshaped = bool(compared(row.document, composed.document.decode()).rerouted)
        try:
            # A replacement would drop all states below; this drops those that do not go with the events from now on.
            if dry_run:
                begun = changes.preview(caller, row.id, form, lenient=reshaped)
            else:
                begun = changes.fill(caller, row.id, form, revision=row.revision, lenient=reshaped)
        except InvalidDataflow as refused:
            if not reshaped or not {problem.code for problem in refused.errors} <= _PLACED_ANEW:
                raise
            why = refused.errors[0].message
            return answer.model_copy(update={"how": ReplanKind.REPLACEMENT, "why": why})
        return answer.model_copy(update={"reconfiguration": begun})

    def _kind(self, row: DataflowRow, composed: Composed) -> tuple[ReplanKind, str]:
        """How a plan takes effect, as far as the documents say, and why it is a replacement."""
        document = composed.document.decode()
        difference = compared(row.document, document)
        if difference.problem is not None:
            return ReplanKind.REPLACEMENT, difference.problem.message
        if _tasks(row.document) == _tasks(document) and not difference.rerouted:
            return ReplanKind.NOTHING, ""
        if self._is_outdated(row):
            # A reconfiguration goes by the schemas that it was submitted with, and this was planned by those of now.
            return ReplanKind.REPLACEMENT, "a source has another schema than when the pipeline was submitted"
        return ReplanKind.RECONFIGURATION, ""

    def _is_outdated(self, row: DataflowRow) -> bool:
        """Tell whether a source of a dataflow has another schema by now."""
        with self._committer.looking() as state:
            tasks = [
                task for instance in row.instances if (task := state.running.tasks.get(Instance(instance))) is not None
            ]
            return as_submitted(state.sources, tasks) is not state.sources


def _tasks(document: str) -> dict[str, tuple[object, object]]:
    return {task["id"]: (task["type"], task.get("config", {})) for task in json.loads(document)["tasks"]}
