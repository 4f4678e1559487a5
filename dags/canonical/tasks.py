"""Passes over the tasks of a document: the type of each, its complete config, and the source that it names.

A config is checked against its type's schema, filled in with defaults, and written as canonical JSON. All functions of
third parties are called by `ask`, which makes a problem of the task of any exception.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import rfc8785
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dags.canonical.draft import DraftDocument
from dags.config import Config, NamesSource
from dags.dataflow import TaskKeeping
from dags.json_text import LARGEST_INTEGER, describe_error, place_in_config
from dags.outputs import DeliveringConfig, EnvelopeOutput, SparkplugOutput, topic_fields
from dags.problems import MOST_DOCUMENT_PROBLEMS, Problem, listed, problem_at, quoted, suggestion
from dags.schema import Source
from dags.task_type import AnyTaskType, Unsuitable

P = ParamSpec("P")
R = TypeVar("R")


def ask(task: int, type_name: str, hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | Problem:
    """The hook's result, or a problem if it raises.

    >>> ask(2, "halve", lambda: 1 / 0).message
    "the task type 'halve' failed on this task: ZeroDivisionError: division by zero"
    """
    try:
        return hook(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - third parties may raise anything
        message = f"the task type {quoted(type_name)} failed on this task: {type(error).__name__}: {_text(error)}"
        return problem_at("task-type-failed", message, "report it to the provider of the type", "tasks", task)


def _text(error: Exception) -> str:
    """The text of an error, even if making it fails or it contains unprintable characters."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception:  # noqa: BLE001 - third parties may raise anything, here too
        return "no reason given"


def find_types(draft: DraftDocument) -> DraftDocument:
    """Give every task its type.

    >>> find_types(draft("s:source > a:map > k:sink")).types[1].name
    'map'
    >>> find_types(draft("s:source > a:mapp > k:sink")).problems[0].remedy
    "did you mean 'map'?"
    """
    known: dict[str, AnyTaskType | None] = {}
    types: list[AnyTaskType | None] = []
    unknown: dict[int, str] = {}
    problems: list[Problem] = []
    for i, form in enumerate(draft.reading.tasks):
        if form is None:
            types.append(None)
            continue
        if form.type not in known:
            kind = ask(i, form.type, draft.catalogue.find, form.type)
            if isinstance(kind, Problem):
                problems.append(kind)
                types.append(None)
                continue
            known[form.type] = kind
        types.append(known[form.type])
        if types[-1] is None:
            unknown[i] = form.type
    problems += _unknown_types(draft, unknown) if unknown else ()
    return replace(draft, types=tuple(types), problems=(*draft.problems, *problems))


def _unknown_types(draft: DraftDocument, named: Mapping[int, str]) -> Iterable[Problem]:
    known = draft.catalogue.names()
    otherwise = f"the known types are {listed(known)}"
    for task, name in named.items():
        remedy = suggestion(name, known, otherwise)
        yield problem_at("unknown-type", f"unknown task type {quoted(name)}", remedy, "tasks", task, "type")


def fill_configs(draft: DraftDocument) -> DraftDocument:
    """Give every task its complete config, as a record and as canonical JSON (RFC 8785), and what follows from it.

    That is its type with the ports for that config, and what it keeps.

    >>> fill_configs(find_types(draft("s:source > a:map > k:sink"))).config_texts[1]
    b'{"add":0}'
    >>> fill_configs(find_types(draft("s:source > a:map{'ad': 1} > k:sink"))).problems[0].remedy
    "did you mean 'add'?"
    """
    types = list(draft.types)
    configs: list[Config | None] = [None] * len(types)
    texts: list[bytes | None] = [None] * len(types)
    keepings: list[TaskKeeping | None] = [None] * len(types)
    problems: list[Problem] = []
    for i, (form, kind) in enumerate(zip(draft.reading.tasks, draft.types, strict=True)):
        if form is None or kind is None:
            continue
        filled = ask(i, kind.name, _filled, i, kind, form.config, draft.tenant)
        if isinstance(filled, tuple):
            types[i], configs[i], texts[i], keepings[i] = filled
            continue
        if kind.varies:
            # Without a config its ports and tags are unknown.
            types[i] = None
        if isinstance(filled, Problem):
            problems.append(filled)
        elif len(problems) < MOST_DOCUMENT_PROBLEMS:
            problems += filled
    return replace(
        draft,
        types=tuple(types),
        configs=tuple(configs),
        config_texts=tuple(texts),
        keepings=tuple(keepings),
        problems=(*draft.problems, *problems),
    )


