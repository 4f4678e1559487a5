"""The sweep: the best plan by going through the vertices once, with the best way to every situation.

A situation is all that the rest of a plan depends on: the states and contents of the streams that are still to be read,
and choices that are still to be compared. Of two ways to one situation only the better is kept. A narrow pipeline has
few situations, however long it is, where a search proves little; a wide one has too many, and the sweep gives up.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from dags.vocabulary import Criterion
from planning.constraint import UNSET, All, Constraint, Equals, State, affected, holds, mentioned
from planning.plan import Content, Maker, Peers, TaskIdentity, TimeLeft, figure, met, passed_on
from planning.problem import Meeting, Option, Outlet, PlanningProblem, Vertex
from planning.reach import Reach

_MOST_WAYS = 8_000_000
"""The moves that are tried, in all; about as many microseconds."""
_MOST_EFFECTS = 5_000
"""The states that one option may leave."""
_MOST_SITUATIONS = 600_000
"""Those that are kept, in all; each takes some hundred bytes."""
_LOOKS = 500
"""Moves between two looks at the clock."""
_OTHER = Maker(-1)
"""A maker that nobody asks about."""
_ALWAYS = "new"
"""A task that no other vertex can be."""


class TooManySituations(Exception):
    """The sweep gave up; it knows nothing."""


class _Stream(NamedTuple):
    """What is known of a stream in a situation."""

    state: tuple[tuple[str, str], ...]
    """The values of the variables that somebody below asks about."""
    content: Content


class _Memory(NamedTuple):
    """The choices that are still to be compared."""

    fillings: tuple[tuple[str, str], ...] = ()
    """What the vertices hold with which later ones have to agree."""
    excluded: int = 0
    """The bits of the exclusions that all choices so far meet."""
    started: frozenset[Hashable] = frozenset()
    """The tasks that are started, of which a later vertex could be one."""


_Situation = tuple[tuple[int, ...], _Memory]
"""The numbers of what is known of the streams that are still to be read, and the memory."""


class _Way(NamedTuple):
    """The last choice on a way to a situation, and those before it."""

    before: "_Way | None"
    option: str


_Layer = dict[_Situation, tuple[int, _Way | None]]
"""For each situation how bad the best way there is, and that way."""


class _Exit(NamedTuple):
    """One way out of vertices that are alike."""

    option: Option
    states: tuple[State, ...]
    """By output port."""
    contents: tuple[Content, ...]
    starts: Hashable
    """The task that has to run; None if it runs, or if there is none."""


class _Move(NamedTuple):
    """One step through a vertex."""

    option: Option
    worse: int
    """By how much it makes the plan worse, besides starting a task."""
    leaving: tuple[int, ...]
    """The numbers of what is known of the streams that are read later."""
    starts: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A vertex, and what the sweep does there."""

    vertex: Vertex
    reads: tuple[Outlet, ...]
    slots: tuple[int, ...]
    """Where the streams that it reads are among those of the situation before."""
    kept: tuple[int, ...]
    """Where those are that are still to be read afterwards."""
    emits: frozenset[Outlet]
    """The streams that are read later."""
    alike: Hashable
    """Equal for vertices with equal exits."""
    worse: Mapping[str, int]
    """By how much each option that is left makes the plan worse."""
    partners: frozenset[str]
    """The vertices before it that it has to agree with."""
    remembered: frozenset[str]
    """The vertices up to it with which later ones have to agree."""
    misses: Mapping[str, int]
    """The bits of the exclusions that each option does not meet."""
    complete: int
    """The bits of those that speak of it and no later vertex."""
    last_peer: int
    """The position of the last vertex that may be equal; -1 if there is none."""
    is_plain: bool
    """True if nothing of the memory concerns it."""
    moves: dict[tuple[int, ...], Sequence[_Move]]
    """By what enters. Vertices that are alike, and below which the same is left, have them together."""


class SweepEffort:
    """What a sweep may still spend: so many moves, and half of the time."""

    def __init__(self, time_left: TimeLeft, most_ways: int | None = None) -> None:
        self._most_ways = _MOST_WAYS if most_ways is None else min(most_ways, _MOST_WAYS)
        self._time_left = time_left
        self._least_s = time_left() / 2
        self._ways = self._situations = self._looked = 0

    def spend(self, ways: int, *, situations: int = 0) -> None:
        """Count what is tried and kept. Raises `TooManySituations` if it is too much, or takes too long."""
        self._ways += ways
        self._situations += situations
        if self._ways > self._looked:
            self._looked = self._ways + _LOOKS
            if self._ways > self._most_ways or self._situations > _MOST_SITUATIONS or self._time_left() < self._least_s:
                raise TooManySituations


