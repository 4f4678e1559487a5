"""Documents made canonical for their tenant, against a snapshot of sources and modules; nobody waits for it.

The check that a tenant's tasks publish on topics of its own sources only. So nobody publishes into the source of
another, and a dataflow ends with the last source that it may publish into.

The check that tasks of the types of code run what was published for them, and not what a document claims. A
config names who published a source, and what an operator publishes is vouched for. So no tenant may write one
itself.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
from sqlalchemy.orm import aliased
from sqlmodel import Session, and_, col, exists, or_, select
from sqlmodel.sql.expression import SelectOfScalar

from dags import Catalogue, Dataflow, InvalidDocument, Problem, Scope, canonicalise
from dags.canonical import NO_HISTORIES
from dags.problems import pointer, quoted
from engine.tasks.code import CODE_TYPES, CodeConfig, ConnectingCodeConfig
from engine.tasks.outside import MQTT_PUBLISH
from manager.kernel.registered_sources import Readable, Registered
from manager.kernel.state import CommittedState
from manager.problem import InvalidDataflow, InvalidRequest
from manager.store.database import Store
from manager.store.tables import ModuleRow
from planning.forms import ModuleForm
from planning.pipelines.module import Module, read_module, targets_of

MOST_DOCUMENTS = 100


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    documents: list[msgspec.Raw]


def documents_in(body: bytes) -> tuple[bytes, ...]:
    """The documents in the body of a request, each as it was sent.

    >>> documents_in(b'{"documents": [{"version": 1}, {"version":  2}]}')
    (b'{"version": 1}', b'{"version":  2}')
    """
    try:
        documents = msgspec.json.decode(body, type=_Body).documents
    except (msgspec.DecodeError, RecursionError) as error:
        remedy = 'send {"documents": [ ... ]}'
        problem = Problem(pointer="", code="not-a-bundle", message=f"the body is no bundle: {error}", remedy=remedy)
        raise InvalidRequest([problem]) from None
    if not 1 <= len(documents) <= MOST_DOCUMENTS:
        message = f"a bundle has 1 to {MOST_DOCUMENTS} documents, and this one has {len(documents)}"
        remedy = "send several bundles"
        raise InvalidRequest([Problem(pointer="/documents", code="wrong-bundle", message=message, remedy=remedy)])
    return tuple(bytes(document) for document in documents)


def problems_of_documents(problems: Mapping[int, Sequence[Problem]]) -> list[Problem]:
    """The problems of documents by their places, each with a pointer into the bundle."""
    return [
        replace(problem, pointer=pointer("documents", at) + problem.pointer)
        for at in sorted(problems)
        for problem in problems[at]
    ]


@contextmanager
def of_document(at: int) -> Iterator[None]:
    """Have what refuses a document say which of a bundle it is."""
    try:
        yield
    except InvalidDataflow as refused:
        raise InvalidDataflow(problems_of_documents({at: refused.errors})) from refused


def _refuse(raw: bytes, ids: Collection[str], *at: str, code: str, message: Callable[[Any], str], remedy: str) -> None:
    """Refuse a document because of some of its tasks, if there are any."""
    if ids:
        raise InvalidDataflow(
            Problem(pointer=pointer("tasks", number, *at), code=code, message=message(task), remedy=remedy)
            for number, task in enumerate(json.loads(raw)["tasks"])
            if task["id"] in ids
        )


def check_no_generators(dataflow: Dataflow, raw: bytes) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that begins at such tasks."""
    _refuse(
        raw,
        {id_ for id_, place in dataflow.places.items() if dataflow.tasks[place].type.is_generator},
        "type",
        code="generator-not-run",
        message=lambda task: (
            f"tasks of type {quoted(task['type'])} make their events themselves, which nothing here runs"
        ),
        remedy="register a source of kind 'timer' or 'rate', and begin with a task of type 'source' that reads it",
    )


