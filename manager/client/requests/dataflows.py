"""The requests about dataflows: submit, replace, remove, explain, list; and about the types of their tasks."""

from collections.abc import Sequence

from manager.answers import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    Page,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
    TaskTypeAnswer,
)
from manager.client.requests.request import (
    IDEMPOTENCY_HEADER,
    Document,
    Request,
    document_body,
    given,
    list_request,
    path_to,
)


def submit(document: Document, *, tenant: str | None, idempotency_key: str, start: Start) -> Request[SubmitAnswer]:
    """Submit a document. The service submits it once, however often the same key arrives."""
    return Request(
        method="POST",
        path="/v1/dataflows",
        answer=SubmitAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=document_body(document),
    )


def submit_together(
    documents: Sequence[Document], *, tenant: str | None, idempotency_key: str, start: Start
) -> Request[BundleAnswer]:
    """Submit documents together. The service submits them once, however often the same key arrives."""
    return Request(
        method="POST",
        path="/v1/dataflows/bundle",
        answer=BundleAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        headers={IDEMPOTENCY_HEADER: idempotency_key},
        body=_bundle_body(documents),
    )


def explain_together(
    documents: Sequence[Document], *, tenant: str | None, start: Start
) -> Request[BundleExplainAnswer]:
    """Preview documents submitted together."""
    query = given(tenant=tenant, start=_unless_default(start))
    return Request(
        method="POST", path="/v1/explain/bundle", answer=BundleExplainAnswer, query=query, body=_bundle_body(documents)
    )


def _bundle_body(documents: Sequence[Document]) -> bytes:
    return b'{"documents": [%b]}' % b", ".join(map(document_body, documents))


def dataflows(
    *,
    tenant: str | None,
    state: DataflowState | None,
    name: str | None,
    source: str | None,
    search: str | None,
) -> Request[Page[DataflowAnswer]]:
    """The caller's dataflows."""
    query = given(tenant=tenant, state=state, name=name, source=source, search=search)
    return list_request("/v1/dataflows", Page[DataflowAnswer], query)


def dataflow(dataflow: str) -> Request[DataflowDetail]:
    """One dataflow."""
    return Request(path=path_to("dataflows", dataflow), answer=DataflowDetail)


def replacement(dataflow: str, document: Document) -> Request[SubmitAnswer]:
    """Replace a dataflow's document."""
    return Request(method="PUT", path=path_to("dataflows", dataflow), answer=SubmitAnswer, body=document_body(document))


def removal(dataflow: str, how: Stop) -> Request[DataflowAnswer]:
    """Remove a dataflow."""
    return Request(method="DELETE", path=path_to("dataflows", dataflow), answer=DataflowAnswer, query=given(stop=how))


def preview_removal(dataflow: str) -> Request[RemovalAnswer]:
    """Preview a removal."""
    return Request(path=path_to("dataflows", dataflow, "removal"), answer=RemovalAnswer)


def explain(document: Document, *, tenant: str | None, start: Start) -> Request[ExplainAnswer]:
    """Preview a submission."""
    return Request(
        method="POST",
        path="/v1/explain",
        answer=ExplainAnswer,
        query=given(tenant=tenant, start=_unless_default(start)),
        body=document_body(document),
    )


def _unless_default(start: Start) -> Start | None:
    """The start, if the service would not choose it by itself."""
    return None if start is Start.LATEST else start


def task_types(name: str | None) -> Request[Page[TaskTypeAnswer]]:
    """The task types, or the one of that name."""
    return list_request("/v1/task-types", Page[TaskTypeAnswer], given(name=name))