class Sweep:
    """A sweep over one problem."""

    def __init__(
        self, problem: PlanningProblem, left: Reach, criteria: Sequence[Criterion], peers: Peers, effort: SweepEffort
    ) -> None:
        """Only peers count as one task if they are. With fewer than there are, the answer is just a good plan.

        Raises `TooManySituations`.
        """
        self._effort = effort
        self._problem = problem
        self._left = left
        self._types = problem.types
        self._domains = {variable.name: variable.domain for variable in problem.variables}
        self._identity = TaskIdentity(problem)
        self._peers = peers
        self._goals: dict[Outlet, list[Constraint]] = {}
        for goal in problem.goals:
            for stream in goal.streams:
                self._goals.setdefault(stream, []).append(goal.holds)
        self._asked: dict[Outlet, set[str]] = {}
        self._entering: dict[tuple[str, str], set[str]] = {}
        self._find_asked()
        self._scales = self._scaled(criteria)
        self._numbers: dict[_Stream, int] = {}
        self._known: list[_Stream] = []
        self._moves_of: dict[Hashable, dict[tuple[int, ...], Sequence[_Move]]] = {}
        self._exits: dict[Hashable, Sequence[_Exit]] = {}
        self._expiry: dict[Hashable, int] = {}

    def best(self, known: Mapping[str, str] | None = None) -> Mapping[str, str] | None:
        """The options of the best plan: the known ones, if none are better; None if there is no plan.

        Raises `TooManySituations`.
        """
        if not all(self._problem.excluded):
            return None
        bound = math.inf
        if known is not None:
            bound = sum(scale * figure(self._problem, known, criterion) for criterion, scale in self._scales.items())
        steps = list(self._steps())
        rest = sum(min(step.worse.values()) for step in steps)
        layer = self._begun()
        for at, step in enumerate(steps):
            rest -= min(step.worse.values())
            layer = self._after_step(at, step, layer, bound - rest)
        if not layer:
            return known
        _, last = min(layer.values(), key=lambda best: best[0])
        options: list[str] = []
        while last is not None:
            options.append(last.option)
            last = last.before
        return dict(zip((step.vertex.id for step in steps), reversed(options), strict=True))

    def _after_step(self, at: int, step: _Step, layer: _Layer, bound: float) -> _Layer:
        """The best ways to the situations after a vertex; those that are not better than a bound are left out."""
        starting = self._scales.get(Criterion.RESIDUE, 0)
        following: _Layer = {}
        for (streams, memory), (worse, way) in layer.items():
            entering = tuple([streams[slot] for slot in step.slots])
            moves = step.moves.get(entering)
            if moves is None:
                moves = step.moves[entering] = self._moves(step, entering)
            kept = tuple([streams[slot] for slot in step.kept])
            before = len(following)
            for move in moves:
                later = memory if step.is_plain else self._remembered(at, step, memory, move)
                starts = move.starts is not None and move.starts not in memory.started
                total = worse + move.worse + (starting if starts else 0)
                if later is not None and total < bound:
                    after = (kept + move.leaving, later)
                    other = following.get(after)
                    if other is None or total < other[0]:
                        following[after] = total, _Way(way, move.option.name)
            self._effort.spend(1 + len(moves), situations=len(following) - before)
        return following

    def _begun(self) -> _Layer:
        """The situation before the first vertex, unless a goal fails at a source."""
        numbers = []
        for stream, content in self._identity.given.items():
            given = self._problem.given[stream]
            number = self._number(stream, {name: given.get(name, UNSET) for name in self._domains}, content)
            if number is None:
                return {}
            if stream in self._asked:
                numbers.append(number)
        return {(tuple(numbers), _Memory(excluded=(1 << len(self._problem.excluded)) - 1)): (0, None)}

    def _find_asked(self) -> None:
        """Which variables of each stream that is read matter, and of what enters each port."""
        plain = self._domains.keys() - self._types
        for vertex in reversed(self._problem.vertices):
            self._effort.spend(len(vertex.options))
            needed = set(mentioned(vertex.requires))
            for option in vertex.options:
                for stream in vertex.streams():
                    ensured = option.ensured(stream.port)
                    needed |= (self._wanted(vertex, stream) | mentioned(ensured)) - affected(ensured)
            for inflow in vertex.inputs:
                names = needed.union(
                    *(
                        mentioned(option.requires[inflow.port])
                        for option in vertex.options
                        if inflow.port in option.requires
                    )
                )
                if vertex.meeting is Meeting.EQUAL and (len(inflow.streams) > 1 or len(vertex.inputs) > 1):
                    names |= plain
                if len(inflow.streams) > 1 and not vertex.mixes_types:
                    names |= self._types
                self._entering[vertex.id, inflow.port] = names
                for stream in inflow.streams:
                    self._asked[stream] = self._asked.get(stream, set()) | names

    def _wanted(self, vertex: Vertex, stream: Outlet) -> set[str]:
        """The variables of a stream that a vertex emits which somebody asks about."""
        goals = (mentioned(goal) for goal in self._goals.get(stream, ()))
        return set(mentioned(vertex.ensures)).union(self._asked.get(stream, ()), *goals)

    def _scaled(self, criteria: Sequence[Criterion]) -> Mapping[Criterion, int]:
        """How much worse one of each figure makes a plan, so that no sum of the later ones outweighs an earlier one."""
        scales: dict[Criterion, int] = {}
        scale = 1
        for criterion in reversed(criteria):
            one = scale
            scales[criterion] = -one if criterion.grows else one
            if criterion is Criterion.RESIDUE:
                scale *= 1 + len(self._problem.vertices)
                continue
            for vertex in self._problem.vertices:
                weights = [self._problem.weight(vertex, option, criterion) for option in vertex.options]
                scale += one * (max(weights, default=0) - min(weights, default=0))
        return scales

    def _worse(self, vertex: Vertex, option: Option) -> int:
        return sum(
            scale * self._problem.weight(vertex, option, criterion)
            for criterion, scale in self._scales.items()
            if criterion is not Criterion.RESIDUE
        )

    def _steps(self) -> Iterator[_Step]:
        vertices = self._problem.vertices
        position = {vertex.id: at for at, vertex in enumerate(vertices)}
        last_read = {stream: at for at, vertex in enumerate(vertices) for stream in vertex.reads()}
        live = [stream for stream in self._problem.given if stream in last_read]
        pairs = [(vertex.id, vertex.same) for vertex in vertices if vertex.same]
        pairs += [(two, one) for one, two in pairs]
        last_peer: dict[str, int] = {}
        for at, vertex in enumerate(vertices):
            for other in self._peers.before[vertex.id]:
                last_peer[other.id] = last_peer[vertex.id] = at
        bounds = [max(position[name] for name in options) for options in self._problem.excluded]
        for at, vertex in enumerate(vertices):
            self._effort.spend(len(vertex.options))
            reads = tuple(dict.fromkeys(vertex.reads()))
            kept = [slot for slot, stream in enumerate(live) if last_read[stream] > at]
            emits = [stream for stream in vertex.streams() if stream in last_read]
            partners = frozenset(other for one, other in pairs if one == vertex.id and position[other] < at)
            remembered = frozenset(one for one, other in pairs if position[one] <= at < position[other])
            speaking = [bit for bit, options in enumerate(self._problem.excluded) if vertex.id in options]
            alike = self._alike(vertex, reads)
            worse = {option.name: self._worse(vertex, option) for option in self._left.options[vertex.id]}
            is_plain = not (pairs or speaking or vertex.id in self._peers.paired)
            below = tuple(self._below(stream, is_read=stream in last_read) for stream in vertex.streams())
            yield _Step(
                vertex=vertex,
                reads=reads,
                slots=tuple(live.index(stream) for stream in reads),
                kept=tuple(kept),
                emits=frozenset(emits),
                alike=alike,
                worse=worse,
                partners=partners,
                remembered=remembered,
                misses={
                    option.name: sum(
                        1 << bit for bit in speaking if self._problem.excluded[bit][vertex.id] != option.name
                    )
                    for option in vertex.options
                },
                complete=sum(1 << bit for bit in speaking if bounds[bit] == at),
                last_peer=last_peer.get(vertex.id, -1),
                is_plain=is_plain,
                moves=self._moves_of.setdefault((alike, below, tuple(worse.items()), is_plain), {}),
            )
            live = [*(live[slot] for slot in kept), *emits]

    def _below(self, stream: Outlet, *, is_read: bool) -> Hashable:
        """All on which it depends whether something may leave on a stream, and what is then known of it."""
        domains = frozenset(self._left.domains[stream].items())
        return domains, tuple(self._goals.get(stream, ())), frozenset(self._asked.get(stream, ())), is_read

    def _alike(self, vertex: Vertex, reads: Sequence[Outlet]) -> Hashable:
        return (
            tuple(map(_key, vertex.options)),
            vertex.requires,
            vertex.ensures,
            vertex.meeting,
            vertex.mixes_types,
            tuple(
                (
                    inflow.port,
                    tuple(map(reads.index, inflow.streams)),
                    frozenset(self._entering[vertex.id, inflow.port]),
                )
                for inflow in vertex.inputs
            ),
            tuple((stream.port, frozenset(self._wanted(vertex, stream))) for stream in vertex.streams()),
            vertex.id if vertex.id in self._peers.paired | self._peers.above else "",
        )

    def _remembered(self, at: int, step: _Step, memory: _Memory, move: _Move) -> _Memory | None:
        """The memory after a move; None if the move does not go with it."""
        fillings = dict(memory.fillings) | {step.vertex.id: move.option.filling}
        if any(fillings[partner] != move.option.filling for partner in step.partners):
            return None
        excluded = memory.excluded & ~step.misses[move.option.name]
        if excluded & step.complete:
            return None
        started = memory.started
        if move.starts is not None and step.last_peer > at:
            self._expiry[move.starts] = max(step.last_peer, self._expiry.get(move.starts, 0))
            started |= {move.starts}
        return _Memory(
            fillings=tuple(pair for pair in fillings.items() if pair[0] in step.remembered),
            excluded=excluded,
            started=frozenset(task for task in started if self._expiry[task] > at),
        )

    def _moves(self, step: _Step, entering: tuple[int, ...]) -> Sequence[_Move]:
        """The moves through a vertex; of those that differ in nothing that matters later, the best."""
        alike = (step.alike, entering)
        exits = self._exits.get(alike)
        if exits is None:
            exits = self._exits[alike] = list(self._exits_of(step, [self._known[number] for number in entering]))
        moves: dict[Hashable, _Move] = {}
        for exit_ in exits:
            worse = step.worse.get(exit_.option.name)
            if worse is None:
                continue
            leaving: list[int] = []
            for stream, state, content in zip(step.vertex.streams(), exit_.states, exit_.contents, strict=True):
                number = self._number(stream, state, content)
                if number is None:
                    break
                if stream in step.emits:
                    leaving.append(number)
            else:
                differs = (*leaving, exit_.starts, *(() if step.is_plain else (exit_.option.name,)))
                known = moves.get(differs)
                if known is None or worse < known.worse:
                    moves[differs] = _Move(exit_.option, worse, tuple(leaving), exit_.starts)
        return list(moves.values())

    def _number(self, stream: Outlet, state: State, content: Content) -> int | None:
        """The number of what is known of a stream; None if that cannot be in a plan."""
        domains = self._left.domains[stream]
        if not all(value in domains[name] for name, value in state.items()):
            return None
        if not all(holds(goal, state) for goal in self._goals.get(stream, ())):
            return None
        asked = self._asked.get(stream, set())
        known = _Stream(tuple(sorted((name, value) for name, value in state.items() if name in asked)), content)
        number = self._numbers.setdefault(known, len(self._numbers))
        if number == len(self._known):
            self._known.append(known)
        return number

    def _exits_of(self, step: _Step, entering: Sequence[_Stream]) -> Iterator[_Exit]:
        vertex = step.vertex
        states = {stream: dict(known.state) for stream, known in zip(step.reads, entering, strict=True)}
        contents = {stream: known.content for stream, known in zip(step.reads, entering, strict=True)}
        at_ports = {inflow.port: met(contents, inflow) for inflow in vertex.inputs}
        made = [self._made(vertex, option, at_ports) for option in vertex.options]
        is_equal = vertex.meeting is Meeting.EQUAL
        for ports in product(
            *(
                list(
                    _meeting(
                        [states[stream] for stream in inflow.streams],
                        sorted(self._entering[vertex.id, inflow.port]),
                        lambda name: vertex.is_equal(name, self._types),
                    )
                )
                for inflow in vertex.inputs
            )
        ):
            by_port = {inflow.port: state for inflow, state in zip(vertex.inputs, ports, strict=True)}
            plain = sorted(set(ports[0]).intersection(*ports) - self._types)
            for joined in _meeting(ports, plain, lambda _: is_equal):
                entry = {**ports[0], **joined}
                self._effort.spend(len(vertex.options))
                if holds(vertex.requires, entry):
                    for option, (left, starts) in zip(vertex.options, made, strict=True):
                        if all(
                            holds(needed, by_port[port]) for port, needed in option.requires.items() if port in by_port
                        ):
                            carried = {**by_port[option.base or vertex.inputs[0].port], **joined}
                            for after in product(
                                *(list(self._after(vertex, option, stream, carried)) for stream in vertex.streams())
                            ):
                                yield _Exit(option, after, left, starts)

    def _after(self, vertex: Vertex, option: Option, stream: Outlet, carried: State) -> Iterator[State]:
        """The states that an option may leave on a stream."""
        ensured = option.ensured(stream.port)
        changes = affected(ensured)
        wanted = self._wanted(vertex, stream)
        state = {name: carried[name] for name in (wanted | mentioned(ensured)) - changes}
        forced = _forced(ensured)
        choices = [[forced[name]] if name in forced else sorted(self._domains[name]) for name in sorted(changes)]
        self._effort.spend(_counted(choices))
        seen = set()
        for values in product(*choices):
            after = state | dict(zip(sorted(changes), values, strict=True))
            if holds(ensured, after) and holds(vertex.ensures, after):
                kept = {name: value for name, value in after.items() if name in wanted}
                if (key := frozenset(kept.items())) not in seen:
                    seen.add(key)
                    yield kept

    def _made(
        self, vertex: Vertex, option: Option, entering: Mapping[str, Content]
    ) -> tuple[tuple[Content, ...], Hashable]:
        """The contents that leave a vertex, and the task that it needs unless that runs."""
        if option.is_no_op:
            return (self._named(vertex, passed_on(entering)),), None
        task = self._identity.task(vertex, option, entering)
        left = tuple(self._named(vertex, (task._replace(port=port),)) for port in vertex.outputs)
        if self._identity.runs(task):
            return left, None
        if vertex.id not in self._peers.paired:
            return left, _ALWAYS
        # What was not distinguished above is the same only where it came on the same streams.
        is_vague = any(maker.task == _OTHER.task for content in entering.values() for maker in content)
        return left, (task, frozenset(vertex.reads()) if is_vague else None)

    def _named(self, vertex: Vertex, content: Content) -> Content:
        """Makers as far as somebody below a vertex could ask about them."""
        if vertex.id in self._peers.compared:
            return content
        keeps_scope = vertex.id in self._peers.above
        return tuple(
            sorted(
                maker if maker in self._identity.read else _OTHER._replace(scope=maker.scope if keeps_scope else "")
                for maker in content
            )
        )


