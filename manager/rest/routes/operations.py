"""The route of the journal."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import OperationAnswer, OperationKind, Page
from manager.rest.dependencies import Text, TheCaller, ThePage, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["operations"])


@router.get("/operations", **told(resources.OPERATION_PAGE))
def operations(
    service: TheService,
    caller: TheCaller,
    page: ThePage,
    kind: Annotated[OperationKind | None, Query(description="Of this kind.")] = None,
    subject: Annotated[Text | None, Query(description="About this dataflow, source, tenant or key.")] = None,
) -> Page[OperationAnswer]:
    """List what was done, newest first: by the tenant itself, or everything for an operator."""
    return service.operations.page(caller, page, kind=kind, subject=subject)
