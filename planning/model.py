"""The model: a planning problem in CP-SAT, with the tasks of a plan that already run or are the same as others.

A literal is True or False where the model has no choice, so that nothing decided costs a variable.

For reuse, every stream has a content: the makers of its events, which are tasks that run or vertices of the plan. A
vertex makes its stream itself, or is an equal running task or an equal vertex before it, which then is the maker. A
vertex that does nothing passes on what enters it, also where streams meet, so a content may have several makers, or one
several times. Two tasks are equal if they compute the same of equal contents; that is what merging looks up.

A content names no more makers than somebody could ask about. Below each other, two vertices are never equal. So in a
chain only what runs is distinguished, and the model grows with its places and with what runs, not with pairs of places.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from dags.vocabulary import Criterion
from planning.constraint import All, Constraint, Domains, Equals, Not, Same, Some, affected
from planning.plan import TimeLeft, look, peers_of
from planning.problem import (
    Junction,
    Option,
    Outlet,
    Place,
    PlanningProblem,
    RunningVertex,
    Vertex,
    base,
    entry,
    inlet,
    meetings,
)
from planning.reach import Reach, landmarks

Literal = cp_model.BoolVarT | bool
"""A boolean of the model, or a constant."""
Values = Mapping[str, Literal]
"""The literal of each value that a variable may have; exactly one of them holds."""
State = Mapping[str, Values]


def negated(literal: Literal) -> Literal:
    """The literal that holds if one does not."""
    return not literal if isinstance(literal, bool) else ~literal


class Formulas:
    """Literals over one model."""

    def __init__(self, model: cp_model.CpModel) -> None:
        self.model = model

    def choice(self, values: Iterable[str]) -> Values:
        """One of some values."""
        names = sorted(values)
        if len(names) == 1:
            return {names[0]: True}
        literals: dict[str, Literal] = {name: self.model.new_bool_var("") for name in names}
        self.model.add_exactly_one(literals.values())
        return literals

    def state(self, domains: Domains) -> State:
        """A state of its own."""
        return {name: self.choice(values) for name, values in domains.items()}

    def require(self, literals: Iterable[Literal], *, when: Iterable[Literal] = ()) -> None:
        """At least one holds whenever all of `when` do."""
        clause = [*literals, *map(negated, when)]
        if not any(literal is True for literal in clause):
            self.model.add_bool_or([literal for literal in clause if literal is not False])

    def equal(self, one: Values, two: Values, *, when: Iterable[Literal] = ()) -> None:
        """Both variables have the same value whenever all of `when` hold."""
        if one is two:
            return
        given = tuple(when)
        for value in one.keys() | two.keys():
            # The other direction follows: exactly one value holds on either side.
            self.require([two.get(value, False)], when=[*given, one.get(value, False)])

    def holds(self, constraint: Constraint, state: State) -> Literal:
        """The literal that a constraint holds in a state."""
        match constraint:
            case Equals(variable, value):
                return state[variable].get(value, False)
            case Same(variable, other):
                one, two = state[variable], state[other]
                return self.some_of(
                    [self.all_of([one[value], two[value]]) for value in sorted(one.keys() & two.keys())]
                )
            case Not(part):
                return negated(self.holds(part, state))
            case All(parts):
                return self.all_of([self.holds(part, state) for part in parts])
            case Some(parts):
                return self.some_of([self.holds(part, state) for part in parts])

    def impose(self, constraint: Constraint, state: State, *, when: Iterable[Literal] = ()) -> None:
        """A constraint holds in a state whenever all of `when` do."""
        given = tuple(when)
        if isinstance(constraint, All):
            for part in constraint.parts:
                self.impose(part, state, when=given)
        else:
            self.require([self.holds(constraint, state)], when=given)

    def all_of(self, literals: list[Literal]) -> Literal:
        """The literal that all of some hold."""
        return negated(self.some_of([negated(literal) for literal in literals]))

    def some_of(self, literals: list[Literal]) -> Literal:
        """The literal that some of them hold."""
        if any(literal is True for literal in literals):
            return True
        left = [literal for literal in literals if literal is not False]
        if not left:
            return False
        if not left[1:]:
            return left[0]
        any_holds = self.model.new_bool_var("")
        self.model.add_bool_or([*left, ~any_holds])
        for literal in left:
            self.model.add_implication(literal, any_holds)
        return any_holds


_NOTHING = "nothing"
_OTHER = "other"
"""A maker that nobody asks about."""
_SHARED = ""
"""The scope of what may be shared with anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """The makers of the events on a stream; made for each by `Residue`."""

    counts: Mapping[str, cp_model.LinearExprT]
    """How often a maker is in it."""
    most: int
    """The makers that it has at most, counted as often as they are in it."""
    scopes: Values
    """The scopes of its makers. At least those that are true are its own; one that is needlessly true shares less."""

    @property
    def values(self) -> Values | None:
        """The literal of each maker, if it always has exactly one."""
        return self.counts if self.most == 1 else None  # type: ignore[return-value]  # then they are literals


