"""The route that plans a running pipeline anew."""

from typing import Annotated

from fastapi import APIRouter, Depends

from manager.answers import ReplanAnswer, ReplanForm
from manager.problem import (
    Conflict,
    InvalidDataflow,
    NotFound,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
)
from manager.rest.bodies import form
from manager.rest.dependencies import Named, TheCaller, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples.plans import REPLANNED
from manager.rest.routes.reconfigurations import DryRun

router = APIRouter(prefix="/v1/dataflows/{id}", tags=["dataflows"])
_TROUBLES = (Conflict, InvalidDataflow, NotFound, QuotaExceeded, StateNotReady, TooLarge, UnsupportedMediaType)


@router.post("/replan", **documented(REPLANNED, *_TROUBLES, body=ReplanForm))
def replan(
    service: TheService,
    caller: TheCaller,
    id: Named,  # noqa: A002 - its public name
    sent: Annotated[ReplanForm, Depends(form(ReplanForm))],
    dry_run: DryRun = False,  # noqa: FBT002 - a query parameter
) -> ReplanAnswer:
    """Plan a running pipeline anew and apply the difference. Without a plan everything stays as it is."""
    return service.pipelines.replan(caller, id, sent, dry_run=dry_run)
