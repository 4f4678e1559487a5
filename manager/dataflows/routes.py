"""Routes of dataflows: submit, list, show, replace, remove, explain, preview a removal, and look at a task's events."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from braid_client.answers.base import Page
from braid_client.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    BundleForm,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DataflowTasksAnswer,
    ExplainAnswer,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
)
from braid_client.answers.trials import TaskEvents
from dags import Document
from engine.log_lines import note
from manager.problem import (
    Changed,
    Conflict,
    InvalidDataflow,
    NotFound,
    QuotaExceeded,
    StateNotReady,
)
from manager.rest.bodies import document
from manager.rest.dependencies import (
    ForTenant,
    IdempotencyKey,
    IfMatch,
    Text,
    TheCaller,
    TheDataflow,
    TheNumberedPage,
    TheService,
    in_turn,
)
from manager.rest.openapi import documented
from manager.rest.problems import etag

router = APIRouter(prefix="/v1", tags=["dataflows"])
_Raw = Annotated[bytes, in_turn(document)]
_Start = Annotated[
    Start,
    Query(
        description="Where it starts to read its sources: `latest` at new events; `earliest` at the oldest ones that "
        "are kept, sharing nothing."
    ),
]
_Draft = Annotated[
    bool,
    Query(
        description="For editors: a document with problems is answered too, with these and what is known of each task."
    ),
]
_READING = (InvalidDataflow, NotFound, StateNotReady)
_CHANGING = (*_READING, Conflict, QuotaExceeded)


@router.post(
    "/dataflows",
    **documented(
        *_CHANGING, body=Document, status=201, leads_to={"id": ("dataflow", "replace", "remove")}, tagged=True
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
    response.headers["ETag"] = etag(answer.tag)
    return answer


@router.post(
    "/dataflows/bundle",
    **documented(*_CHANGING, body=BundleForm, status=201),
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
    note(dataflows=[dataflow.id for dataflow in answer.dataflows])
    return answer


@router.get("/dataflows", **documented(StateNotReady))
def dataflows(  # noqa: PLR0913, PLR0917 - each is a filter
    service: TheService,
    caller: TheCaller,
    page: TheNumberedPage,
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


@router.get("/dataflows/{id}", **documented(NotFound, StateNotReady, tagged=True))
def dataflow(service: TheService, caller: TheCaller, dataflow: TheDataflow, response: Response) -> DataflowDetail:
    """Show a dataflow with its tasks and its document, for which `ETag` stands."""
    answer = service.dataflows.get(caller, dataflow)
    response.headers["ETag"] = etag(answer.tag)
    return answer


@router.get("/dataflows/{id}/tasks", **documented(NotFound, StateNotReady))
def dataflow_tasks(service: TheService, caller: TheCaller, dataflow: TheDataflow) -> DataflowTasksAnswer:
    """Show what is measured of a dataflow's tasks: rates, load, errors, state, and how many others share each."""
    return service.dataflows.tasks(caller, dataflow)


@router.put("/dataflows/{id}", **documented(Changed, *_CHANGING, body=Document, tagged=True))
def replace(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService, caller: TheCaller, dataflow: TheDataflow, raw: _Raw, response: Response, tags: IfMatch
) -> SubmitAnswer:
    """Replace the document of a dataflow, in one change. Tasks that both documents have keep running."""
    answer = service.dataflows.replace(caller, dataflow, raw, tags=tags)
    response.headers["ETag"] = etag(answer.tag)
    return answer


@router.delete("/dataflows/{id}", **documented(Changed, Conflict, NotFound, StateNotReady))
def remove(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    tags: IfMatch,
    stop: Annotated[
        Stop, Query(description="`now` stops it at once; `drain` first processes what its sources have sent so far.")
    ] = Stop.NOW,
) -> DataflowAnswer:
    """Remove a dataflow. Its tasks that no other dataflow needs are paused."""
    return service.dataflows.remove(caller, dataflow, stop, tags=tags)


@router.get("/dataflows/{id}/removal", **documented(Conflict, NotFound, StateNotReady))
def preview_dataflow_removal(service: TheService, caller: TheCaller, dataflow: TheDataflow) -> RemovalAnswer:
    """Preview a removal: which tasks would stop, and how many would run on for others. Nothing changes."""
    return service.dataflows.preview_removal(caller, dataflow)


@router.get("/dataflows/{id}/tasks/{task}/events", **documented(Conflict, NotFound, QuotaExceeded, StateNotReady))
def task_events(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    task: Annotated[Text, Path(description="Its id in the document.")],
) -> TaskEvents:
    """Look at the newest events that enter and leave a running task, since somebody has looked.

    Events are kept from the first request on, and for ten seconds after the last one; so ask every few seconds. The
    answer comes at once, with what is there.
    """
    return service.port_events.newest(caller, dataflow, task)


@router.post("/explain", **documented(*_READING, body=Document, only_looks=True))
def explain(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    raw: _Raw,
    tenant: ForTenant = None,
    start: _Start = Start.LATEST,
    draft: _Draft = False,
) -> ExplainAnswer:
    """Preview a submission: what it would reuse, start and save. Nothing changes."""
    return service.dataflows.explain(caller, raw, tenant=tenant, start=start, draft=draft)


@router.post("/explain/bundle", **documented(*_READING, body=BundleForm, only_looks=True))
def explain_bundle(
    service: TheService, caller: TheCaller, raw: _Raw, tenant: ForTenant = None, start: _Start = Start.LATEST
) -> BundleExplainAnswer:
    """Preview a bundle: what each document would reuse, start and save, by their common plan. Nothing changes."""
    return service.bundles.explain(caller, raw, tenant=tenant, start=start)