def check_topics(dataflow: Dataflow, raw: bytes, sources: Mapping[str, Registered]) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that publishes elsewhere."""
    topics = {
        id_: dataflow.tasks[place].config["topic"]
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name == MQTT_PUBLISH.name
    }
    if not topics:
        return
    own = {source.topic for source in sources.values() if source.source.owner == dataflow.tenant}
    _refuse(
        raw,
        {id_ for id_, topic in topics.items() if topic not in own},
        "config",
        "topic",
        code="foreign-topic",
        message=lambda task: (
            f"{quoted(topics[task['id']])} is the topic of no source that {quoted(dataflow.tenant)} owns"
        ),
        remedy="register a source with this topic, or name the topic of one",
    )


def publishing(state: CommittedState, source: str) -> set[str]:
    """The dataflows that publish on the topic of a source, as the running graph calls them."""
    running, topic = state.running, state.sources[source].topic
    return {
        dataflow
        for instance, task in running.tasks.items()
        if task.type.name == MQTT_PUBLISH.name and task.config["topic"] == topic
        for dataflow in running.serves(instance)
    }


_OWN = aliased(ModuleRow)


def visible_to(tenant: str) -> SelectOfScalar[ModuleRow]:
    """The versions of its own modules and of operators'; its own goes before an operator's of the same name."""
    hidden = exists().where(
        col(_OWN.owner) == tenant,
        col(_OWN.name) == col(ModuleRow.name),
        col(_OWN.version) == col(ModuleRow.version),
    )
    return select(ModuleRow).where(or_(col(ModuleRow.owner) == tenant, and_(col(ModuleRow.owner) == "", ~hidden)))


def modules_of(session: Session, tenant: str, held: Collection[str] = ()) -> tuple[Module, ...]:
    """Those visible to it; deprecated ones only if they are held, or named with their version."""
    return tuple(
        replace(read_module(row.form), owner=row.owner, wheels=wheels_of(row))
        for row in session.exec(visible_to(tenant).order_by(col(ModuleRow.number)))
        if row.deprecated is None or f"{row.name}@{row.version}" in held
    )


def wheels_of(row: ModuleRow) -> tuple[str, ...]:
    """The digests of the wheels that its code imports from."""
    return tuple(json.loads(row.wheels or "[]"))


def is_vouched(row: ModuleRow) -> bool:
    """Whether an operator answers for its code."""
    return not row.owner or row.vouched is not None


Published: TypeAlias = Callable[[str, CodeConfig], bool]
"""Whether a tenant may run code as a config says: it is that of a published source, with its owner."""
_CONFIGS: Mapping[str, type[CodeConfig]] = {each.name: each.config for each in CODE_TYPES}


def check_code(dataflow: Dataflow, raw: bytes, published: Published) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that runs other code."""
    configs = {
        id_: _CONFIGS[dataflow.tasks[place].type.name].model_validate_json(json.dumps(dataflow.tasks[place].config))
        for id_, place in dataflow.places.items()
        if dataflow.tasks[place].type.name in _CONFIGS
    }
    _refuse(
        raw,
        {id_ for id_, config in configs.items() if not published(dataflow.tenant, config)},
        "config",
        code="code-not-published",
        message=lambda _task: "the config is not that of published code which you may run",
        remedy="publish the source as a module, and name the module at an open place of a pipeline",
    )


def published_in(store: Store) -> Published:
    """The check against the modules of a database."""

    def published(tenant: str, config: CodeConfig) -> bool:
        with store.read() as session:
            rows = session.exec(visible_to(tenant).where(col(ModuleRow.digest) == config.digest)).all()
        return any(_is_of(row, config) for row in rows)

    return published


def runs_already(_tenant: str, _config: CodeConfig) -> bool:
    """The check of what runs, and was checked before."""
    return True


def _is_of(row: ModuleRow, config: CodeConfig) -> bool:
    code = ModuleForm.model_validate_json(row.form).code
    return (
        code is not None
        and (config.entry, config.per) == (code.entry, code.per)
        and (config.owner, config.wheels) == (row.owner, wheels_of(row))
        and (list(config.connects) if isinstance(config, ConnectingCodeConfig) else []) == targets_of(code)
    )


def canonical(  # noqa: PLR0913 - as `canonicalise`
    raw: bytes,
    *,
    dataflow: str,
    tenant: str,
    catalogue: Catalogue,
    sources: Mapping[str, Registered],
    published: Published,
    histories: Mapping[str, Scope] = NO_HISTORIES,
) -> Dataflow:
    """The canonical dataflow of a document, for sharing without bounds; refused with all of its problems."""
    readable = Readable(tenant, sources)
    try:
        canonical_dataflow = canonicalise(
            raw, dataflow=dataflow, tenant=tenant, catalogue=catalogue, sources=readable, histories=histories
        )
    except InvalidDocument as error:
        raise InvalidDataflow(error.problems) from error
    check_no_generators(canonical_dataflow, raw)
    check_topics(canonical_dataflow, raw, sources)
    check_code(canonical_dataflow, raw, published)
    return canonical_dataflow