class Residue:
    """The tasks of a plan that have to be started."""

    def __init__(
        self,
        problem: PlanningProblem,
        left: Mapping[str, Sequence[Option]],
        options: Mapping[str, Values],
        formulas: Formulas,
        time_left: TimeLeft,
    ) -> None:
        self._left = left
        self._options = options
        self._formulas = formulas
        self._texts = {vertex.id: self._texts_of(vertex) for vertex in problem.vertices}
        self._made: dict[str, Values] = {}
        self._contents = {stream: self._given(problem, stream) for stream in problem.given}
        self._peers = peers_of(problem.vertices, left, lambda: look(time_left))
        self._read = {_at(_running(stream.origin), stream.port) for task in problem.running for stream in task.reads()}
        running: dict[str, list[RunningVertex]] = {}
        for task in problem.running:
            running.setdefault(task.computes, []).append(task)
        for vertex in problem.vertices:
            look(time_left)
            self._add(vertex, [task for text in self._texts[vertex.id] for task in running.get(text, ())])
        self.figure: cp_model.LinearExprT = sum(self._made[vertex.id][_new(vertex.id)] for vertex in problem.vertices)

    def _texts_of(self, vertex: Vertex) -> Values:
        """The literal of each text that a vertex may compute and share."""
        literals: dict[str, list[Literal]] = {}
        for option in self._left[vertex.id]:
            if option.computes and not option.is_no_op:
                literals.setdefault(option.computes, []).append(self._options[vertex.id][option.name])
        return {text: self._formulas.some_of(some) for text, some in literals.items()}

    def _given(self, problem: PlanningProblem, stream: Outlet) -> _Content:
        is_confined = stream.origin in problem.confined
        maker = _new(stream.origin) if is_confined else _running(problem.origins.get(stream.origin, stream.origin))
        scope = stream.origin if is_confined else _SHARED
        return _Content(counts={_at(maker, stream.port): True}, most=1, scopes={scope: True})

    def _add(self, vertex: Vertex, tasks: Iterable[RunningVertex]) -> None:
        idle, alone = (
            self._formulas.some_of(
                [self._options[vertex.id][option.name] for option in self._left[vertex.id] if is_such(option)]
            )
            for is_such in (lambda option: option.is_no_op, lambda option: not (option.is_no_op or option.computes))
        )
        entering = {
            inflow.port: self._met([self._contents[stream] for stream in inflow.streams]) for inflow in vertex.inputs
        }
        runs = [task for task in tasks if self._may_run_as(entering, task)]
        equals = [peer for peer in self._peers.before[vertex.id] if self._may_be_as(vertex, entering, peer)]
        made = self._formulas.choice(
            [
                _new(vertex.id),
                *(_running(task.id) for task in runs),
                *(_new(peer.id) for peer in equals),
                *([] if idle is False else [_NOTHING]),
            ]
        )
        self._made[vertex.id] = made
        self._formulas.require([made.get(_NOTHING, False)], when=[idle])
        self._formulas.require([idle], when=[made.get(_NOTHING, False)])
        for task in runs:
            self._run_as(vertex, entering, task, made[_running(task.id)])
        scopes, is_mixed = self._scopes(list(entering.values()))
        for other in equals:
            self._be_as(vertex, other, made[_new(other.id)], is_mixed)
        leaving = self._leaving_scopes(vertex, scopes, idle, alone, is_mixed)
        for stream in vertex.streams():
            own = {_at(maker, stream.port): literal for maker, literal in made.items() if maker != _NOTHING}
            self._contents[stream] = self._passed(vertex, own, idle, entering, leaving)

    def _met(self, contents: Sequence[_Content]) -> _Content:
        """The content where streams meet at a port."""
        if len(contents) == 1:
            return contents[0]
        makers = sorted({maker for content in contents for maker in content.counts})
        return _Content(
            counts={maker: sum(content.counts.get(maker, 0) for content in contents) for maker in makers},
            most=sum(content.most for content in contents),
            scopes=self._scopes(contents)[0],
        )

    def _scopes(self, contents: Sequence[_Content]) -> tuple[Values, Literal]:
        """The scopes of contents together, and the literal that they are several."""
        names = sorted({name for content in contents for name in content.scopes})
        scopes = {
            name: self._formulas.some_of([content.scopes[name] for content in contents if name in content.scopes])
            for name in names
        }
        if len(names) == 1 or sum(content.most for content in contents) == 1:
            return scopes, False
        is_mixed = self._formulas.model.new_bool_var("")
        self._formulas.model.add(sum(scopes.values()) <= 1).only_enforce_if(~is_mixed)
        return scopes, is_mixed

    def _leaving_scopes(
        self, vertex: Vertex, entering: Values, idle: Literal, alone: Literal, is_mixed: Literal
    ) -> Values:
        """The scopes of what a vertex makes or passes on: one of its own for what is not shared, or mixes scopes."""
        has_own = alone is not False or is_mixed is not False
        inherits = alone is not True
        names = [*(entering if inherits else ()), *([vertex.id] if has_own else ())]
        if len(names) == 1:
            return {names[0]: True}
        leaving = {name: self._formulas.model.new_bool_var("") for name in names}
        for name, literal in entering.items():
            self._formulas.require([leaving[name]], when=[literal, negated(alone), negated(is_mixed)])
            self._formulas.require([leaving[name]], when=[literal, idle])
        if has_own:
            self._formulas.require([leaving[vertex.id]], when=[alone])
            self._formulas.require([leaving[vertex.id]], when=[is_mixed, negated(idle)])
        return leaving

    def _passed(
        self, vertex: Vertex, own: Values, idle: Literal, entering: Mapping[str, _Content], scopes: Values
    ) -> _Content:
        """The content of a stream of a vertex: of what it makes, or of all that enters if it does nothing."""
        own = self._named(vertex, own)
        if idle is False:
            return _Content(counts=own, most=1, scopes=scopes)
        (passing,) = entering.values()
        if passing.values is not None:
            through = self._named(vertex, passing.values)
            makers = self._formulas.choice(own.keys() | through.keys())
            for maker, literal in own.items():
                self._formulas.require([makers[maker]], when=[literal, negated(idle)])
            for maker, literal in through.items():
                self._formulas.require([makers[maker]], when=[literal, idle])
            return _Content(counts=makers, most=1, scopes=scopes)
        counts: dict[str, cp_model.LinearExprT] = {}
        for maker in sorted(own.keys() | passing.counts.keys()):
            counts[maker] = self._formulas.model.new_int_var(0, passing.most, "")
            self._equal(counts[maker], own.get(maker, False), [negated(idle)])
            self._equal(counts[maker], passing.counts.get(maker, 0), [idle])
        return _Content(counts=counts, most=passing.most, scopes=scopes)

    def _named(self, vertex: Vertex, makers: Values) -> Values:
        """Makers as far as somebody below a vertex could ask about them."""
        kept: dict[str, Literal] = {}
        others: list[Literal] = []
        for maker, literal in makers.items():
            if vertex.id in self._peers.compared or maker in self._read:
                kept[maker] = literal
            else:
                others.append(literal)
        return {**kept, _OTHER: self._formulas.some_of(others)} if others else kept

    def _may_run_as(self, entering: Mapping[str, _Content], task: RunningVertex) -> bool:
        wanted = _wanted(task)
        return entering.keys() == wanted.keys() and all(
            makers.keys() <= entering[port].counts.keys() and makers.total() <= entering[port].most
            for port, makers in wanted.items()
        )

    def _run_as(self, vertex: Vertex, entering: Mapping[str, _Content], task: RunningVertex, literal: Literal) -> None:
        """A vertex is a running task only if it computes the same, of what the same tasks make."""
        self._formulas.require([self._texts[vertex.id][task.computes]], when=[literal])
        for port, makers in _wanted(task).items():
            if (values := entering[port].values) is not None:
                (maker,) = makers
                self._formulas.require([values[maker]], when=[literal])
                continue
            for maker, count in entering[port].counts.items():
                self._equal(count, makers[maker], [literal])

    def _may_be_as(self, vertex: Vertex, entering: Mapping[str, _Content], other: Vertex) -> bool:
        """Whether contents could be equal; not if there is no maker that both may have."""
        read = {inflow.port: inflow.streams for inflow in other.inputs}
        for inflow in vertex.inputs:
            if Counter(inflow.streams) != Counter(read[inflow.port]):
                makers = {maker for stream in read[inflow.port] for maker in self._contents[stream].counts}
                if not (makers & entering[inflow.port].counts.keys()) - {_OTHER}:
                    return False
        return True

    def _be_as(self, vertex: Vertex, other: Vertex, literal: Literal, is_mixed: Literal) -> None:
        """A vertex is one before it only if that one is started, and both compute the same of the same."""
        self._formulas.require([self._made[other.id][_new(other.id)]], when=[literal])
        self._formulas.require([], when=[literal, is_mixed])
        texts = self._texts[other.id]
        self._formulas.require(self._texts[vertex.id].values(), when=[literal])
        for text, chosen in self._texts[vertex.id].items():
            self._formulas.require([texts.get(text, False)], when=[literal, chosen])
        read = {inflow.port: inflow.streams for inflow in other.inputs}
        for inflow in vertex.inputs:
            # What both read cancels out.
            ours = list((Counter(inflow.streams) - Counter(read[inflow.port])).elements())
            theirs = list((Counter(read[inflow.port]) - Counter(inflow.streams)).elements())
            if ours or theirs:
                self._same([self._contents[one] for one in ours], [self._contents[one] for one in theirs], literal)

    def _same(self, ours: Sequence[_Content], theirs: Sequence[_Content], literal: Literal) -> None:
        """Contents are equal, maker by maker, if a literal holds."""
        if len(ours) == len(theirs) == 1 and ours[0].values is not None and theirs[0].values is not None:
            # Each has exactly one maker, so it is enough to say it from the shorter side.
            short, long = sorted((ours[0].values, theirs[0].values), key=len)
            for maker, chosen in short.items():
                same = False if maker == _OTHER else long.get(maker, False)
                self._formulas.require([same], when=[literal, chosen])
            return
        for maker in sorted({maker for content in (*ours, *theirs) for maker in content.counts}):
            one, two = (sum(content.counts.get(maker, 0) for content in side) for side in (ours, theirs))
            self._equal(one, 0 if maker == _OTHER else two, [literal])
            if maker == _OTHER:
                self._equal(two, 0, [literal])

    def _equal(self, one: cp_model.LinearExprT, two: cp_model.LinearExprT, when: Sequence[Literal]) -> None:
        """Two counts are equal whenever all of `when` hold."""
        if isinstance(one, int) and isinstance(two, int):
            if one != two:
                self._formulas.require([], when=when)
        elif not any(literal is False for literal in when):
            self._formulas.model.add(one == two).only_enforce_if([literal for literal in when if literal is not True])


