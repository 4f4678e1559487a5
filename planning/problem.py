"""Planning problems: the vertices of pipelines, the options that may fill them, and the goals.

One problem may hold several pipelines; they are planned together. A place is where streams have a state, from what a
source emits to what enters a vertex.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from dags.vocabulary import Criterion
from planning.constraint import NOTHING, UNSET, Constraint

MOST_WEIGHT = 10**13
"""The largest cost or quality of an option, either way: a solver counts in 64 bits, and a problem has many vertices."""


class Outlet(NamedTuple):
    """What a source or a vertex emits at a port."""

    origin: str
    port: str = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVariable:
    """A state variable of every stream."""

    name: str
    domain: frozenset[str]
    is_type: bool = False
    """True if it describes the events' schema. Where streams meet, all have the same value of it."""

    def __post_init__(self) -> None:
        if UNSET not in self.domain:
            raise ValueError(f"the domain of {self.name} lacks {UNSET}; every variable may be unset")


class Meeting(StrEnum):
    """The rule by which streams that meet have one state."""

    EQUAL = "equal"
    """Every variable has the same value on all of them."""
    EITHER = "either"
    """Every variable has its value on one of them. Types are equal all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What may fill a vertex: a module, a fixed task, or nothing at all."""

    name: str
    """Unique in the vertex."""
    module: str = ""
    """The module that it is; one module may be several options, one for each kind of a field. Empty for the name."""
    requires: Mapping[str, Constraint] = field(default_factory=dict)
    """By input port."""
    ensures: Constraint = NOTHING
    """What holds afterwards, over the variables that it affects; all others keep their values."""
    ensures_at: Mapping[str, Constraint] = field(default_factory=dict)
    """The same for single output ports, in place of `ensures`."""
    base: str = ""
    """The input port whose types go on if it does not affect them; empty for the first."""
    cost: int = 0
    quality: int = 0
    computes: str = ""
    """What it computes: two tasks with equal inputs and texts are one task. Empty if it is never shared."""
    is_no_op: bool = False

    def __post_init__(self) -> None:
        for name, value in (("cost", self.cost), ("quality", self.quality)):
            if abs(value) > MOST_WEIGHT:
                raise ValueError(
                    f"the {name} of {self.name} is {value:,}, beyond {MOST_WEIGHT:,}; state it more coarsely"
                )

    @property
    def filling(self) -> str:
        """What a vertex with this option holds."""
        return self.module or self.name

    def ensured(self, port: str) -> Constraint:
        """What holds at an output port afterwards."""
        return self.ensures_at.get(port, self.ensures)