def _filled(
    i: int, kind: AnyTaskType, given: dict[str, Any], owner: str
) -> tuple[AnyTaskType, Config, bytes, TaskKeeping] | list[Problem]:
    filled = complete(kind, given, owner)
    if isinstance(filled, ValidationError):
        return _config_problems(i, given, kind, filled)
    config, text = filled
    try:
        own = kind.of(config)
    except Unsuitable as error:
        return [problem_at("wrong-value", error.message, error.remedy, *config_place(i, error.at))]
    return own, config, text, TaskKeeping.of(kind, config, ())


def config_place(task: int, at: str) -> tuple[str | int, ...]:
    """The place of a config field of a task, as `Read` and `Unsuitable` name it; the task itself if they name none."""
    return ("tasks", task, "config", *at.split("/")) if at else ("tasks", task)


def complete(kind: AnyTaskType, given: dict[str, Any], owner: str) -> tuple[Config, bytes] | ValidationError:
    """The whole config that a task's is short for, as a record and as canonical JSON; or what is wrong with it."""
    try:
        # From JSON text: there, strict still allows what JSON can express (arrays for tuples, strings for enums).
        config: Config = kind.config.model_validate_json(json.dumps(given))
    except ValidationError as error:
        return error
    if kind.normalise is not None:
        config = kind.normalise(config)
        if not isinstance(config, kind.config):
            raise TypeError(f"normalise returned {type(config).__name__}, not {kind.config.__name__}")
    return config, canonical_json(config, owner)


def canonical_json(config: Config, owner: str) -> bytes:
    """The text of a config that is hashed. Its secrets carry their owner."""
    value = config.model_dump(mode="json", by_alias=True, context={"owner": owner})
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_largest_as_float(value))


