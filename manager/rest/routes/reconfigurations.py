"""Routes of reconfigurations: preview, begin, list, show, cancel and undo; and the one that plans a pipeline anew."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from manager.answers import Page, ReconfigurationAnswer, ReconfigurationForm, ReplanAnswer, ReplanForm
from manager.problem import (
    Conflict,
    Forbidden,
    InvalidDataflow,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
)
from manager.rest.bodies import form
from manager.rest.dependencies import TheCaller, TheId, TheNumber, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import reconfigurations as examples
from manager.rest.openapi_examples.plans import REPLANNED

router = APIRouter(prefix="/v1/dataflows/{id}", tags=["dataflows"])
_TROUBLES = (Conflict, Forbidden, InvalidDataflow, NotFound, QuotaExceeded, StateNotReady, TooLarge)


DryRun = Annotated[bool, Query(description="Only preview it; nothing changes.")]
_Form = Annotated[ReconfigurationForm, Depends(form(ReconfigurationForm))]


@router.post(
    "/replan",
    **documented(
        REPLANNED,
        *(Conflict, InvalidDataflow, NotFound, QuotaExceeded, StateNotReady, TooLarge, UnsupportedMediaType),
        body=ReplanForm,
    ),
)
def replan(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    sent: Annotated[ReplanForm, Depends(form(ReplanForm))],
    dry_run: DryRun = False,  # noqa: FBT002 - a query parameter
) -> ReplanAnswer:
    """Plan a running pipeline anew and apply the difference. Without a plan everything stays as it is."""
    return service.pipelines.replan(caller, id, sent, dry_run=dry_run)


@router.post(
    "/reconfigurations",
    **documented(examples.RECONFIGURATION, *_TROUBLES, UnsupportedMediaType, body=ReconfigurationForm),
)
def reconfigure(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - its public name
    sent: _Form,
    response: Response,
    dry_run: DryRun = False,  # noqa: FBT002 - a query parameter
) -> ReconfigurationAnswer:
    """Change tasks while they run, with their states. Tasks that others share are copied; theirs run on unchanged."""
    if dry_run:
        return service.reconfigurations.preview(caller, id, sent)
    answer = service.reconfigurations.begin(caller, id, sent)
    response.headers["Location"] = f"/v1/dataflows/{id}/reconfigurations/{answer.id}"
    return answer


@router.get("/reconfigurations", **documented(examples.RECONFIGURATION_PAGE, NotFound))
def reconfigurations(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - as above
    page: ThePage,
) -> Page[ReconfigurationAnswer]:
    """List the reconfigurations of a dataflow, newest first."""
    return service.reconfigurations.page(caller, id, page)


@router.get("/reconfigurations/{number}", **documented(examples.RECONFIGURATION, NotFound))
def reconfiguration(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - as above
    number: TheNumber,
) -> ReconfigurationAnswer:
    """Show a reconfiguration."""
    return service.reconfigurations.get(caller, id, number)


@router.delete("/reconfigurations/{number}", **documented(examples.RECONFIGURATION, Conflict, NotFound, StateNotReady))
def cancel_reconfiguration(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - as above
    number: TheNumber,
) -> ReconfigurationAnswer:
    """Cancel a reconfiguration. This is possible until its first task has switched."""
    return service.reconfigurations.cancel(caller, id, number)


@router.post(
    "/reconfigurations/{number}/undo",
    **documented(examples.RECONFIGURATION, Conflict, NotFound, QuotaExceeded, StateNotReady),
)
def undo_reconfiguration(
    service: TheService,
    caller: TheCaller,
    id: TheId,  # noqa: A002 - as above
    number: TheNumber,
    dry_run: DryRun = False,  # noqa: FBT002 - a query parameter
) -> ReconfigurationAnswer:
    """Undo a reconfiguration: back to the configs before it, with the states as they are by now."""
    return service.reconfigurations.undo(caller, id, number, dry_run=dry_run)