def _meeting(
    states: Sequence[State], names: Iterable[str], is_equal: Callable[[str], bool]
) -> Iterator[dict[str, str]]:
    """The states that streams may have where they meet: of each variable the one value, or any of those on them."""
    choices: list[list[str]] = []
    kept = list(names)
    for name in kept:
        several = sorted({state[name] for state in states})
        if len(several) > 1 and is_equal(name):
            return
        choices.append(several)
    _counted(choices)
    for values in product(*choices):
        yield dict(zip(kept, values, strict=True))


def _counted(choices: Sequence[Sequence[str]]) -> int:
    """The ways to choose. Raises `TooManySituations` if they are too many even for one option."""
    many = math.prod(map(len, choices))
    if many > _MOST_EFFECTS:
        raise TooManySituations
    return many


def _forced(ensured: Constraint) -> Mapping[str, str]:
    """The values that an effect leaves no choice about; of two for one variable, either, since neither holds."""
    parts = ensured.parts if isinstance(ensured, All) else (ensured,)
    return {part.variable: part.value for part in parts if isinstance(part, Equals)}


def _key(option: Option) -> Hashable:
    return (
        option.name,
        option.module,
        tuple((port, option.requires[port]) for port in sorted(option.requires)),
        option.ensures,
        tuple((port, option.ensures_at[port]) for port in sorted(option.ensures_at)),
        option.base,
        option.computes,
        option.is_no_op,
    )
