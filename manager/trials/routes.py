"""The route of trials."""

from typing import Annotated

from fastapi import APIRouter, Depends

from braid_client.answers.trials import TrialAnswer, TrialForm
from manager.problem import InvalidDataflow, NotFound, QuotaExceeded, StateNotReady
from manager.rest.bodies import document
from manager.rest.dependencies import ForTenant, TheCaller, TheService
from manager.rest.openapi import documented

router = APIRouter(prefix="/v1", tags=["dataflows"])


@router.post("/try", **documented(InvalidDataflow, NotFound, QuotaExceeded, StateNotReady, body=TrialForm))
def try_document(
    service: TheService, caller: TheCaller, raw: Annotated[bytes, Depends(document)], tenant: ForTenant = None
) -> TrialAnswer:
    """Try a document on a few events, pasted ones or the newest that are kept: what each task takes, emits and rejects.

    Nothing is written outside, and nothing runs on.
    """
    return service.trials.run(caller, raw, tenant=tenant)
