"""The records that the passes work on: a document under check, then one that was accepted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dags.config import Config
from dags.dataflow import JsonField, Scope, TaskKeeping
from dags.document import Reading
from dags.outputs import DeliveringConfig, OutputSettings, with_metrics
from dags.problems import InvalidDocument, Problem
from dags.schema import Schema, Source
from dags.task_type import AnyTaskType, Catalogue, Schemas


class Wire(NamedTuple):
    """One stream, with its tasks as positions in the document and both ports named."""

    origin: int
    from_port: str
    to: int
    to_port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftDocument:
    """A document under check. Columns have one entry per task, None if the task has a problem."""

    dataflow: str
    tenant: str
    reading: Reading
    catalogue: Catalogue
    sources: Mapping[str, Source]
    types: tuple[AnyTaskType | None, ...] = ()
    configs: tuple[Config | None, ...] = ()
    config_texts: tuple[bytes | None, ...] = ()
    """Each config as canonical JSON."""
    keepings: tuple[TaskKeeping | None, ...] = ()
    """What each task keeps, without its parents."""
    registered: tuple[Source | None, ...] = ()
    """The registered sources of the source tasks."""
    wires: tuple[Wire, ...] = ()
    """The streams that could be connected to their ports."""
    order: tuple[int, ...] = ()
    """Every task after its parents; empty if there is a cycle."""
    json_fields: Mapping[int, tuple[JsonField, ...]] = field(default_factory=dict)
    """The fields of kind `json` that reach each task, if any do."""
    schemas: Mapping[int, Schemas] = field(default_factory=dict)
    """The schemas at the input ports of each task."""
    leaving: Mapping[int, Schemas] = field(default_factory=dict)
    """The schemas at the output ports of each task that is sound: it has no problem of its own, nor has one above."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A document that passed every check, on its way to the canonical form."""

    dataflow: str
    tenant: str
    name: str
    ids: tuple[str, ...]
    fresh: tuple[bool, ...]
    tags: tuple[frozenset[str], ...]
    """The tags that the document names at each task."""
    types: tuple[AnyTaskType, ...]
    config_texts: tuple[bytes, ...]
    keepings: tuple[TaskKeeping, ...]
    registered: tuple[Source | None, ...]
    inputs: tuple[tuple[Wire, ...], ...]
    """The streams that enter each task."""
    order: tuple[int, ...]
    json_fields: Mapping[int, tuple[JsonField, ...]] = field(default_factory=dict)
    schemas: Mapping[int, Schemas] = field(default_factory=dict)
    outputs: Mapping[str, OutputSettings] = field(default_factory=dict)
    """How outputs are delivered, by id, if not as always."""
    histories: Mapping[str, Scope] = field(default_factory=dict)
    """The scopes of tasks with a history of their own, by id."""
    scopes: tuple[Scope | None, ...] = ()
    texts: tuple[bytes, ...] = ()
    signatures: tuple[bytes, ...] = ()


def accept(draft: DraftDocument) -> Accepted:
    """Refuse the document with all its problems, or pass it on to the forms."""
    if draft.problems:
        raise InvalidDocument(draft.problems)
    forms = [form for form in draft.reading.tasks if form is not None]
    inputs: list[list[Wire]] = [[] for _ in forms]
    for wire in draft.wires:
        inputs[wire.to].append(wire)
    return Accepted(
        dataflow=draft.dataflow,
        tenant=draft.tenant,
        name=draft.reading.name,
        ids=tuple(form.id for form in forms),
        fresh=tuple(form.fresh for form in forms),
        tags=tuple(frozenset(form.tags) for form in forms),
        types=tuple(kind for kind in draft.types if kind is not None),
        config_texts=tuple(text for text in draft.config_texts if text is not None),
        keepings=tuple(keeping for keeping in draft.keepings if keeping is not None),
        registered=draft.registered,
        inputs=tuple(tuple(wires) for wires in inputs),
        order=draft.order,
        json_fields=draft.json_fields,
        schemas=draft.schemas,
        outputs={
            form.id: with_metrics(settings, draft.schemas.get(i, {}).get("in", Schema.of()))
            for i, (form, config) in enumerate(zip(forms, draft.configs, strict=True))
            if isinstance(config, DeliveringConfig) and (settings := config.settings) is not None
        },
    )
