"""The model: a planning problem in CP-SAT."""

from collections.abc import Mapping

from ortools.sat.python import cp_model

from planning.constraint import affected
from planning.formulas import Formulas, Literal, State, Values
from planning.places import Entry, Place, base, entry, inlet, meetings
from planning.problem import Action, Criterion, Meeting, Problem, Step
from planning.reach import Reach
from planning.reuse import Residue

Actions = Mapping[str, Literal]
"""The literal of each action of a step; exactly one of them holds."""


class Model:
    """A problem in CP-SAT, and what its answers mean."""

    def __init__(self, problem: Problem, left: Reach) -> None:
        self.problem = problem
        self.solver_model = cp_model.CpModel()
        self._formulas = Formulas(self.solver_model)
        self._left = left
        self._types = frozenset(each.name for each in problem.variables if each.is_type)
        self.states: dict[Place, State] = {}
        self.actions: dict[str, Actions] = {}
        for stream in problem.given:
            self.states[stream] = self._formulas.state(left.domains[stream])
        for step in problem.steps:
            self._add_meetings(step)
            self._add_actions(step)
            self._add_outputs(step)
        for goal in problem.goals:
            for stream in goal.streams:
                self._formulas.impose(goal.holds, self.states[stream])

    def figure(self, criterion: Criterion) -> cp_model.LinearExprT:
        """What a criterion counts."""
        if criterion is Criterion.RESIDUE:
            return Residue(self.problem, self._left, self.actions, self._formulas).figure
        weights = [
            (_weight(self.problem, step, action, criterion), self.actions[step.id][action.name])
            for step in self.problem.steps
            for action in self._left.actions[step.id]
        ]
        return sum(weight * literal for weight, literal in weights if weight)

    def _add_meetings(self, step: Step) -> None:
        for place, parts in meetings(step):
            met: dict[str, Values] = {}
            for name, values in self._left.domains[place].items():
                entering = [self.states[part][name] for part in parts]
                if name in self._types and isinstance(place, Entry):
                    met[name] = entering[0]
                elif step.meeting is Meeting.EQUAL if name not in self._types else not step.mixes_types:
                    for other in entering[1:]:
                        self._formulas.equal(entering[0], other)
                    met[name] = entering[0]
                else:
                    met[name] = self._formulas.choice(values)
                    for value, literal in met[name].items():
                        self._formulas.require([each.get(value, False) for each in entering], when=[literal])
            self.states[place] = met

    def _add_actions(self, step: Step) -> None:
        names = [action.name for action in self._left.actions[step.id]]
        if step.same:
            others = self.actions[step.same]
            self.actions[step.id] = {name: others.get(name, False) for name in names}
            self._formulas.require(self.actions[step.id].values())
        else:
            self.actions[step.id] = self._formulas.choice(names)
        self._formulas.impose(step.requires, self.states[entry(step)])
        for action in self._left.actions[step.id]:
            for each in step.inputs:
                if each.port in action.requires:
                    self._formulas.impose(
                        action.requires[each.port],
                        self.states[inlet(step, each)],
                        when=[self.actions[step.id][action.name]],
                    )

    def _add_outputs(self, step: Step) -> None:
        actions = self._left.actions[step.id]
        for stream in step.streams():
            changing = {action.name: affected(action.ensured(stream.port)) for action in actions}
            changed = frozenset[str]().union(*changing.values())
            before = self.states[entry(step)]
            after: dict[str, Values] = {}
            for name, values in self._left.domains[stream].items():
                carried = {action.name: self._carried(step, action, name) for action in actions}
                if name not in changed and all(each is carried[actions[0].name] for each in carried.values()):
                    after[name] = carried[actions[0].name] if actions else before[name]
                    continue
                after[name] = self._formulas.choice(values)
                for action in actions:
                    if name not in changing[action.name]:
                        chosen = [self.actions[step.id][action.name]]
                        self._formulas.equal(carried[action.name], after[name], when=chosen)
            self.states[stream] = after
            for action in actions:
                chosen = [self.actions[step.id][action.name]]
                self._formulas.impose(action.ensured(stream.port), after, when=chosen)
            self._formulas.impose(step.ensures, after)

    def _carried(self, step: Step, action: Action, name: str) -> Values:
        """What goes on if an action does not affect it."""
        place = base(step, action) if name in self._types else entry(step)
        return self.states[place][name]


def _weight(problem: Problem, step: Step, action: Action, criterion: Criterion) -> int:
    match criterion:
        case Criterion.CHANGES:
            return int(step.id in problem.present and problem.present[step.id] != action.name)
        case Criterion.COST:
            return action.cost
        case Criterion.QUALITY:
            return action.quality
        case _:
            return int(action.is_no_op)
