"""Planning problems: the steps of pipelines, the actions that may fill them, and the goals.

One problem may hold several pipelines; they are planned together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from planning.constraint import NOTHING, UNSET, Constraint


class Stream(NamedTuple):
    """What a source or a step emits at a port."""

    origin: str
    port: str = "out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
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
class Action:
    """What may fill a step: a module, a fixed task, or nothing at all."""

    name: str
    """Unique in the step."""
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

    def ensured(self, port: str) -> Constraint:
        """What holds at an output port afterwards."""
        return self.ensures_at.get(port, self.ensures)


class Input(NamedTuple):
    """An input port of a step, and the streams that meet there."""

    port: str
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A place of a pipeline that one action fills."""

    id: str
    inputs: tuple[Input, ...]
    actions: tuple[Action, ...]
    outputs: tuple[str, ...] = ("out",)
    meeting: Meeting = Meeting.EQUAL
    requires: Constraint = NOTHING
    """What the pipeline requires of what enters here, whichever action is chosen."""
    ensures: Constraint = NOTHING
    """What the pipeline wants of what leaves here, whichever action is chosen."""
    is_open: bool = True
    """False if it is a fixed task."""
    mixes_types: bool = False
    """True if even types may differ where streams meet; only explanations ask that."""
    same: str = ""
    """The step whose action this one takes too."""

    def streams(self) -> tuple[Stream, ...]:
        """What it emits."""
        return tuple(Stream(self.id, port) for port in self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A constraint that holds on some streams."""

    name: str
    """Its place in the document."""
    holds: Constraint
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStep:
    """A task that runs, as far as planning for reuse needs to know it."""

    id: str
    """A source's name for sources."""
    computes: str
    inputs: tuple[Input, ...] = ()


class Criterion(StrEnum):
    """A figure that a plan makes as small or as large as it can."""

    CHANGES = "changes"
    """The steps whose action is another than at present."""
    RESIDUE = "residue"
    """The tasks that do not run yet, counted once if several steps need the same one."""
    COST = "cost"
    QUALITY = "quality"
    NO_OPS = "no-ops"

    @property
    def grows(self) -> bool:
        """True if more of it is better."""
        return self in {Criterion.QUALITY, Criterion.NO_OPS}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Everything that a plan depends on."""

    variables: tuple[Variable, ...]
    given: Mapping[Stream, Mapping[str, str]]
    """The state of each source's stream; a variable that it does not name is unset."""
    steps: tuple[Step, ...]
    """Each after those it reads from."""
    goals: tuple[Goal, ...] = ()
    running: tuple[RunningStep, ...] = ()
    """Each after those it reads from."""
    present: Mapping[str, str] = field(default_factory=dict)
    """The action of each step at present, by name."""

    @cached_property
    def by_id(self) -> Mapping[str, Step]:
        """The steps by their ids."""
        return {step.id: step for step in self.steps}

    def below(self, steps: Iterable[str]) -> tuple[str, ...]:
        """Some steps and all that their events reach, in order."""
        found = set(steps)
        for step in self.steps:
            if any(stream.origin in found for each in step.inputs for stream in each.streams):
                found.add(step.id)
        return tuple(step.id for step in self.steps if step.id in found)
