"""Routes of reconfigurations: preview, begin, list, show, cancel and undo; and the one that plans a pipeline again."""

from typing import Annotated

from fastapi import APIRouter, Response

from braid_client.answers.base import Page
from braid_client.answers.pipelines import ReplanAnswer, ReplanForm
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from manager.problem import (
    Changed,
    Conflict,
    Forbidden,
    InvalidDataflow,
    NotFound,
    QuotaExceeded,
    StateNotReady,
)
from manager.rest.bodies import form
from manager.rest.dependencies import (
    DryRun,
    IdempotencyKey,
    IfMatch,
    TheCaller,
    TheDataflow,
    TheNumber,
    TheNumberedPage,
    TheService,
    in_turn,
)
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1/dataflows/{id}", tags=["dataflows"])
_CHANGING = (Conflict, InvalidDataflow, NotFound, QuotaExceeded, StateNotReady)
_LATER = 202
"""The status of what waits for others."""
_Form = Annotated[ReconfigurationForm, in_turn(form(ReconfigurationForm))]


@router.post("/replan", **documented(*_CHANGING, body=ReplanForm))
def replan(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    sent: Annotated[ReplanForm, in_turn(form(ReplanForm))],
    dry_run: DryRun = False,
) -> ReplanAnswer:
    """Plan a running pipeline again and apply the difference. Without a plan everything stays as it is."""
    return service.pipelines.replan(caller, dataflow, sent, dry_run=dry_run)


@router.post(
    "/reconfigurations",
    **documented(Changed, Forbidden, *_CHANGING, body=ReconfigurationForm, later=ReconfigurationAnswer),
)
def reconfigure(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    sent: _Form,
    response: Response,
    tags: IfMatch,
    dry_run: DryRun = False,
    idempotency_key: IdempotencyKey = None,
) -> ReconfigurationAnswer:
    """Change tasks while they run, with their states. Tasks that others share are copied; theirs run on unchanged.

    The answer is 202 if it waits for others, with its place in the queue; it begins by itself.
    """
    if dry_run:
        return service.reconfigurations.preview(caller, dataflow, sent, tags=tags)
    answer = service.reconfigurations.begin(caller, dataflow, sent, idempotency_key=idempotency_key, tags=tags)
    _mark_begun(response, dataflow, answer)
    return answer


@router.get("/reconfigurations", **documented(NotFound))
def reconfigurations(
    service: TheService, caller: TheCaller, dataflow: TheDataflow, page: TheNumberedPage
) -> Page[ReconfigurationAnswer]:
    """List the reconfigurations of a dataflow, newest first."""
    return service.reconfigurations.page(caller, dataflow, page)


@router.get("/reconfigurations/{number}", **documented(NotFound))
def reconfiguration(
    service: TheService, caller: TheCaller, dataflow: TheDataflow, number: TheNumber
) -> ReconfigurationAnswer:
    """Show a reconfiguration."""
    return service.reconfigurations.get(caller, dataflow, number)


@router.delete("/reconfigurations/{number}", **documented(Conflict, NotFound, StateNotReady))
def cancel_reconfiguration(
    service: TheService, caller: TheCaller, dataflow: TheDataflow, number: TheNumber
) -> ReconfigurationAnswer:
    """Cancel a reconfiguration, also one that waits. This is possible until its first task has switched."""
    return service.reconfigurations.cancel(caller, dataflow, number)


@router.post(
    "/reconfigurations/{number}/undo",
    **documented(Conflict, NotFound, QuotaExceeded, StateNotReady, later=ReconfigurationAnswer),
)
def undo_reconfiguration(  # noqa: PLR0913, PLR0917 - each is a part of the request
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    number: TheNumber,
    response: Response,
    dry_run: DryRun = False,
    idempotency_key: IdempotencyKey = None,
) -> ReconfigurationAnswer:
    """Undo a reconfiguration: back to the configs before it, with the states as they are by now.

    The answer is 202 if it waits for others.
    """
    answer = service.reconfigurations.undo(caller, dataflow, number, dry_run=dry_run, idempotency_key=idempotency_key)
    if not dry_run:
        _mark_begun(response, dataflow, answer)
    return answer


def _mark_begun(response: Response, dataflow: str, answer: ReconfigurationAnswer) -> None:
    response.headers["Location"] = f"/v1/dataflows/{dataflow}/reconfigurations/{answer.id}"
    if answer.state is ReconfigurationState.WAITING:
        response.status_code = _LATER
