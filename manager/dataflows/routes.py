"""Routes of dataflows: submit, list, show, replace, remove, explain, and preview a removal."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from dags import Document
from engine.log_lines import note
from manager.answers.base import Page
from manager.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    BundleForm,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
)
from manager.problem import (
    Conflict,
    InvalidDataflow,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
)
from manager.rest import examples
from manager.rest import examples as looks
from manager.rest.dependencies import (
    ForTenant,
    IdempotencyKey,
    Text,
    TheCaller,
    TheId,
    ThePage,
    TheService,
    document,
    in_turn,
)
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1", tags=["dataflows"])
_Raw = Annotated[bytes, in_turn(document)]
_Start = Annotated[
    Start,
    Query(
        description="Where it starts to read its sources: `latest` at new events; `earliest` at the oldest ones that "
        "are kept, sharing nothing."
    ),
]
_BODY = (InvalidDataflow, StateNotReady, TooLarge, UnsupportedMediaType)


@router.post(
    "/dataflows",
    **documented(
        examples.SUBMIT_ANSWER,
        *(Conflict, NotFound, QuotaExceeded, *_BODY),
        body=Document,
        status=201,
        leads_to={"id": ("dataflow", "replace", "remove")},
    ),
)
def submit(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    raw: _Raw,
    response: Response,
    tenant: ForTenant = None,
    idempotency_key: IdempotencyKey = None,
    start: _Start = Start.LATEST,
) -> SubmitAnswer:
    """Submit a dataflow. The answer says which tasks are reused, which are started, and where the outputs are."""
    answer = service.dataflows.submit(caller, raw, tenant=tenant, idempotency_key=idempotency_key, start=start)
    note(dataflow=answer.id)
    response.headers["Location"] = f"/v1/dataflows/{answer.id}"
    return answer


@router.post(
    "/dataflows/bundle",
    **documented(examples.BUNDLE_ANSWER, *(Conflict, NotFound, QuotaExceeded, *_BODY), body=BundleForm, status=201),
)
def submit_bundle(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    raw: _Raw,
    tenant: ForTenant = None,
    idempotency_key: IdempotencyKey = None,
    start: _Start = Start.LATEST,
) -> BundleAnswer:
    """Submit several documents together: all of them or none. Pipelines are planned so that they share most."""
    answer = service.bundles.submit(caller, raw, tenant=tenant, idempotency_key=idempotency_key, start=start)
    note(dataflows=[each.id for each in answer.dataflows])
    return answer


@router.get("/dataflows", **documented(examples.DATAFLOW_PAGE, StateNotReady))
def dataflows(  # noqa: PLR0913, PLR0917 - each is a filter
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    tenant: Annotated[ForTenant, Query(description="Only this tenant's.")] = None,
    state: Annotated[
        DataflowState | None,
        Query(description="Only those in this state. Removed dataflows are listed only with `removed`."),
    ] = None,
    name: Annotated[Text | None, Query(description="Only those with this name.")] = None,
    source: Annotated[Text | None, Query(description="Only those that read this source.")] = None,
    search: Annotated[
        Text | None, Query(description="Only those whose name contains this text, or whose id it is.")
    ] = None,
) -> Page[DataflowAnswer]:
    """List dataflows, oldest first. A tenant sees only its own."""
    return service.dataflows.page(caller, page, tenant=tenant, state=state, name=name, source=source, search=search)


@router.get("/dataflows/{id}", **documented(examples.DETAIL, NotFound, StateNotReady))
def dataflow(service: TheService, caller: TheCaller, id: TheId) -> DataflowDetail:  # noqa: A002 - its public name
    """Show a dataflow with its tasks and its document."""
    return service.dataflows.get(caller, id)


@router.put(
    "/dataflows/{id}", **documented(examples.SUBMIT_ANSWER, Conflict, NotFound, QuotaExceeded, *_BODY, body=Document)
)
def replace(service: TheService, caller: TheCaller, id: TheId, raw: _Raw) -> SubmitAnswer:  # noqa: A002 - as above
    """Replace the document of a dataflow, in one change. Tasks that both documents have keep running."""
    return service.dataflows.replace(caller, id, raw)


@router.delete("/dataflows/{id}", **documented(examples.DATAFLOW, Conflict, NotFound, StateNotReady))
def remove(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - as above
    stop: Annotated[
        Stop, Query(description="`now` stops it at once; `drain` first processes what its sources have sent so far.")
    ] = Stop.NOW,
) -> DataflowAnswer:
    """Remove a dataflow. Its tasks that no other dataflow needs are paused."""
    return service.dataflows.remove(caller, id, stop)


@router.get("/dataflows/{id}/removal", **documented(looks.REMOVAL, Conflict, NotFound, StateNotReady))
def foretell_removal(service: TheService, caller: TheCaller, id: TheId) -> RemovalAnswer:  # noqa: A002 - as above
    """Preview a removal: which tasks would stop, and how many would run on for others. Nothing changes."""
    return service.dataflows.preview_removal(caller, id)


@router.post("/explain", **documented(examples.EXPLAINED, NotFound, *_BODY, body=Document))
def explain(
    service: TheService, caller: TheCaller, raw: _Raw, tenant: ForTenant = None, start: _Start = Start.LATEST
) -> ExplainAnswer:
    """Preview a submission: what it would reuse, start and save. Nothing changes."""
    return service.dataflows.explain(caller, raw, tenant=tenant, start=start)


@router.post("/explain/bundle", **documented(examples.BUNDLE_EXPLAINED, NotFound, *_BODY, body=BundleForm))
def explain_bundle(
    service: TheService, caller: TheCaller, raw: _Raw, tenant: ForTenant = None, start: _Start = Start.LATEST
) -> BundleExplainAnswer:
    """Preview a bundle: what each document would reuse, start and save, by their common plan. Nothing changes."""
    return service.bundles.explain(caller, raw, tenant=tenant, start=start)
