"""The model: a planning problem in CP-SAT."""

from collections.abc import Iterator, Mapping, Sequence

from ortools.sat.python import cp_model

from planning.constraint import affected
from planning.formulas import Formulas, Literal, State, Values, negated
from planning.landmarks import landmarks
from planning.pipeline_plan import TimeLeft, look
from planning.places import Junction, Place, base, entry, inlet, meetings
from planning.planning_problem import Criterion, Meeting, Option, PlanningProblem, Vertex
from planning.reach import Reach
from planning.reuse import Residue

Options = Mapping[str, Literal]
"""The literal of each option of a vertex; exactly one of them holds."""


class Model:
    """A problem in CP-SAT, and what its answers mean."""

    def __init__(self, problem: PlanningProblem, left: Reach, time_left: TimeLeft) -> None:
        self.problem = problem
        self.solver_model = cp_model.CpModel()
        self._formulas = Formulas(self.solver_model)
        self.left = left
        self._time_left = time_left
        self._types = frozenset(each.name for each in problem.variables if each.is_type)
        self.states: dict[Place, State] = {}
        self.options: dict[str, Options] = {}
        for stream in problem.given:
            self.states[stream] = self._formulas.state(left.domains[stream])
        for vertex in problem.vertices:
            look(time_left)
            self._add_meetings(vertex)
            self._add_options(vertex)
            self._add_outputs(vertex)
        for vertex in problem.vertices:
            # The other may come later.
            self._agree(vertex)
        for goal in problem.goals:
            for stream in goal.streams:
                self._formulas.impose(goal.holds, self.states[stream])
        for each in landmarks(problem, left):
            look(time_left)
            self._formulas.require([self.options[vertex][option] for vertex, option in each])
        for options in problem.excluded:
            self._formulas.require([], when=[self.options[vertex].get(name, False) for vertex, name in options.items()])

    def figure(self, criterion: Criterion) -> cp_model.LinearExprT:
        """What a criterion counts."""
        if criterion is Criterion.RESIDUE:
            return Residue(self.problem, self.left.options, self.options, self._formulas, self._time_left).figure
        weights = [
            (self.problem.weight(vertex, option, criterion), self.options[vertex.id][option.name])
            for vertex in self.problem.vertices
            for option in self.left.options[vertex.id]
        ]
        return sum(weight * literal for weight, literal in weights if weight)

    def _add_meetings(self, vertex: Vertex) -> None:
        for place, parts in meetings(vertex):
            met: dict[str, Values] = {}
            for name, values in self.left.domains[place].items():
                entering = [self.states[part][name] for part in parts]
                if name in self._types and isinstance(place, Junction):
                    met[name] = entering[0]
                elif vertex.meeting is Meeting.EQUAL if name not in self._types else not vertex.mixes_types:
                    for other in entering[1:]:
                        self._formulas.equal(entering[0], other)
                    met[name] = entering[0]
                else:
                    met[name] = self._formulas.choice(values)
                    for value, literal in met[name].items():
                        self._formulas.require([each.get(value, False) for each in entering], when=[literal])
            self.states[place] = met

    def _add_options(self, vertex: Vertex) -> None:
        options = self.left.options[vertex.id]
        self.options[vertex.id] = self._formulas.choice([option.name for option in options])
        self._formulas.impose(vertex.requires, self.states[entry(vertex)])
        for option in self.left.options[vertex.id]:
            for each in vertex.inputs:
                if each.port in option.requires:
                    self._formulas.impose(
                        option.requires[each.port],
                        self.states[inlet(vertex, each)],
                        when=[self.options[vertex.id][option.name]],
                    )

    def _agree(self, vertex: Vertex) -> None:
        """A vertex holds the same as the one that it names."""
        if vertex.same:
            for option in self.left.options[vertex.id]:
                equals = [other for other in self.left.options[vertex.same] if other.filling == option.filling]
                chosen = self.options[vertex.id][option.name]
                self._formulas.require([self.options[vertex.same][other.name] for other in equals], when=[chosen])

    def _add_outputs(self, vertex: Vertex) -> None:
        options = self.left.options[vertex.id]
        for stream in vertex.streams():
            kept: dict[frozenset[str], Literal] = {}
            changing = {option.name: affected(option.ensured(stream.port)) for option in options}
            changed = frozenset[str]().union(*changing.values())
            after: dict[str, Values] = {}
            for name, values in self.left.domains[stream].items():
                carried = {option.name: self._carried(vertex, option, name) for option in options}
                first, *others = carried.values()
                if name not in changed and all(each is first for each in others):
                    after[name] = first
                    continue
                after[name] = self._formulas.choice(values)
                for before, keeping in _grouped(carried, [other for other in carried if name not in changing[other]]):
                    if keeping not in kept:
                        changers = [self.options[vertex.id][other] for other in carried if other not in keeping]
                        kept[keeping] = negated(self._formulas.some_of(changers))
                    self._formulas.equal(before, after[name], when=[kept[keeping]])
            self.states[stream] = after
            for option in options:
                chosen = [self.options[vertex.id][option.name]]
                self._formulas.impose(option.ensured(stream.port), after, when=chosen)
            self._formulas.impose(vertex.ensures, after)

    def _carried(self, vertex: Vertex, option: Option, name: str) -> Values:
        """What goes on if an option does not affect it."""
        place = base(vertex, option) if name in self._types else entry(vertex)
        return self.states[place][name]


def _grouped(carried: Mapping[str, Values], keeping: Sequence[str]) -> Iterator[tuple[Values, frozenset[str]]]:
    """Options that keep a value, by where they have it from."""
    groups: dict[int, list[str]] = {}
    for each in keeping:
        groups.setdefault(id(carried[each]), []).append(each)
    for some in groups.values():
        yield carried[some[0]], frozenset(some)