class Inflow(NamedTuple):
    """An input port of a vertex, and the streams that meet there."""

    port: str
    streams: tuple[Outlet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A place of a pipeline that one option fills."""

    id: str
    inputs: tuple[Inflow, ...]
    options: tuple[Option, ...]
    outputs: tuple[str, ...] = ("out",)
    meeting: Meeting = Meeting.EQUAL
    requires: Constraint = NOTHING
    """What the pipeline requires of what enters here, whichever option is chosen."""
    ensures: Constraint = NOTHING
    """What the pipeline wants of what leaves here, whichever option is chosen."""
    is_open: bool = True
    """False if it is a fixed task."""
    mixes_types: bool = False
    """True if even types may differ where streams meet; only explanations ask that."""
    same: str = ""
    """The vertex that holds the same; it may come before or after this one."""

    def reads(self) -> tuple[Outlet, ...]:
        """What enters it."""
        return tuple(stream for inflow in self.inputs for stream in inflow.streams)

    def is_equal(self, variable: str, types: Collection[str]) -> bool:
        """Whether streams that meet here must have the same value of a variable."""
        return not self.mixes_types if variable in types else self.meeting is Meeting.EQUAL

    def streams(self) -> tuple[Outlet, ...]:
        """What it emits."""
        return tuple(Outlet(self.id, port) for port in self.outputs)

    def chosen(self, options: Mapping[str, str]) -> Option:
        """What it holds, by the name of the option of each vertex."""
        return next(option for option in self.options if option.name == options[self.id])


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A constraint that holds on some streams."""

    name: str
    """Its place in the document."""
    holds: Constraint
    streams: tuple[Outlet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningVertex:
    """A task that runs, as far as planning for reuse needs to know it."""

    id: str
    """A source's name for sources."""
    computes: str
    inputs: tuple[Inflow, ...] = ()

    def reads(self) -> tuple[Outlet, ...]:
        """What enters it."""
        return tuple(stream for inflow in self.inputs for stream in inflow.streams)


@dataclass(frozen=True, kw_only=True)
class PlanningProblem:
    """Everything that a plan depends on."""

    variables: tuple[StateVariable, ...]
    given: Mapping[Outlet, Mapping[str, str]]
    """The state of each source's stream; a variable that it does not name is unset."""
    vertices: tuple[Vertex, ...]
    """Each after those it reads from."""
    goals: tuple[Goal, ...] = ()
    running: tuple[RunningVertex, ...] = ()
    """Each after those it reads from."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The ids of the sources among what runs, by those in `given`; a source that does not run has its own."""
    confined: frozenset[str] = frozenset()
    """The sources whose events are for this dataflow alone, of those in `given`."""
    present: Mapping[str, str] = field(default_factory=dict)
    """What each vertex holds at present."""
    excluded: tuple[Mapping[str, str], ...] = ()
    """Options that some vertices must not have together."""

    @cached_property
    def by_id(self) -> Mapping[str, Vertex]:
        """The vertices by their ids."""
        return {vertex.id: vertex for vertex in self.vertices}

    @cached_property
    def types(self) -> frozenset[str]:
        """The variables that describe the events' schema."""
        return frozenset(variable.name for variable in self.variables if variable.is_type)

    def weight(self, vertex: Vertex, option: Option, criterion: Criterion) -> int:
        """What an option of a vertex adds to a figure, except to the residue, which depends on the whole plan."""
        match criterion:
            case Criterion.CHANGES:
                return int(vertex.id in self.present and self.present[vertex.id] != option.filling)
            case Criterion.COST:
                return option.cost
            case Criterion.QUALITY:
                return option.quality
            case _:
                return int(option.is_no_op)


def below(vertices: Sequence[Vertex], first: str) -> frozenset[str]:
    """A vertex and all that its events reach, of vertices in order."""
    reached = {first}
    for vertex in vertices:
        if any(stream.origin in reached for stream in vertex.reads()):
            reached.add(vertex.id)
    return frozenset(reached)


class Inlet(NamedTuple):
    """An input port at which several streams meet."""

    vertex: str
    port: str


class Junction(NamedTuple):
    """A vertex at which several input ports meet."""

    vertex: str


Place = Outlet | Inlet | Junction


def inlet(vertex: Vertex, at: Inflow) -> Place:
    """Where the state of an input port is."""
    return at.streams[0] if len(at.streams) == 1 else Inlet(vertex.id, at.port)


def entry(vertex: Vertex) -> Place:
    """Where the state that a vertex continues is."""
    return inlet(vertex, vertex.inputs[0]) if len(vertex.inputs) == 1 else Junction(vertex.id)


def base(vertex: Vertex, option: Option) -> Place:
    """Where the types are that go on if an option does not affect them."""
    if not option.base:
        return inlet(vertex, vertex.inputs[0])
    return next(inlet(vertex, inflow) for inflow in vertex.inputs if inflow.port == option.base)


def meetings(vertex: Vertex) -> Iterator[tuple[Place, tuple[Place, ...]]]:
    """Where several states become one at a vertex, and which."""
    for inflow in vertex.inputs:
        if len(inflow.streams) > 1:
            yield Inlet(vertex.id, inflow.port), inflow.streams
    if len(vertex.inputs) > 1:
        yield Junction(vertex.id), tuple(inlet(vertex, inflow) for inflow in vertex.inputs)
