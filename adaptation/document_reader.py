"""The reader of dynamic documents: finds every problem, each with its place, a code, a message and a remedy.

It also names the guarded streams, and gives an id to the gate of each.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from adaptation.document_checks import (
    Canonical,
    alternate_problems,
    budget_problems,
    guard_problems,
    lost_event_problems,
    policy_problems,
)
from adaptation.documents import (
    AlternateForm,
    DynamicDocument,
    DynamicForm,
    DynamicTask,
    DynamicTaskForm,
    GuardedStream,
    Policy,
    implementation_text,
)
from adaptation.guards import Place
from dags import InvalidDocument, Problem
from dags.document import is_task_id
from dags.json_text import object_naming, parsed_object, read_form, refusal
from dags.problems import listed, problem_at, quoted, suggestion


def guarded_streams(form: DynamicForm, problems: list[Problem]) -> dict[str, GuardedStream]:
    """The guarded streams by name; what is wrong with them is added to the problems."""
    ids = {entry.id for entry in form.tasks}
    between = Counter((stream.origin, stream.to) for stream in form.streams if stream.when is not None)
    streams: dict[str, GuardedStream] = {}
    for at, stream in enumerate(form.streams):
        if stream.when is None:
            continue
        name = f"{stream.origin}>{stream.to}"
        if between[stream.origin, stream.to] > 1:
            name = f"{stream.origin}.{stream.from_port or 'out'}>{stream.to}.{stream.to_port or 'in'}"
        if name in streams:
            message = f"another guarded stream is called {quoted(name)}"
            problems.append(
                problem_at("repeated-stream", message, "remove one of them, or rename a task", "streams", at)
            )
            continue
        gate = _free_id(name, ids)
        ids.add(gate)
        streams[name] = GuardedStream(name=name, at=at, gate=gate, when=stream.when)
    return streams


def _free_id(name: str, ids: Collection[str]) -> str:
    """The name of a stream as the id of its gate, or another if it is none or is taken."""
    if name not in ids and is_task_id(name):
        return name
    return next(other for number in count(1) if (other := f"gate {number}") not in ids)


DYNAMIC_FIELDS = frozenset({"policy"})
"""The fields that only dynamic documents have."""
FEWEST_ALTERNATES = 2

_NAMES = DYNAMIC_FIELDS | {"alternates", "when"}
_OPEN = frozenset({"point", "gap"})

ModuleOf = Callable[[str, Mapping[str, Any]], tuple[str, Mapping[str, Any], Collection[str]] | None]
"""The type, config and tags of a module, by `name@version` and what it leaves open; None if there is none."""


def no_modules(_name: str, _config: Mapping[str, Any]) -> None:
    """Where no modules are published."""


def is_dynamic(value: Mapping[str, Any]) -> bool:
    """Whether a document has alternates, guarded streams or a policy."""
    return bool(value.keys() & DYNAMIC_FIELDS) or _has(value, "tasks", "alternates") or _has(value, "streams", "when")


def dynamic_in(raw: bytes) -> bool:
    """Whether a document adapts. One that cannot be read does not; it is refused as a document."""
    return is_dynamic(object_naming(raw, _NAMES))


def read_dynamic(
    raw: bytes | str,
    *,
    module: ModuleOf = no_modules,
    canonical: Canonical | None = None,
    rates: Mapping[str, float] = MappingProxyType({}),
) -> DynamicDocument:
    """The dynamic document in a JSON text. Raises `InvalidDocument` with every problem.

    `canonical` checks the plain documents that it resolves to; what was accepted before is read without it. `rates`
    are those of source tasks in events a second, as far as they are known.
    """
    value = parsed_object(raw)
    if is_dynamic(value) and any(_has(value, "tasks", field) for field in _OPEN):
        raise refusal(
            "open-and-dynamic",
            "a document has either open places or alternates",
            "plan the pipeline first, or leave the alternates to the planner",
        )
    form = read_form(raw, DynamicForm)
    problems: list[Problem] = []
    tasks = {
        entry.id: _task(entry, at, module, problems)
        for at, entry in enumerate(form.tasks)
        if isinstance(entry, DynamicTaskForm)
    }
    streams = guarded_streams(form, problems)
    dynamic = DynamicDocument(name=form.name, written=value, tasks=tasks, streams=streams, policy=form.policy)
    problems += _repeated(form)
    is_sound = not problems
    problems += guard_problems(dynamic, form.policy)
    problems += policy_problems(form.policy, dynamic)
    if is_sound:
        if canonical is not None:
            problems += alternate_problems(dynamic, canonical)
        if not problems:
            problems += budget_problems(dynamic, form.policy, rates, ("policy",))
    if problems:
        raise InvalidDocument(dict.fromkeys(problems))
    return dynamic


def read_policy(
    raw: bytes | str, dynamic: DynamicDocument, *, rates: Mapping[str, float] = MappingProxyType({})
) -> Policy:
    """Another policy for a dynamic document. Raises `InvalidDocument` with every problem."""
    policy = read_form(raw, Policy)
    problems = [
        *policy_problems(policy, dynamic, ()),
        *lost_event_problems(dynamic, policy),
        *budget_problems(dynamic, policy, rates, ()),
    ]
    if problems:
        raise InvalidDocument(problems)
    return policy


def _has(value: Mapping[str, Any], part: str, field: str) -> bool:
    entries = value.get(part)
    return isinstance(entries, list) and any(isinstance(entry, dict) and field in entry for entry in entries)


def _task(form: DynamicTaskForm, at: int, module: ModuleOf, problems: list[Problem]) -> DynamicTask:
    place = ("tasks", at)
    if len(form.alternates) < FEWEST_ALTERNATES:
        message, remedy = "a task with alternates has at least two", "add one, or give a plain task"
        problems.append(problem_at("single-alternate", message, remedy, *place, "alternates"))
    alternates: dict[str, AlternateForm] = {}
    texts: dict[str, str] = {}
    tags = set(form.tags)
    for number, alternate in enumerate(form.alternates):
        here = (*place, "alternates", number)
        if alternate.name in alternates:
            message = f"another alternate is called {quoted(alternate.name)}"
            problems.append(problem_at("repeated-alternate", message, "rename one of them", *here, "name"))
            continue
        made, needed = _completed(alternate, here, module, problems)
        tags.update(needed)
        text = implementation_text(made)
        if text in texts:
            message = f"it is the same as the alternate {quoted(texts[text])}"
            problems.append(problem_at("alternates-alike", message, "change one of them, or remove it", *here))
        alternates[alternate.name], texts[text] = made, alternate.name
    first = form.first if form.first is not None else next(iter(alternates), "")
    if alternates and first not in alternates:
        remedy = suggestion(first, alternates, f"there are {listed(alternates)}")
        message = f"unknown alternate {quoted(first)}"
        problems.append(problem_at("unknown-alternate", message, remedy, *place, "first"))
    return DynamicTask(
        id=form.id, at=at, alternates=alternates, first=first, is_fast=form.switch == "fast", tags=frozenset(tags)
    )


def _completed(
    form: AlternateForm, at: Place, module: ModuleOf, problems: list[Problem]
) -> tuple[AlternateForm, Collection[str]]:
    """An alternate with what its module gives, if it has one, and the tags that this needs."""
    if form.module is None:
        return form, ()
    implementation = module(form.module, form.config)
    if implementation is None:
        message = f"unknown module {quoted(form.module)}"
        remedy = "publish it, or name one that there is, with its version, as in clean@2"
        problems.append(problem_at("unknown-module", message, remedy, *at, "module"))
    kind, config, tags = implementation or (form.module, form.config, ())
    return form.model_copy(update={"type": kind, "config": config}), tags


def _repeated(form: DynamicForm) -> Iterator[Problem]:
    counts = Counter(entry.id for entry in form.tasks)
    for at, entry in enumerate(form.tasks):
        if isinstance(entry, DynamicTaskForm) and counts[entry.id] > 1:
            message = f"another task has the id {quoted(entry.id)}"
            yield problem_at("repeated-id", message, "rename one of them", "tasks", at, "id")
