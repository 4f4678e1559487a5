"""The form of a dynamic document: tasks with alternates, guarded streams, and a policy beside what is plain."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from adaptation.guards.conditions import Guard, ValueGuard
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TAGS, MOST_TASKS, HostTag, Name, StreamForm, TaskForm, TaskId

MOST_ALTERNATES = 20
MOST_RULES = MOST_EVENTS = 100

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _value_tag(value: Any) -> str:
    return "(guard)" if isinstance(value, dict | ValueGuard) else "(number)"


class AlternateForm(_Form):
    """One of the implementations that a task may have."""

    name: Name
    """Unique within the task."""
    type: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The name of a task type."""
    module: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """A version of a module, such as `clean@2`, in place of a type."""
    config: dict[str, Any] = Field(default_factory=dict)
    """As the type requires, or what the module leaves open."""
    value: Annotated[
        Annotated[Positive, Tag("(number)")] | Annotated[ValueGuard, Tag("(guard)")], Discriminator(_value_tag)
    ]
    """How good its results are, compared with those of the other alternates; or a number that events bring."""
    cost: Amount
    """Microseconds of CPU an event, until it was measured."""
    selectivity: Amount = 1.0
    """Events that leave for one that enters, until it was measured."""
    when: Guard | None = None
    """When it is allowed; always if left out."""

    @model_validator(mode="after")
    def _one_implementation(self) -> Self:
        if (self.type is None) == (self.module is None):
            raise ValueError("an alternate is of a type or of a module; give one of 'type' and 'module'")
        return self


class DynamicTaskForm(_Form):
    """A task with alternates."""

    id: TaskId
    alternates: Annotated[tuple[AlternateForm, ...], Field(max_length=MOST_ALTERNATES, strict=False)]
    first: Name | None = None
    """The alternate with which it begins; the first one if left out."""
    switch: Literal["consistent", "fast"] = "consistent"
    """What a switch may cost: consistency, or time. Both are one reconfiguration today, which is consistent."""
    tags: Annotated[tuple[HostTag, ...], Field(max_length=MOST_TAGS, strict=False)] = ()
    """Tags that a host must offer to run it, whichever alternate is active."""


class GuardedStreamForm(StreamForm):
    """A stream that may have a guard."""

    when: Guard | None = None
    """When it is open; always if left out."""


class EventStreamForm(_Form):
    """An output whose events are domain events."""

    dataflow: Name | None = None
    """The name of another dataflow of the tenant; this one if left out."""
    output: TaskId


def _chosen(value: Any) -> str | bool:
    if not isinstance(value, str | bool):
        raise ValueError("what is chosen is the name of an alternate, or true or false for a stream")  # noqa: TRY004 - pydantic reports it
    return value


class RuleForm(Guard):
    """A rule: while it is active, it fixes what is chosen."""

    name: Name
    choose: Annotated[dict[str, Annotated[Any, AfterValidator(_chosen)]], Field(min_length=1)]
    """The alternate of a task, by its id; or whether a stream is open, by its name `from>to`."""

    @property
    def guard(self) -> Guard:
        """When it is active."""
        return Guard(activate=self.activate, deactivate=self.deactivate)


class Policy(_Form):
    """What a tenant asks of a dynamic dataflow."""

    throughput: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The share of what comes in that must be worked off."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """How far that may be missed before something is done, and the margin for a better choice."""
    latency: Positive | None = None
    """The longest time that an event may take, in seconds."""
    cores: Positive | None = None
    """The most cores that it may need."""
    events: Annotated[dict[Name, EventStreamForm], Field(max_length=MOST_EVENTS)] = Field(default_factory=dict)
    """Domain events, by the names that conditions use."""
    rules: Annotated[tuple[RuleForm, ...], Field(max_length=MOST_RULES, strict=False)] = ()
    """Of two that are active, the earlier one wins."""


def _task_tag(task: Any) -> str:
    return "(dynamic)" if isinstance(task, dict) and "alternates" in task else "(task)"


DynamicEntry = Annotated[
    Annotated[TaskForm, Tag("(task)")] | Annotated[DynamicTaskForm, Tag("(dynamic)")], Discriminator(_task_tag)
]


class DynamicForm(_Form):
    """A dataflow that adapts, as its tenant wrote it."""

    version: Annotated[int, Field(ge=1, le=1)]
    name: Name
    tasks: Annotated[tuple[DynamicEntry, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[GuardedStreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]
    policy: Policy = Field(default_factory=Policy)
