"""Adaptations of dynamic dataflows: shown, steered by policy, and chosen by hand."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from adaptation.document_reader import read_policy
from adaptation.documents import DynamicDocument, DynamicTask
from adaptation.flow import FlowFigures, flow_of
from adaptation.guards import MetricKey
from braid_client.answers.adaptations import AdaptationAnswer, AdaptiveTaskAnswer, AlternateAnswer, GuardedStreamAnswer
from braid_client.answers.overview import OperationKind
from dags import InvalidDocument, Problem
from dags.problems import listed, pointer, quoted, suggestion
from manager.adaptation.measurement import AdaptedDataflow, adapted_dataflow, adapted_row
from manager.adaptation.resolver import Resolver
from manager.kernel.dataflow_rows import keeping
from manager.problem import Conflict, InvalidRequest
from manager.store.tables import DataflowRow
from manager.use_case import Base, Caller

_MICROSECONDS = 1_000_000


class Adaptations(Base):
    """Dynamic dataflows, for their tenants and for operators."""

    def get(self, caller: Caller, dataflow: str) -> AdaptationAnswer:
        """Show what a dynamic dataflow has chosen, and by which figures."""
        row = self._own(caller, dataflow)
        known = self._tools.adaptations.known.get(dataflow)
        if known is None or known.as_of.row.dynamic != row.dynamic:
            dynamic = self._dynamic(row)
            known = adapted_dataflow(dynamic, adapted_row(row, dynamic))
        return _answer(row, known)

    def set_policy(self, caller: Caller, dataflow: str, raw: bytes) -> AdaptationAnswer:
        """Replace the policy. What runs stays, until the new policy asks for something else."""
        row = self._own(caller, dataflow)
        try:
            read_policy(raw, self._dynamic(row))
        except InvalidDocument as refused:
            raise InvalidRequest(refused.problems) from refused
        with keeping(self._committer, dataflow, OperationKind.SET_POLICY, who=caller.who) as kept:
            kept.policy = raw.decode()
        return self.get(caller, dataflow)

    def choose(self, caller: Caller, dataflow: str, pinned: Mapping[str, str | bool]) -> AdaptationAnswer:
        """Choose alternates and streams by hand; what is not named is left to the service again."""
        row = self._own(caller, dataflow)
        if problems := list(_wrong(self._dynamic(row), pinned)):
            raise InvalidRequest(problems)
        words = {True: "open", False: "closed"}
        chosen = (f"{name}: {words[pin] if isinstance(pin, bool) else pin}" for name, pin in sorted(pinned.items()))
        note = ", ".join(chosen) or "nothing"
        with keeping(self._committer, dataflow, OperationKind.CHOOSE, who=caller.who, note=note) as kept:
            kept.pinned = dict(pinned) or None
        return self.get(caller, dataflow)

    def _dynamic(self, row: DataflowRow) -> DynamicDocument:
        return Resolver(self._tools).read(row.tenant, row.dynamic or "")

    def _own(self, caller: Caller, dataflow: str) -> DataflowRow:
        row = self._own_dataflow(caller, dataflow)
        if row.dynamic is None:
            raise Conflict(
                f"the dataflow {dataflow!r} does not adapt; replace it with a document that has alternates, guarded "
                "streams or a policy"
            )
        return row


def _wrong(dynamic: DynamicDocument, pinned: Mapping[str, str | bool]) -> Iterator[Problem]:
    for name, chosen in pinned.items():
        known = {*dynamic.tasks, *dynamic.streams}
        if name not in known:
            remedy = suggestion(name, sorted(known), f"there are {listed(sorted(known))}")
            message = f"{quoted(name)} is neither a task with alternates nor a guarded stream"
            yield Problem(pointer=pointer(name), code="unknown-name", message=message, remedy=remedy)
        elif name in dynamic.streams and not isinstance(chosen, bool):
            message = f"the stream {quoted(name)} is open or not"
            yield Problem(pointer=pointer(name), code="wrong-value", message=message, remedy="give true or false")
        elif name in dynamic.tasks and chosen not in dynamic.tasks[name].alternates:
            alternates = list(dynamic.tasks[name].alternates)
            message = f"the task {quoted(name)} has no such alternate"
            remedy = suggestion(str(chosen), alternates, f"there are {listed(alternates)}")
            yield Problem(pointer=pointer(name), code="unknown-alternate", message=message, remedy=remedy)


def _answer(row: DataflowRow, known: AdaptedDataflow) -> AdaptationAnswer:
    measured = known.measured
    figures = FlowFigures(
        rates={} if measured is None else measured.rates, measured=dict(known.learnt), numbers=known.states.numbers
    )
    flow = flow_of(known.dynamic, figures)
    chosen = known.standing.choice
    metrics = {} if measured is None else measured.metrics
    as_of = adapted_row(row, known.dynamic)
    permission = known.permission(known.looked)
    alternates = {task.id: task.alternates for task in flow.tasks}

    def task_answer(task: DynamicTask) -> AdaptiveTaskAnswer:
        since = known.standing.since.get(task.id)
        return AdaptiveTaskAnswer(
            task=task.id,
            active=chosen.alternates[task.id],
            since=None if since is None else datetime.fromtimestamp(since, UTC),
            rule=permission.rules.get(task.id, ""),
            alternates=tuple(
                AlternateAnswer(
                    name=name,
                    value=round(alternate.value, 6),
                    cost=round(alternate.cost * _MICROSECONDS, 3),
                    selectivity=round(alternate.selectivity, 6),
                    measured=(task.id, name) in known.learnt,
                    permitted=name in permission.alternates[task.id],
                )
                for name, alternate in alternates[task.id].items()
            ),
        )

    policy: dict[str, Any] = json.loads(as_of.policy.model_dump_json(by_alias=True, exclude_none=True))
    return AdaptationAnswer(
        dataflow=row.id,
        policy=policy,
        pinned=row.pinned or {},
        tasks=tuple(map(task_answer, known.dynamic.tasks.values())),
        streams=tuple(
            GuardedStreamAnswer(stream=name, open=chosen.opened[name], rule=permission.rules.get(name, ""))
            for name in known.dynamic.streams
        ),
        value=round(flow.value(chosen.alternates), 6),
        throughput=metrics.get(MetricKey("throughput", None)),
        cores_needed=None if measured is None else round(flow.need(chosen), 6),
        cores=None if measured is None else round(measured.cores, 6),
        rate=metrics.get(MetricKey("rate", None)),
        trouble=as_of.trouble,
    )
