"""Forms: modules, pipelines and constraints as they are written in JSON.

A module is published in the form `ModuleForm`. A pipeline is a document with points and gaps beside tasks, and with
goals, in the form `PipelineForm`. `ConstraintReader` reads the constraints in both:

    {"unit": "kelvin", "raw": {"not": true}}        both
    {"any": [{"unit": {"in": ["kelvin", "celsius"]}}, {"unit": {"same": "wanted"}}]}
    {"not": {...}}, {"all": [...]}
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from dags import Problem
from dags.document import (
    MOST_DOCUMENT_STREAMS,
    MOST_TAGS,
    MOST_TASKS,
    HostTag,
    Name,
    StreamForm,
    StrictForm,
    TaskForm,
    TaskId,
)
from dags.problems import listed, problem_at, quoted, suggestion
from dags.vocabulary import Criterion, ModuleShape
from planning.constraint import NOTHING, UNSET, All, Constraint, Equals, Not, Same, Some
from planning.problem import Meeting

MODULE_NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
VARIABLE_NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"
MOST_SOURCE = 64 * 1024
"""Bytes of a module's source, in UTF-8."""
MOST_VERSION = 2**31 - 1
"""The most that every database can count to."""
MOST_WORTH = 1_000_000_000
"""The most that one cost or quality may be, so that the planner can add them up."""
# Modules that were published before there was a bound are still read.
_Worth = Annotated[float, Field(ge=0, allow_inf_nan=False, json_schema_extra={"maximum": MOST_WORTH})]
MOST_VALUES = 1_000
"""The most values of one variable."""
MOST_REQUIREMENTS = MOST_TARGETS = 16
"""The most of either that one source may name."""

ModuleName = Annotated[str, StringConstraints(max_length=100, pattern=MODULE_NAME)]
VariableName = Annotated[str, StringConstraints(max_length=100, pattern=VARIABLE_NAME)]
TargetText = Annotated[str, StringConstraints(min_length=1, max_length=300)]
RequirementText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
KindName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Domains = dict[VariableName, Annotated[list[str | bool | int], Field(min_length=1, max_length=MOST_VALUES)]]
"""The values that each variable may have. All may also be null: nothing has set them."""


class InstalledForm(StrictForm):
    """An implementation that is a task type of the catalogue, with part of a config or all of it."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    config: dict[str, Any] = Field(default_factory=dict)


class OutputForm(StrictForm):
    """What leaves code: some fields of what entered, and those it sets."""

    fields: dict[FieldName, KindName] = Field(default_factory=dict)
    """The fields that it sets, and their kinds, which may be type variables."""
    drop: list[FieldName] = Field(default_factory=list)
    """The fields that it takes out."""
    rest: bool = True
    """Whether all other fields that enter leave too."""


class StateForm(StrictForm):
    """What code keeps from event to event."""

    by: list[FieldName] = Field(default_factory=list)
    """The fields of the key; empty for one over the whole stream."""
    most_keys: Annotated[int, Field(ge=1)] = 10_000
    most_bytes: Annotated[int, Field(ge=1)] = 1_000_000
    """The most that it keeps, in each shard."""
    migrate: Annotated[str, StringConstraints(max_length=100)] = ""
    """The name of the function that adapts what was kept to another version or config; empty if there is none."""
    config: dict[str, Any] = Field(default_factory=dict)
    """What the function gets as its config, where a point does not say otherwise."""


class CodeForm(StrictForm):
    """An implementation that is Python source with one entry function."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=MOST_SOURCE)]
    entry: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)] = "process"
    per: Literal["event", "batch"] = "event"
    requirements: Annotated[list[RequirementText], Field(max_length=MOST_REQUIREMENTS)] = Field(default_factory=list)
    """Packages that it imports besides those that are installed, each pinned to a version, such as `tiny==1.0`."""
    connects: Annotated[list[TargetText], Field(max_length=MOST_TARGETS)] = Field(default_factory=list)
    """Hosts that it connects to, each with a port, such as `example.org:443`."""
    types: dict[VariableName, Annotated[list[KindName], Field(min_length=1)]] = Field(default_factory=dict)
    """Type variables, and the kinds or type variables that each may be."""
    input: dict[FieldName, KindName] = Field(default_factory=dict)
    """The fields that it needs."""
    output: OutputForm = Field(default_factory=OutputForm)
    state: StateForm | None = None
    """What it keeps; nothing if left out."""