def _largest_as_float(value: Any) -> Any:
    """Make floats of the largest integers: RFC 8785 can write them, but rfc8785 accepts them only as floats."""
    if isinstance(value, dict):
        return {key: _largest_as_float(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_largest_as_float(item) for item in value]
    return float(value) if value in (LARGEST_INTEGER, -LARGEST_INTEGER) else value


def _config_problems(task: int, given: dict[str, Any], kind: AnyTaskType, error: ValidationError) -> list[Problem]:
    if error.error_count() > MOST_DOCUMENT_PROBLEMS:
        message = f"the config breaks the schema of {quoted(kind.name)} in {error.error_count():,} places"
        remedy = "compare it with the schema of the type"
        return [problem_at("too-many-problems", message, remedy, "tasks", task, "config")]
    findings = error.errors(include_url=False, include_input=False)
    problems = (_config_problem(task, given, kind, detail) for detail in findings)
    return [problem for problem in problems if problem is not None]


def _config_problem(task: int, given: Any, kind: AnyTaskType, detail: ErrorDetails) -> Problem | None:
    within, value = place_in_config(detail, given)
    place = ("tasks", task, "config", *within)
    if detail["type"] == "too_short" and len(value) >= detail["ctx"]["min_length"]:
        # An array with bad entries also counts as too short, which is no problem of its own.
        return None
    if detail["type"] == "int_type" and isinstance(value, float) and value.is_integer():
        message = "the integer is beyond ±2^53, where JSON numbers lose digits"
        return problem_at("integer-too-large", message, "use a smaller one", *place)
    # The known fields are those of the config itself; they are unknown for nested objects.
    fields = kind.config.model_fields.items() if len(within) == 1 else ()
    return problem_at(*describe_error(detail, [field.alias or name for name, field in fields]), *place)


def own_topics(draft: DraftDocument) -> DraftDocument:
    """Refuse outputs on topics that do not begin with the tenant's name, or whose levels the format cannot fill.

    So it is with edge nodes of groups that do not begin with it.

    >>> own_topics(fill_configs(find_types(draft("s:source > k:sink")))).problems
    ()
    """
    problems: list[Problem] = []
    nodes = set[tuple[str, str]]()
    for i, config in enumerate(draft.configs):
        if not isinstance(config, DeliveringConfig):
            continue
        if isinstance(config.format, SparkplugOutput):
            unfit = [*_unfit_node(config, config.format, draft.tenant)]
            if (node := (config.format.group, config.format.node)) in nodes:
                unfit.append(("format/node", *taken_node(config.format)))
            nodes.add(node)
            problems += (problem_at(*why, *config_place(i, at)) for at, *why in unfit)
        elif config.topic is not None:
            why_unfit = _unfit_topic(config, config.topic, draft.tenant)
            problems += (problem_at(*why, *config_place(i, "topic")) for why in why_unfit)
    return replace(draft, problems=(*draft.problems, *problems))


def taken_node(node: SparkplugOutput) -> tuple[str, str, str]:
    """The code, message and remedy for an output that would be the edge node that another one is."""
    message = f"another output is the edge node {quoted(node.node)} of the group {quoted(node.group)}"
    return "taken-node", message, "choose another name for it"


def _unfit_node(config: DeliveringConfig, node: SparkplugOutput, tenant: str) -> Iterator[tuple[str, str, str, str]]:
    """The place, code, message and remedy of each reason why an output cannot be an edge node."""
    if node.group.partition(".")[0] != tenant:
        message = f"the group {quoted(node.group)} is not yours"
        yield "format/group", "foreign-group", message, f"choose {tenant}, or one that begins with {tenant} and a dot"
    if config.topic is not None:
        message = "an edge node has the topics that Sparkplug gives it"
        yield "topic", "node-setting", message, "leave the topic out"
    if config.retain:
        message = "nothing that an edge node publishes is retained"
        yield "retain", "node-setting", message, "leave it out; whoever comes later asks for a birth"
    if node.metrics:
        message = "the metrics of an edge node are the declared fields of its events"
        yield "format/metrics", "node-setting", message, "leave them out"


def _unfit_topic(config: DeliveringConfig, topic: str, tenant: str) -> Iterator[tuple[str, str, str]]:
    """The code, message and remedy of each reason why an output cannot have a topic."""
    if not topic.startswith(f"{tenant}/"):
        yield "foreign-topic", f"the topic {quoted(topic)} is not yours", f"choose one that begins with {tenant}/"
    fields = topic_fields(topic)
    if fields and isinstance(config.format, EnvelopeOutput):
        message = f"the topic {quoted(topic)} names a field, and an envelope has events of several values"
        yield "envelope-topic", message, "choose a format with a message for each event, such as plain"
    if len(set(fields)) < len(fields):
        message = f"the topic {quoted(topic)} names a field twice"
        yield "repeated-level", message, "name each field once"


def find_sources(draft: DraftDocument) -> DraftDocument:
    """Give every source task its registered source. A source that the tenant may not read counts as unknown.

    >>> named = find_sources(fill_configs(find_types(draft("s:source{'source': 'wether'} > k:sink"))))
    >>> named.problems[0].message, named.problems[0].remedy
    ("unknown source 'wether'", "did you mean 'weather'?")
    """
    registered: list[Source | None] = []
    texts = list(draft.config_texts)
    unknown: dict[int, str] = {}
    for i, (kind, config) in enumerate(zip(draft.types, draft.configs, strict=True)):
        source = None
        if kind is not None and kind.is_source and isinstance(config, NamesSource):
            named = draft.sources.get(config.source)
            if named is not None and named.visible_to(draft.tenant):
                source = named
                # Tenants may know a source by different names; the registered name counts.
                if source.name != config.source:
                    texts[i] = canonical_json(config.model_copy(update={"source": source.name}), draft.tenant)
            else:
                unknown[i] = config.source
        registered.append(source)
    problems = _unknown_sources(draft, unknown) if unknown else ()
    return replace(
        draft, registered=tuple(registered), config_texts=tuple(texts), problems=(*draft.problems, *problems)
    )


def _unknown_sources(draft: DraftDocument, named: dict[int, str]) -> Iterable[Problem]:
    readable = sorted(name for name, source in draft.sources.items() if source.visible_to(draft.tenant))
    otherwise = f"you may use {listed(readable)}"
    for task, name in named.items():
        remedy = suggestion(name, readable, otherwise)
        yield problem_at("unknown-source", f"unknown source {quoted(name)}", remedy, *config_place(task, "source"))
