"""The route of the journal."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import OperationAnswer, OperationKind, Page
from manager.rest.dependencies import Text, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["operations"])


@router.get("/operations", **documented(resources.OPERATION_PAGE))
def operations(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    kind: Annotated[OperationKind | None, Query(description="Only those of this kind.")] = None,
    subject: Annotated[Text | None, Query(description="Only those on this dataflow, source, tenant or key.")] = None,
) -> Page[OperationAnswer]:
    """List the journal of operations, newest first. A tenant sees only its own, and why its dataflows adapt."""
    return service.operations.page(caller, page, kind=kind, subject=subject)
