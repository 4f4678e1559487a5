"""A document made canonical for its tenant, against a snapshot of the sources; nobody waits for it."""

from collections.abc import Mapping

from dags import Catalogue, Dataflow, InvalidDocument, Scope, canonicalise
from dags.canonical import NO_HISTORIES
from manager.committed.sources import Readable, Registered
from manager.problem import InvalidDataflow
from manager.submissions.code_check import Published, check_code
from manager.submissions.generator_check import check_no_generators
from manager.submissions.publish_topics import check_topics


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
        found = canonicalise(
            raw, dataflow=dataflow, tenant=tenant, catalogue=catalogue, sources=readable, histories=histories
        )
    except InvalidDocument as error:
        raise InvalidDataflow(error.problems) from error
    check_no_generators(found, raw)
    check_topics(found, raw, sources)
    check_code(found, raw, published)
    return found
