"""A dynamic dataflow as the adapter remembers it from look to look."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from adaptation.decision import ChoiceDecision, Ground, StandingChoice
from adaptation.documents.dynamic_document import DynamicDocument, Selection
from adaptation.documents.dynamic_form import Policy
from adaptation.documents.resolution import NotAResolution, choices_in
from adaptation.flow import ONLY, FlowFigures, TaskMeasure, flow_of
from adaptation.forecast import forecast
from adaptation.guards.guard_states import BEFORE_ANY_LOOK, GuardStates, advance
from adaptation.guards.observed import Observed
from adaptation.permission import Permission, guards_of, permission, value_guards_of
from manager.cases.adaptive.flow_measurement import FlowMeasured
from manager.store.tables import DataflowRow

BY_HAND = "(by hand)"
"""The rule that fixes what its tenant has chosen."""
_SETTLED = 15.0
"""Seconds that an alternate must have stood before what is measured is its cost."""
_RETRY = 300.0
"""Seconds for which an alternate is not chosen again after it went back by itself."""
_HISTORY = 60
_AHEAD = 12
"""Rates in the history, and steps that are looked ahead; a step is five seconds."""
_STEP = 5.0


class AdaptedRow(NamedTuple):
    """A row of a dynamic dataflow, and what it runs by its policy; made when the row is new or has changed."""

    row: DataflowRow
    policy: Policy
    chosen: Selection | None
    """What its document stands for; None where it was changed otherwise."""

    @property
    def trouble(self) -> str:
        """Why it does not adapt."""
        return "" if self.chosen is not None else "it was changed otherwise; replace it with its document to go on"


@dataclass(kw_only=True)
class AdaptedDataflow:
    """One dataflow; one thread's."""

    dynamic: DynamicDocument
    as_of: AdaptedRow
    standing: StandingChoice
    left: Selection | None = None
    """What stood before the last switch."""
    states: GuardStates = BEFORE_ANY_LOOK
    learnt: dict[tuple[str, str], TaskMeasure] = field(default_factory=dict)
    failed: dict[tuple[str, str], float] = field(default_factory=dict)
    """Until when each alternate that went back by itself is not chosen."""
    rates: dict[str, deque[float]] = field(default_factory=dict)
    measured: FlowMeasured | None = None
    decision: ChoiceDecision | None = None
    """The last one."""
    looked: float = 0.0
    """When it was looked at last."""
    stepped: float = 0.0
    """When the last rates were added."""

    def settle(self, now: float) -> None:
        """Go by what runs, now that nothing is under way: a switch may have gone back by itself."""
        there, sent = self.as_of.chosen, self.standing.choice
        if there is None or there == sent:
            return
        changed = [task for task, name in there.alternates.items() if sent.alternates[task] != name]
        if there == self.left:
            self.failed |= {(task, sent.alternates[task]): now + _RETRY for task in changed}
        since = {**self.standing.since, **dict.fromkeys(changed, now)}
        self.standing, self.left = StandingChoice(choice=there, since=since), None

    def go(self, decision: ChoiceDecision) -> None:
        """Note that what was decided is on its way."""
        self.left, self.standing = self.standing.choice, decision.standing

    def look(self, observed: Observed, measured: FlowMeasured | None, now: float) -> None:
        """Take what was observed."""
        self.measured, self.looked = measured, now
        guards, values = guards_of(self.dynamic, self.as_of.policy), value_guards_of(self.dynamic)
        self.states = advance(guards, values, self.states, observed)
        if measured is None:
            return
        for task, each in measured.tasks.items():
            since = self.standing.since.get(task)
            if since is None or now - since >= _SETTLED:
                self.learnt[task, self.standing.choice.alternates.get(task, ONLY)] = each
        if now - self.stepped >= _STEP:
            self.stepped = now
            for task, rate in measured.rates.items():
                self.rates.setdefault(task, deque(maxlen=_HISTORY)).append(rate)

    def ground(self, now: float) -> Ground | None:
        """What a decision on it rests on; None as long as too little was measured."""
        if self.measured is None:
            return None
        rates = {task: max(rate, self._expected(task)) for task, rate in self.measured.rates.items()}
        figures = FlowFigures(rates=rates, measured=self.learnt, numbers=self.states.numbers)
        return Ground(
            flow=flow_of(self.dynamic, figures),
            permission=self.permission(now),
            policy=self.as_of.policy,
            cores=self.measured.cores,
            now=now,
        )

    def permission(self, now: float) -> Permission:
        """What guards, rules, and hands permit; without what went back by itself a while ago."""
        found = permission(self.dynamic, self.as_of.policy, self.states, self.standing.choice)
        alternates = {
            task: frozenset(name for name in names if self.failed.get((task, name), now) <= now) or names
            for task, names in found.alternates.items()
        }
        pinned: Mapping[str, str | bool] = self.as_of.row.pinned or {}
        for name, chosen in pinned.items():
            if name in alternates:
                alternates[name] = frozenset({str(chosen)})
        opened = {name: bool(pinned.get(name, is_open)) for name, is_open in found.opened.items()}
        rules = {**found.rules, **dict.fromkeys(pinned, BY_HAND)}
        return replace(found, alternates=alternates, opened=opened, rules=rules)

    def _expected(self, task: str) -> float:
        history = self.rates.get(task)
        return forecast(tuple(history), _AHEAD).highest if history else 0.0


class AdaptationBoard:
    """What is known of the dynamic dataflows that run: put up by the adapter, read by any thread."""

    def __init__(self) -> None:
        self.known: Mapping[str, AdaptedDataflow] = {}
        """By dataflow; replaced as a whole."""


def adapted_dataflow(dynamic: DynamicDocument, as_of: AdaptedRow) -> AdaptedDataflow:
    """A dataflow that was not known so far."""
    return AdaptedDataflow(dynamic=dynamic, as_of=as_of, standing=StandingChoice(choice=as_of.chosen or dynamic.first))


def adapted_row(row: DataflowRow, dynamic: DynamicDocument) -> AdaptedRow:
    """A row as it is now."""
    policy = dynamic.policy if row.policy is None else Policy.model_validate_json(row.policy)
    try:
        chosen = choices_in(json.loads(row.document), dynamic)
    except NotAResolution:
        chosen = None
    return AdaptedRow(row, policy, chosen)