class ModuleForm(StrictForm):
    """A version of a module: an implementation for the points of pipelines, and what is known of it."""

    name: ModuleName
    version: Annotated[int, Field(ge=1, le=MOST_VERSION)]
    summary: Annotated[str, StringConstraints(max_length=1_000)] = ""
    shape: Annotated[ModuleShape, Field(strict=False)]
    installed: InstalledForm | None = None
    code: CodeForm | None = None
    """One of these two."""
    variables: Domains = Field(default_factory=dict)
    """The variables that it speaks of."""
    require: dict[str, Any] = Field(default_factory=dict)
    """What must hold of the events that enter."""
    ensure: dict[str, Any] = Field(default_factory=dict)
    """What holds of those that leave. Variables that it does not name keep their values."""
    cost: _Worth | None = None
    """Milliseconds of CPU per event, if known."""
    quality: _Worth | None = None
    """A figure of its author's; more is better."""
    tags: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(default_factory=list)
    """Tags by which points may name it."""
    host_tags: Annotated[list[HostTag], Field(max_length=MOST_TAGS)] = Field(default_factory=list)
    """Tags that a host must offer to run it."""


MOST_IN_GAP = 20
MOST_GOALS = 1_000
END, EVERYWHERE = "end", "everywhere"


class Choice(StrictForm):
    """What may fill a place of a pipeline."""

    shape: Annotated[ModuleShape, Field(strict=False)] = ModuleShape.ONE_TO_ONE
    modules: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] | None = None
    """Names, names with versions such as `clean@2`, and tags such as `tag:fast`; all of the shape if left out."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The part of the config that a module leaves open."""


class PointChoice(Choice):
    """A place that one module fills, or nothing if the shape allows it."""

    require: dict[str, Any] = Field(default_factory=dict)
    """What must hold of the events that enter, whichever module is chosen."""
    ensure: dict[str, Any] = Field(default_factory=dict)
    """What must hold of the events that leave."""
    same: TaskId | None = None
    """The id of a point that the same module fills."""


class GapChoice(Choice):
    """A place that a chain of modules fills, of any length up to the most."""

    most: Annotated[int, Field(ge=1, le=MOST_IN_GAP)]


class PointForm(StrictForm):
    """A point of a pipeline."""

    id: TaskId
    point: PointChoice


class GapForm(StrictForm):
    """A gap of a pipeline."""

    id: TaskId
    gap: GapChoice


class GoalForm(StrictForm):
    """Something that a pipeline shall achieve."""

    at: TaskId | None = None
    """`end`, `everywhere`, or the id of the task or point whose output is meant; `end` if left out."""
    since: TaskId | None = None
    """Holds on the output of this task or point, and on all that its events reach, in place of `at`."""
    holds: dict[str, Any] = Field(default_factory=dict)
    fields: dict[FieldName, KindName] = Field(default_factory=dict)
    """Fields that the events have, and their kinds."""


def _tag(task: Any) -> str:
    """Which form an entry of the tasks has."""
    return next((f"({key})" for key in ("point", "gap") if isinstance(task, dict) and key in task), "(task)")


Entry = Annotated[
    Annotated[TaskForm, Tag("(task)")] | Annotated[PointForm, Tag("(point)")] | Annotated[GapForm, Tag("(gap)")],
    Discriminator(_tag),
]


class PipelineForm(StrictForm):
    """A dataflow with open places, as its tenant wrote it."""

    version: Annotated[int, Field(ge=1, le=1)]
    name: Name
    tasks: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[StreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]
    variables: Domains = Field(default_factory=dict)
    """Variables beside those of the modules."""
    given: dict[TaskId, dict[str, Any]] = Field(default_factory=dict)
    """What holds of the events of a source task, by its id."""
    goals: Annotated[tuple[GoalForm, ...], Field(max_length=MOST_GOALS, strict=False)] = ()
    meets: dict[TaskId, Annotated[Meeting, Field(strict=False)]] = Field(default_factory=dict)
    """How the states of streams that meet at a task or point become one; `equal` if left out."""
    prefer: Annotated[tuple[Annotated[Criterion, Field(strict=False)], ...], Field(strict=False)] = (
        Criterion.RESIDUE,
        Criterion.COST,
        Criterion.NO_OPS,
    )
    """What is optimised, the most important first."""
    follow: bool = False
    """Whether it is planned again by itself when modules are published or deprecated."""


JOINING = frozenset({"all", "any", "not"})
"""Keys of a constraint that are no variables."""
_COMPARISONS = ("not", "in", "same", "differs")
_MOST_DEPTH = 12
_FORM = 'write values as in {"unit": "kelvin"}, or use "all", "any" and "not"'

