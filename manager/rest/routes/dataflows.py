"""Routes of dataflows: submit, list, show, replace, remove, explain, and foretell a removal."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from dags import Document
from engine.log_lines import note
from manager.answers import (
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    Page,
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
from manager.rest.bodies import document
from manager.rest.dependencies import ForTenant, IdempotencyKey, Named, Text, TheCaller, ThePage, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import outputs as looks
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["dataflows"])
_Raw = Annotated[bytes, Depends(document)]
_Start = Annotated[
    Start,
    Query(description="At what its sources bring from now on; or at the earliest that is kept, sharing nothing."),
]
_BODY = (InvalidDataflow, StateNotReady, TooLarge, UnsupportedMediaType)


@router.post(
    "/dataflows",
    **told(
        resources.SUBMIT_ANSWER,
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
    """Submit a dataflow; tells what is reused, what is started, and where its outputs are found."""
    answer = service.dataflows.submit(caller, raw, tenant=tenant, idempotency_key=idempotency_key, start=start)
    note(dataflow=answer.id)
    response.headers["Location"] = f"/v1/dataflows/{answer.id}"
    return answer


@router.get("/dataflows", **told(resources.DATAFLOW_PAGE, StateNotReady))
def dataflows(  # noqa: PLR0913, PLR0917 - each is a filter
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    tenant: Annotated[ForTenant, Query(description="Of this tenant only.")] = None,
    state: Annotated[DataflowState | None, Query(description="In this state; removed ones are listed so only.")] = None,
    name: Annotated[Text | None, Query(description="Of this name.")] = None,
    source: Annotated[Text | None, Query(description="That read this source.")] = None,
    search: Annotated[Text | None, Query(description="With this in the name, or with this id.")] = None,
) -> Page[DataflowAnswer]:
    """List dataflows, oldest first: a tenant's own, or all for an operator."""
    return service.dataflows.page(caller, page, tenant=tenant, state=state, name=name, source=source, search=search)


@router.get("/dataflows/{id}", **told(resources.DETAIL, NotFound, StateNotReady))
def dataflow(service: TheService, caller: TheCaller, id: Named) -> DataflowDetail:  # noqa: A002 - its public name
    """Show one dataflow with its tasks and its document."""
    return service.dataflows.get(caller, id)


@router.put(
    "/dataflows/{id}", **told(resources.SUBMIT_ANSWER, Conflict, NotFound, QuotaExceeded, *_BODY, body=Document)
)
def replace(service: TheService, caller: TheCaller, id: Named, raw: _Raw) -> SubmitAnswer:  # noqa: A002 - as above
    """Swap its document for an edited one, as one change: what both have in common never stops."""
    return service.dataflows.replace(caller, id, raw)


@router.delete("/dataflows/{id}", **told(resources.DATAFLOW, Conflict, NotFound, StateNotReady))
def remove(
    service: TheService,
    caller: TheCaller,
    id: Named,  # noqa: A002 - as above
    stop: Annotated[Stop, Query(description="At once, or after what its sources have sent by now.")] = Stop.NOW,
) -> DataflowAnswer:
    """Remove a dataflow; what nobody else needs is paused."""
    return service.dataflows.remove(caller, id, stop)


@router.get("/dataflows/{id}/removal", **told(looks.REMOVAL, Conflict, NotFound, StateNotReady))
def foretell_removal(service: TheService, caller: TheCaller, id: Named) -> RemovalAnswer:  # noqa: A002 - as above
    """What removing a dataflow would stop, and leave to others; nothing is changed."""
    return service.dataflows.preview_removal(caller, id)


@router.post("/explain", **told(resources.EXPLAINED, NotFound, *_BODY, body=Document))
def explain(
    service: TheService, caller: TheCaller, raw: _Raw, tenant: ForTenant = None, start: _Start = Start.LATEST
) -> ExplainAnswer:
    """What submitting a dataflow would do and save, begun where it says; nothing is changed."""
    return service.dataflows.explain(caller, raw, tenant=tenant, start=start)
