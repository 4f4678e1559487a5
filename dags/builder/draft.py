"""The draft of a document: tasks and streams in the order of a program's steps, with checks at each."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from dags.builder.conditions import BuildError, BuiltGuard, BuiltPlace, Form, events_in, known_among, present
from dags.config import Config
from dags.document import is_task_id
from dags.task_type import AnyTaskType

_NO_ID = re.compile(r"[/+#\x00-\x1f\x7f-\x9f]+")
"""What an id may not have."""


class Origin(NamedTuple):
    """Where a stream comes from: a port of a task, and the guard of its path."""

    task: int
    port: str | None
    when: BuiltGuard | None = None


class BuiltEntrance(NamedTuple):
    """A stream that enters a task, at a port if the task has several."""

    origin: Origin
    port: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltTask:
    """One task of a draft; made by the steps of a program."""

    operator: str
    """The step as the program calls it."""
    stem: str
    """What its id is made of if it has no name."""
    name: str | None
    form: Form
    """What the document says of it besides its id."""
    entrances: tuple[BuiltEntrance, ...]
    is_sink: bool = False


@dataclass(slots=True, kw_only=True)
class ProgramDraft:
    """The tasks that a program has added so far, and what it left unfinished."""

    name: str
    tasks: list[BuiltTask] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Those that the program gave to tasks."""
    windows: dict[int, str] = field(default_factory=dict)
    """The steps of windows that no aggregate has ended yet."""
    begun: Iterator[int] = field(default_factory=count)
    """The numbers of windows."""

    def add(self, task: BuiltTask) -> int:
        """Add a task. Returns its number."""
        step = self.step(task.operator, task.name)
        if task.name is not None:
            if not is_task_id(task.name):
                message = f"{task.name!r} cannot be a task's id"
                raise BuildError(step, message, "give a name of 1 to 128 characters without '/', '+', '#'")
            if task.name in self.names:
                raise BuildError(step, f"another task is named {task.name!r}", "give each task a name of its own")
            self.names.add(task.name)
        self.tasks.append(task)
        return len(self.tasks) - 1

    def step(self, operator: str, name: str | None = None) -> str:
        """The next step, as errors name it."""
        return f"step {len(self.tasks) + 1}, {operator}" + (f" {name!r}" if name is not None else "")

    def document(self) -> dict[str, Any]:
        """The whole document but for the policy. Raises `BuildError` if a step is unfinished."""
        for step in self.windows.values():
            remedy = "end it with mean, collect, summary, join or process, or remove it"
            raise BuildError(step, "the window has no aggregate", remedy)
        ids = self.ids()
        read = {origin.task for task in self.tasks for origin, _ in task.entrances}
        for number, task in enumerate(self.tasks):
            if not task.is_sink and number not in read:
                remedy = "end it with output, or remove the step"
                raise BuildError(self._shown(number, ids), "nothing reads its stream", remedy)
        if not self.tasks:
            raise BuildError("the program", "it has no steps", "begin with stream")
        tasks = [{"id": ids[number], **self.resolved(task.form, ids)} for number, task in enumerate(self.tasks)]
        streams = []
        for number, task in enumerate(self.tasks):
            for origin, port in task.entrances:
                when = None if origin.when is None else self.resolved(origin.when.form, ids)
                ends = {"from": ids[origin.task], "from_port": origin.port, "to": ids[number], "to_port": port}
                streams.append(present({**ends, "when": when}))
        return {"version": 1, "name": self.name, "tasks": tasks, "streams": streams}

    def ids(self) -> Sequence[str]:
        """The id of each task. Those without a name get the first one that is free, in the order of steps."""
        taken, tried = set(self.names), Counter[str]()
        ids: list[str] = []
        for task in self.tasks:
            name = task.name or task.stem
            while task.name is None and name in taken:
                # Counted on from the last one, so that many tasks of a type do not try the same names again.
                tried[task.stem] = max(2, tried[task.stem] + 1)
                name = f"{task.stem}-{tried[task.stem]}"
            taken.add(name)
            ids.append(name)
        return ids

    def events(self) -> Iterator[tuple[str, str]]:
        """The names of domain events that guards and values speak of, each with the step."""
        ids = self.ids()
        for number, task in enumerate(self.tasks):
            forms = [origin.when.form for origin, _ in task.entrances if origin.when is not None]
            for name in events_in([*forms, *task.form.get("alternates", ())]):
                yield name, self._shown(number, ids)

    def resolved(self, form: Any, ids: Sequence[str]) -> Any:
        """A part of a document, in which streams stand for their tasks, with the ids of these."""
        if isinstance(form, Mapping):
            if isinstance(named := form.get("task"), str):
                known_among("a condition", "task", named, ids)
            return {key: part if key == "config" else self.resolved(part, ids) for key, part in form.items()}
        if isinstance(form, list):
            return [self.resolved(part, ids) for part in form]
        if not isinstance(form, BuiltPlace):
            return form
        if form.draft is not self:
            raise BuildError("a condition", "it names a stream of another program", "name a stream of this program")
        return ids[form.task]

    def _shown(self, number: int, ids: Sequence[str]) -> str:
        return f"step {number + 1}, {self.tasks[number].operator} {ids[number]!r}"


def stem_of(text: str) -> str:
    """A text as part of an id.

    >>> stem_of("city:meters"), stem_of("a/b")
    ('meters', 'a-b')
    """
    return _NO_ID.sub("-", text.rpartition(":")[2])[:100] or "task"


def written(config: Mapping[str, object] | Config) -> Mapping[str, object]:
    """A config as documents have it."""
    return config.model_dump(mode="json", by_alias=True, exclude_unset=True) if isinstance(config, Config) else config


def type_and_config(step: str, kind: AnyTaskType | str, config: Mapping[str, object] | Config) -> dict[str, Any]:
    """The type and config of a task as documents have them, with sorted keys."""
    try:
        plain = json.loads(json.dumps(written(config), sort_keys=True, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BuildError(step, f"its config is not JSON: {error}", "use texts, numbers, lists and mappings") from None
    return {"type": kind if isinstance(kind, str) else kind.name, **({"config": plain} if plain else {})}
