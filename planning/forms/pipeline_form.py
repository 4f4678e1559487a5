"""The form of a pipeline: a document with points and gaps beside tasks, and with goals."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS, Name, StreamForm, TaskForm, TaskId
from planning.forms.module_form import Domains, FieldName, KindName
from planning.planning_problem import Criterion, Meeting
from planning.shape import ModuleShape

MOST_IN_GAP = 20
MOST_GOALS = 1_000
END, EVERYWHERE = "end", "everywhere"


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Choice(_Form):
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


class PointForm(_Form):
    """A point of a pipeline."""

    id: TaskId
    point: PointChoice


class GapForm(_Form):
    """A gap of a pipeline."""

    id: TaskId
    gap: GapChoice


class GoalForm(_Form):
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


class PipelineForm(_Form):
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
    """Whether it is planned anew by itself when modules are published or deprecated."""
