"""Dynamic documents: their form, the records that are worked with, and the plain documents that they resolve to.

A dynamic document has tasks with alternates, guarded streams and a policy beside what is plain. A selection says which
alternate each task has and which streams are open. `resolve` makes the plain document of one, and `choices_in` finds
the selection that a plain document stands for.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag, model_validator

from adaptation.guards import Guard, Place, ValueGuard
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

MOST_ALTERNATES = 20
MOST_RULES = MOST_EVENTS = 100

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class AlternateForm(StrictForm):
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
        Annotated[Positive, Tag("(number)")] | Annotated[ValueGuard, Tag("(guard)")],
        Discriminator(lambda value: "(guard)" if isinstance(value, dict | ValueGuard) else "(number)"),
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


class DynamicTaskForm(StrictForm):
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


class EventStreamForm(StrictForm):
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


class Policy(StrictForm):
    """What a tenant asks of a dynamic dataflow."""

    throughput: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The share of what comes in that must be worked off."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """How far that may be missed before something is done, and the margin for a better choice."""
    latency: Positive | None = None
    """The longest time that an event may take, in seconds."""
    cores: Positive | None = None
    """The most cores that it may need."""
    worth: Amount | None = None
    """What its best alternates are worth, in money an hour; others less, by their value."""
    budget: Positive | None = None
    """The most money a day that the cores it needs may cost."""
    events: Annotated[dict[Name, EventStreamForm], Field(max_length=MOST_EVENTS)] = Field(default_factory=dict)
    """Domain events, by the names that conditions use."""
    rules: Annotated[tuple[RuleForm, ...], Field(max_length=MOST_RULES, strict=False)] = ()
    """Of two that are active, the earlier one wins."""


DynamicEntry = Annotated[
    Annotated[TaskForm, Tag("(task)")] | Annotated[DynamicTaskForm, Tag("(dynamic)")],
    Discriminator(lambda task: "(dynamic)" if isinstance(task, dict) and "alternates" in task else "(task)"),
]


class DynamicForm(StrictForm):
    """A dataflow that adapts, as its tenant wrote it."""

    version: Annotated[int, Field(ge=1, le=1)]
    name: Name
    tasks: Annotated[tuple[DynamicEntry, ...], Field(min_length=1, max_length=MOST_TASKS, strict=False)]
    streams: Annotated[tuple[GuardedStreamForm, ...], Field(max_length=MOST_DOCUMENT_STREAMS, strict=False)]
    policy: Policy = Field(default_factory=Policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicTask:
    """A task with alternates."""

    id: str
    at: int
    """Its position among the tasks of the document, and of every document that it resolves to."""
    alternates: Mapping[str, AlternateForm]
    """By name, in the document's order; with the types and complete configs that their modules give."""
    first: str
    is_fast: bool
    """Whether it switches at its job's next batch, rather than at one cut with the others."""
    tags: frozenset[str] = frozenset()
    """The tags that its host must offer: it stays there, so those of all alternates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedStream:
    """A stream that is open or not."""

    name: str
    """The name that rules use: `from>to`, with the ports if others join the same two tasks."""
    at: int
    """Its position among the streams."""
    gate: str
    """The id of the task that opens and closes it."""
    when: Guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is chosen of a dynamic dataflow: the alternate of each task, and whether each guarded stream is open."""

    alternates: Mapping[str, str] = field(default_factory=dict)
    """By the ids of tasks."""
    opened: Mapping[str, bool] = field(default_factory=dict)
    """By the names of streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicDocument:
    """A dataflow that adapts; made by `read_dynamic`."""

    name: str
    written: Mapping[str, Any]
    """The document as it was written."""
    tasks: Mapping[str, DynamicTask]
    """Those with alternates, by id."""
    streams: Mapping[str, GuardedStream]
    """Those with guards, by name."""
    policy: Policy

    @property
    def ids(self) -> list[str]:
        """The ids of all tasks."""
        return [task["id"] for task in self.written["tasks"]]

    @property
    def fast(self) -> frozenset[str]:
        """The ids of the tasks that switch apart from the others."""
        return frozenset(task.id for task in self.tasks.values() if task.is_fast)

    @property
    def first(self) -> Selection:
        """With what it begins: no guard is active, so guarded streams are closed."""
        return Selection(
            alternates={task.id: task.first for task in self.tasks.values()}, opened=dict.fromkeys(self.streams, False)
        )


def placed_alternates(dynamic: DynamicDocument) -> Iterator[tuple[Place, AlternateForm]]:
    """Every alternate with its place in the document."""
    for task in dynamic.tasks.values():
        for number, alternate in enumerate(task.alternates.values()):
            yield ("tasks", task.at, "alternates", number), alternate


def placed_guards(dynamic: DynamicDocument) -> Iterator[tuple[Place, Guard]]:
    """The guards of alternates and streams, each with its place in the document."""
    for at, alternate in placed_alternates(dynamic):
        if alternate.when is not None:
            yield (*at, "when"), alternate.when
    for stream in dynamic.streams.values():
        yield ("streams", stream.at, "when"), stream.when


def placed_values(dynamic: DynamicDocument) -> Iterator[tuple[Place, ValueGuard]]:
    """The value guards of alternates, each with its place in the document."""
    for at, alternate in placed_alternates(dynamic):
        if isinstance(alternate.value, ValueGuard):
            yield (*at, "value"), alternate.value


GATE_TYPE = "gate"
"""The type of the tasks that open and close streams."""


class NotAResolution(ValueError):
    """A plain document is none that a dynamic one resolves to."""


def resolve(dynamic: DynamicDocument, choice: Selection) -> dict[str, Any]:
    """The plain document in which each task has its chosen alternate, and each guarded stream a gate.

    Tasks and streams keep their positions. Gates, and the streams out of them, stand after all others.
    """
    tasks = list(dynamic.written["tasks"])
    streams = list(dynamic.written["streams"])
    for task in dynamic.tasks.values():
        chosen = task.alternates[choice.alternates[task.id]]
        module = {} if chosen.module is None else {"module": chosen.module}
        tags = {"tags": sorted(task.tags)} if task.tags else {}
        tasks[task.at] = {"id": task.id, "type": chosen.type, "config": dict(chosen.config), **module, **tags}
    for stream in dynamic.streams.values():
        tasks.append({"id": stream.gate, "type": GATE_TYPE, "config": {"open": choice.opened[stream.name]}})
        whole = streams[stream.at]
        streams[stream.at] = {key: whole[key] for key in whole if key in {"from", "from_port"}} | {"to": stream.gate}
        streams.append({"from": stream.gate} | {key: whole[key] for key in whole if key in {"to", "to_port"}})
    plain = {key: dynamic.written[key] for key in ("version", "name")}
    unguarded = [{key: value for key, value in stream.items() if key != "when"} for stream in streams]
    return {**plain, "tasks": tasks, "streams": unguarded}


def choices_in(plain: Mapping[str, Any], dynamic: DynamicDocument) -> Selection:
    """The selection that resolves to a plain document. Raises `NotAResolution`."""
    tasks = {task["id"]: task for task in plain["tasks"]}
    return Selection(
        alternates={task.id: _alternate_in(tasks.get(task.id), task) for task in dynamic.tasks.values()},
        opened={stream.name: _opened_in(tasks.get(stream.gate), stream) for stream in dynamic.streams.values()},
    )


def implementation_text(alternate: AlternateForm) -> str:
    """What an alternate is, as a text in which 1 and true differ."""
    return json.dumps([alternate.type, alternate.config], sort_keys=True)


def _alternate_in(plain: Mapping[str, Any] | None, task: DynamicTask) -> str:
    text = None if plain is None else json.dumps([plain.get("type"), plain.get("config", {})], sort_keys=True)
    for name, alternate in task.alternates.items():
        if text == implementation_text(alternate):
            return name
    raise NotAResolution(f"the task {task.id!r} has none of its alternates")


def _opened_in(plain: Mapping[str, Any] | None, stream: GuardedStream) -> bool:
    opened = None if plain is None else plain.get("config", {}).get("open")
    if plain is None or plain.get("type") != GATE_TYPE or not isinstance(opened, bool):
        raise NotAResolution(f"the stream {stream.name!r} has no gate")
    return opened
