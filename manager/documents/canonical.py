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
from typing import Any, NamedTuple, TypeAlias

import msgspec
from sqlalchemy.orm import aliased
from sqlmodel import Session, and_, col, exists, or_, select
from sqlmodel.sql.expression import SelectOfScalar

from dags import Catalogue, Dataflow, InvalidDocument, Problem, Scope
from dags.canonical import NO_HISTORIES, canonicalise
from dags.problems import pointer, quoted
from engine.tasks.code import CODE_TYPES, CodeConfig, ConnectingCodeConfig, StatefulCodeConfig
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


def publishing(state: CommittedState, source: str) -> set[str]:
    """The dataflows that publish into a source and no other of its owner, as the running graph calls them."""
    running, owner = state.running, state.sources[source].source.owner
    others = [other for name, other in state.sources.items() if other.source.owner == owner and name != source]
    return {
        dataflow
        for instance, task in running.tasks.items()
        if task.type.name == MQTT_PUBLISH.name and state.sources[source].takes(topic := task.config["topic"])
        if not any(other.takes(topic) for other in others)
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
    """Return the modules that a tenant sees; deprecated ones only if they are held, or named with their version."""
    return tuple(
        replace(read_module(row.form), owner=row.owner, wheels=wheels_of(row))
        for row in session.exec(visible_to(tenant).order_by(col(ModuleRow.number)))
        if row.deprecated is None or f"{row.name}@{row.version}" in held
    )


def wheels_of(row: ModuleRow) -> tuple[str, ...]:
    """The digests of the wheels that its code imports from."""
    return tuple(json.loads(row.wheels or "[]"))


def is_vouched(row: ModuleRow) -> bool:
    """Tell whether an operator answers for a module's code."""
    return not row.owner or row.vouched is not None


Published: TypeAlias = Callable[[str, CodeConfig], bool]
"""Whether a tenant may run code as a config says: it is that of a published source, with its owner."""
_CONFIGS: Mapping[str, type[CodeConfig]] = {kind.name: kind.config for kind in CODE_TYPES}


class _Refusal(NamedTuple):
    """Tasks of a document because of which it is refused, if there are any."""

    ids: Collection[str]
    at: tuple[str, ...]
    """Where the problem is within such a task."""
    code: str
    message: Callable[[Any], str]
    """By the task as the document has it."""
    remedy: str


def _refusals(dataflow: Dataflow, sources: Mapping[str, Registered], published: Published) -> Iterator[_Refusal]:
    """Yield what a service does not run: generators, publishing on others' topics, and code that was not published."""
    tasks = {id_: dataflow.tasks[place] for id_, place in dataflow.places.items()}
    yield _Refusal(
        [id_ for id_, task in tasks.items() if task.type.is_generator],
        ("type",),
        "generator-not-run",
        lambda task: f"tasks of type {quoted(task['type'])} make their events themselves, which nothing here runs",
        "register a source of kind 'timer' or 'rate', and begin with a task of type 'source' that reads it",
    )
    if topics := {id_: task.config["topic"] for id_, task in tasks.items() if task.type.name == MQTT_PUBLISH.name}:
        own = [source for source in sources.values() if source.source.owner == dataflow.tenant]
        yield _Refusal(
            [id_ for id_, topic in topics.items() if not any(source.takes(topic) for source in own)],
            ("config", "topic"),
            "foreign-topic",
            lambda task: f"{quoted(topics[task['id']])} is the topic of no source that {quoted(dataflow.tenant)} owns",
            "register a source with this topic, or name the topic of one",
        )
    configs = {
        id_: _CONFIGS[task.type.name].model_validate_json(json.dumps(task.config))
        for id_, task in tasks.items()
        if task.type.name in _CONFIGS
    }
    yield _Refusal(
        [id_ for id_, config in configs.items() if not published(dataflow.tenant, config)],
        ("config",),
        "code-not-published",
        lambda _task: "the config is not that of published code which you may run",
        "publish the source as a module, and name the module at an open place of a pipeline",
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
        and _kept(config) == (None if code.state is None else (row.name, code.state.model_dump(exclude={"config"})))
    )


def _kept(config: CodeConfig) -> tuple[str, dict[str, Any]] | None:
    """Whose state a config is of, and what may be kept, without the config of the function, which is its task's own."""
    if not isinstance(config, StatefulCodeConfig):
        return None
    kept = config.model_dump(include={"by", "most_keys", "most_bytes", "migrate"})
    return config.module, {**kept, "by": list(config.by)}


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
    for refusal in _refusals(canonical_dataflow, sources, published):
        if refusal.ids:
            raise InvalidDataflow(
                Problem(
                    pointer=pointer("tasks", number, *refusal.at),
                    code=refusal.code,
                    message=refusal.message(task),
                    remedy=refusal.remedy,
                )
                for number, task in enumerate(json.loads(raw)["tasks"])
                if task["id"] in refusal.ids
            )
    return canonical_dataflow
