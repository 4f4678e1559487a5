"""Plans: what fills each vertex, the state of every stream under it, and which of its tasks are one or run already.

Tasks are the same here as merging finds, for options that are chosen. A task is what it computes, of the contents that
enter it; a content is the makers of the events on a stream, as often as they are in it. What is not shared has a scope
of its own, which all below it have too; what mixes scopes has one of its own again.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from dags.vocabulary import Criterion
from planning.constraint import State
from planning.problem import Inflow, Option, Outlet, Place, PlanningProblem, Vertex


class Maker(NamedTuple):
    """An output port of a task."""

    task: int
    port: str = ""
    scope: str = ""
    """Empty for what may be shared with anybody."""


Content = tuple[Maker, ...]
"""The makers of the events on a stream, in order."""


class TaskIdentity:
    """The numbers of tasks; equal tasks have equal numbers."""

    def __init__(self, problem: PlanningProblem) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.given: Mapping[Outlet, Content] = {stream: (self._source(problem, stream),) for stream in problem.given}
        sources = {problem.origins.get(stream.origin, stream.origin) for stream in problem.given}
        running: dict[str, int] = {}
        read: set[Maker] = set()
        for task in problem.running:
            if task.inputs:
                entering = {inflow.port: self._content(running, sources, inflow) for inflow in task.inputs}
                running[task.id] = self._number(task.computes, entering)
                read.update(*entering.values())
        self.running = frozenset(running.values())
        self.read = frozenset(read)
        """The outputs that tasks which run read."""

    def task(self, vertex: Vertex, option: Option, entering: Mapping[str, Content]) -> Maker:
        """The task that a vertex is if it holds an option, without a port."""
        scopes = {maker.scope for content in entering.values() for maker in content}
        if not option.computes or len(scopes) > 1:
            return Maker(self._numbered(("only", vertex.id)), scope=vertex.id)
        return Maker(self._number(option.computes, entering), scope=scopes.pop())

    def runs(self, task: Maker) -> bool:
        """Whether a task runs already."""
        return task.task in self.running and not task.scope

    def _content(self, running: Mapping[str, int], sources: set[str], entering: Inflow) -> Content:
        return tuple(
            sorted(
                Maker(
                    self._numbered(("source", stream.origin))
                    if stream.origin in sources
                    else running.get(stream.origin, self._numbered(("unknown", stream.origin))),
                    stream.port,
                )
                for stream in entering.streams
            )
        )

    def _source(self, problem: PlanningProblem, stream: Outlet) -> Maker:
        if stream.origin in problem.confined:
            return Maker(self._numbered(("only", stream.origin)), stream.port, stream.origin)
        return Maker(self._numbered(("source", problem.origins.get(stream.origin, stream.origin))), stream.port)

    def _number(self, computes: str, entering: Mapping[str, Content]) -> int:
        return self._numbered((computes, tuple(sorted(entering.items()))))

    def _numbered(self, what: Hashable) -> int:
        return self._numbers.setdefault(what, len(self._numbers))


def passed_on(content: Mapping[str, Content]) -> Content:
    """What a vertex that does nothing passes on."""
    return tuple(sorted(maker for makers in content.values() for maker in makers))


def met(contents: Mapping[Outlet, Content], entering: Inflow) -> Content:
    """The content where streams meet at a port."""
    return tuple(sorted(maker for stream in entering.streams for maker in contents[stream]))


def residue(problem: PlanningProblem, chosen: Mapping[str, Option]) -> int:
    """The tasks that have to be started if each vertex holds what is chosen for it."""
    identity = TaskIdentity(problem)
    contents = dict(identity.given)
    started: set[Maker] = set()
    for vertex in problem.vertices:
        option = chosen[vertex.id]
        entering = {inflow.port: met(contents, inflow) for inflow in vertex.inputs}
        if option.is_no_op:
            contents[vertex.streams()[0]] = passed_on(entering)
            continue
        task = identity.task(vertex, option, entering)
        contents |= {stream: (task._replace(port=stream.port),) for stream in vertex.streams()}
        if not identity.runs(task):
            started.add(task)
    return len(started)


class Peers(NamedTuple):
    """Which vertices of a plan could be one task; made by `peers_of`."""

    before: Mapping[str, Sequence[Vertex]]
    """For each vertex those before it that may be equal."""
    paired: frozenset[str]
    """All that may be equal to another."""
    above: frozenset[str]
    """All above those."""
    compared: frozenset[str]
    """All above such as read different streams, whose makers have to be distinguished."""

    @property
    def pairs(self) -> int:
        """How many there are."""
        return sum(map(len, self.before.values()))


def apart(vertices: Sequence[Vertex]) -> Peers:
    """No vertices that could be one task."""
    nobody = frozenset[str]()
    return Peers({vertex.id: () for vertex in vertices}, nobody, nobody, nobody)


def peers_of(vertices: Sequence[Vertex], options: Mapping[str, Sequence[Option]], look: Callable[[], None]) -> Peers:
    """Which vertices could be one task, with these options left.

    A vertex is never equal to one above it, since all that it computes is computed of that one's events. There may be
    very many, so it looks at the clock at every vertex.
    """
    texts = {name: {option.computes for option in some if not option.is_no_op} - {""} for name, some in options.items()}
    bits = {vertex.id: 1 << at for at, vertex in enumerate(vertices)}
    ancestors: dict[str, int] = {}
    before: dict[str, Sequence[Vertex]] = {}
    computing: dict[str, int] = {}
    reading: dict[frozenset[str], int] = {}
    paired = above = compared = 0
    for vertex in vertices:
        look()
        parents = {stream.origin for stream in vertex.reads()} & bits.keys()
        mine = ancestors[vertex.id] = reduce(or_, (bits[parent] | ancestors[parent] for parent in parents), 0)
        ports, streams = frozenset(inflow.port for inflow in vertex.inputs), Counter(vertex.reads())
        equal = reduce(or_, (computing.get(text, 0) for text in texts[vertex.id]), 0) & reading.get(ports, 0) & ~mine
        before[vertex.id] = [vertices[at] for at, bit in enumerate(reversed(f"{equal:b}")) if bit == "1"]
        for other in before[vertex.id]:
            paired |= bits[vertex.id] | bits[other.id]
            above |= mine | ancestors[other.id]
            if streams != Counter(other.reads()):
                compared |= mine | ancestors[other.id]
        reading[ports] = reading.get(ports, 0) | bits[vertex.id]
        for text in texts[vertex.id]:
            computing[text] = computing.get(text, 0) | bits[vertex.id]
    return Peers(
        before, *(frozenset(name for name, bit in bits.items() if bit & some) for some in (paired, above, compared))
    )


TimeLeft = Callable[[], float]
"""The seconds that are left; one clock for all plans that a request needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a plan reaches by one criterion."""

    criterion: Criterion
    value: int
    bound: int
    """No plan that is as good by the criteria before this one does better."""

    @property
    def is_optimal(self) -> bool:
        """True if nothing better exists."""
        return self.value == self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """An answer to a planning problem; made by the planner."""

    options: Mapping[str, str]
    """The option of each vertex, by name."""
    states: Mapping[Place, State]
    """The value of each variable on every stream, and wherever streams or ports meet."""
    reached: tuple[Reached, ...] = ()
    """In the order in which they were optimised."""
    is_optimal: bool = True
    """True if no plan is better by the criteria in their order."""


class OutOfTime(Exception):
    """No plan was found in the time allowed, nor that there is none."""

    def __init__(self) -> None:
        super().__init__("no plan was found in the time allowed, nor that there is none; allow more")


def look(left: TimeLeft) -> None:
    """Raise `OutOfTime` if no time is left."""
    if left() <= 0:
        raise OutOfTime


def figure(problem: PlanningProblem, options: Mapping[str, str], criterion: Criterion) -> int:
    """What a plan with some options reaches by a criterion."""
    chosen = {vertex.id: vertex.chosen(options) for vertex in problem.vertices}
    if criterion is Criterion.RESIDUE:
        return residue(problem, chosen)
    return sum(problem.weight(vertex, chosen[vertex.id], criterion) for vertex in problem.vertices)


def bound(problem: PlanningProblem, options: Mapping[str, Sequence[Option]], criterion: Criterion) -> int:
    """What no plan does better than by a criterion, without a search among the options that are left."""
    if criterion is Criterion.RESIDUE:
        return 0
    best = max if criterion.grows else min
    return sum(
        best(problem.weight(vertex, option, criterion) for option in options[vertex.id]) for vertex in problem.vertices
    )