Path = tuple[str | int, ...]


def value_text(value: Any) -> str | None:
    """A value as constraints hold it; None if it is no text, boolean, integer or null."""
    return json.dumps(value) if value is None or isinstance(value, str | bool | int) else None


class ConstraintReader:
    """Reads constraints over some variables, and collects what is wrong with them."""

    def __init__(self, domains: Mapping[str, frozenset[str]]) -> None:
        self.problems: list[Problem] = []
        self._domains = domains

    def read(self, value: Any, *at: str | int) -> Constraint:
        """The constraint in a JSON value, whose place in the document is `at`."""
        return self._read(value, at, 0)

    def read_state(self, value: Mapping[str, Any], *at: str | int) -> Mapping[str, str]:
        """The values of variables, without a choice."""
        return {
            name: text
            for name, given in value.items()
            if self._is_variable(name, at) and (text := self._value(name, given, (*at, name))) is not None
        }

    def _read(self, value: Any, at: Path, depth: int) -> Constraint:
        if not isinstance(value, dict):
            return self._malformed(at, "a constraint is an object")
        if depth > _MOST_DEPTH:
            return self._malformed(at, f"the constraint is nested deeper than {_MOST_DEPTH} levels")
        return _joined(All, (self._part(key, part, (*at, key), depth) for key, part in value.items()))

    def _part(self, key: str, value: Any, at: Path, depth: int) -> Constraint:
        if key == "not":
            return Not(self._read(value, at, depth + 1))
        if key in JOINING:
            if not isinstance(value, list) or not (value or key == "all"):
                return self._malformed(at, f"{quoted(key)} needs an array of constraints")
            parts = [self._read(part, (*at, i), depth + 1) for i, part in enumerate(value)]
            return _joined(All if key == "all" else Some, parts)
        if not self._is_variable(key, at[:-1]):
            return NOTHING
        if not isinstance(value, dict):
            text = self._value(key, value, at)
            return NOTHING if text is None else Equals(key, text)
        return self._comparison(key, value, at)

    def _comparison(self, variable: str, value: Mapping[str, Any], at: Path) -> Constraint:
        if len(value) != 1 or next(iter(value)) not in _COMPARISONS:
            return self._malformed(at, f"a comparison is an object with one of {listed(_COMPARISONS)}")
        ((kind, operand),) = value.items()
        within = (*at, kind)
        if kind == "in":
            if not isinstance(operand, list) or not operand:
                return self._malformed(within, "'in' needs an array of values")
            texts = [self._value(variable, item, (*within, i)) for i, item in enumerate(operand)]
            return _joined(Some, (Equals(variable, text) for text in texts if text is not None))
        if kind == "not":
            text = self._value(variable, operand, within)
            return NOTHING if text is None else Not(Equals(variable, text))
        return self._pair(variable, kind, operand, within)

    def _pair(self, variable: str, kind: str, other: Any, at: Path) -> Constraint:
        if not isinstance(other, str):
            return self._malformed(at, f"{quoted(kind)} needs the name of a variable")
        if not self._is_variable(other, at[:-1]):
            return NOTHING
        return Same(variable, other) if kind == "same" else Not(Same(variable, other))

    def _is_variable(self, name: str, at: Path) -> bool:
        if name in self._domains:
            return True
        known = sorted(self._domains)
        others = f"the known ones are {listed(known)}; name one of them, or " if known else ""
        remedy = suggestion(name, known, f"{others}declare it in 'variables'")
        self.problems.append(problem_at("unknown-variable", f"unknown variable {quoted(name)}", remedy, *at, name))
        return False

    def _value(self, variable: str, value: Any, at: Path) -> str | None:
        text = value_text(value)
        if text is None:
            self._malformed(at, "a value is a text, true, false, an integer or null")
        elif text not in self._domains[variable]:
            others = listed(sorted(self._domains[variable] - {UNSET}))
            message = f"{quoted(variable)} cannot be {quoted(text)}"
            self.problems.append(problem_at("outside-domain", message, f"it may be {others} or null", *at))
            return None
        return text

    def _malformed(self, at: Path, message: str) -> Constraint:
        self.problems.append(problem_at("malformed-constraint", message, _FORM, *at))
        return NOTHING


def _joined(kind: Callable[[tuple[Constraint, ...]], All | Some], parts: Iterable[Constraint]) -> Constraint:
    every = tuple(parts)
    return every[0] if len(every) == 1 else kind(every)