def _wanted(task: RunningVertex) -> dict[str, Counter[str]]:
    """The makers that a running task reads at each port."""
    return {
        inflow.port: Counter(_at(_running(stream.origin), stream.port) for stream in inflow.streams)
        for inflow in task.inputs
    }


def _new(vertex: str) -> str:
    return f"new {vertex}"


def _running(task: str) -> str:
    return f"runs {task}"


def _at(maker: str, port: str) -> str:
    return f"{maker}/{port}"


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
        self._types = problem.types
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
        for landmark in landmarks(problem, left):
            look(time_left)
            self._formulas.require([self.options[vertex][option] for vertex, option in landmark])
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
                elif vertex.is_equal(name, self._types):
                    for other in entering[1:]:
                        self._formulas.equal(entering[0], other)
                    met[name] = entering[0]
                else:
                    met[name] = self._formulas.choice(values)
                    for value, literal in met[name].items():
                        self._formulas.require([values.get(value, False) for values in entering], when=[literal])
            self.states[place] = met

    def _add_options(self, vertex: Vertex) -> None:
        options = self.left.options[vertex.id]
        self.options[vertex.id] = self._formulas.choice([option.name for option in options])
        self._formulas.impose(vertex.requires, self.states[entry(vertex)])
        for option in self.left.options[vertex.id]:
            for inflow in vertex.inputs:
                if inflow.port in option.requires:
                    self._formulas.impose(
                        option.requires[inflow.port],
                        self.states[inlet(vertex, inflow)],
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
                # What goes on if an option does not affect it.
                carried = {
                    option.name: self.states[base(vertex, option) if name in self._types else entry(vertex)][name]
                    for option in options
                }
                first, *others = carried.values()
                if name not in changed and all(other is first for other in others):
                    after[name] = first
                    continue
                after[name] = self._formulas.choice(values)
                groups: dict[int, list[str]] = {}
                for other, before in carried.items():
                    if name not in changing[other]:
                        groups.setdefault(id(before), []).append(other)
                for keeping in map(frozenset, groups.values()):
                    if keeping not in kept:
                        changers = [self.options[vertex.id][other] for other in carried if other not in keeping]
                        kept[keeping] = negated(self._formulas.some_of(changers))
                    self._formulas.equal(carried[min(keeping)], after[name], when=[kept[keeping]])
            self.states[stream] = after
            for option in options:
                chosen = [self.options[vertex.id][option.name]]
                self._formulas.impose(option.ensured(stream.port), after, when=chosen)
            self._formulas.impose(vertex.ensures, after)
