"""The canonical form of a dataflow, made by an ordered tuple of small passes, a file each.

The checks analyse a document step by step and collect every problem. The forms give the accepted tasks their scopes and
signatures. `canonicalise` runs them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from dags.canonical.draft import Accepted, DraftDocument, accept
from dags.canonical.outlines import Outline, sound_part, tasks_in
from dags.canonical.signatures import SCHEME, collapse, confine, settle_scopes, sign
from dags.canonical.streams import check_fields, check_shape, join_streams
from dags.canonical.tasks import fill_configs, find_sources, find_types, own_topics
from dags.dataflow import Dataflow, Scope
from dags.document import read
from dags.schema import Source
from dags.task_type import Catalogue

DRAFT_CHECKS: tuple[Callable[[DraftDocument], DraftDocument], ...] = (
    find_types,
    fill_configs,
    own_topics,
    find_sources,
    join_streams,
    check_shape,
    check_fields,
)
NO_HISTORIES: Mapping[str, Scope] = MappingProxyType({})
FORMS: tuple[Callable[[Accepted], Accepted], ...] = (settle_scopes, sign)


def canonicalise(  # noqa: PLR0913 - a document, whose it is, what it may name, and the histories of its tasks
    raw: bytes | str,
    *,
    dataflow: str,
    tenant: str,
    catalogue: Catalogue,
    sources: Mapping[str, Source],
    histories: Mapping[str, Scope] = NO_HISTORIES,
) -> Dataflow:
    """The canonical dataflow of a document. Raises `InvalidDocument` with every problem.

    The sources are all that are registered, by the name that documents use. Those that the tenant may not read count
    as unknown. `histories` are the scopes of tasks that were reconfigured while they ran, by id.
    """
    draft = _checked(raw, dataflow=dataflow, tenant=tenant, catalogue=catalogue, sources=sources)
    return _formed(replace(accept(draft), histories=histories))


def outline(
    raw: bytes | str, *, dataflow: str, tenant: str, catalogue: Catalogue, sources: Mapping[str, Source]
) -> Outline:
    """What is known of a document that may have problems, with the arguments of `canonicalise`.

    Raises `InvalidDocument` only if no part of it is readable.
    """
    draft = _checked(raw, dataflow=dataflow, tenant=tenant, catalogue=catalogue, sources=sources)
    return Outline(sound=_formed(accept(sound_part(draft))), tasks=tuple(tasks_in(draft)), problems=draft.problems)


def _checked(
    raw: bytes | str, *, dataflow: str, tenant: str, catalogue: Catalogue, sources: Mapping[str, Source]
) -> DraftDocument:
    reading = read(raw)
    draft = DraftDocument(
        dataflow=dataflow,
        tenant=tenant,
        reading=reading,
        catalogue=catalogue,
        sources=sources,
        problems=reading.problems,
    )
    for check in DRAFT_CHECKS:
        draft = check(draft)
    return draft


def _formed(accepted: Accepted) -> Dataflow:
    for form in FORMS:
        accepted = form(accepted)
    return collapse(accepted)
