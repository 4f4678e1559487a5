"""The route of task types."""

from typing import Annotated

from fastapi import APIRouter, Query

from manager.answers import Page, TaskTypeAnswer
from manager.rest.dependencies import Text, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples.task_types import TASK_TYPE_PAGE

router = APIRouter(prefix="/v1", tags=["task types"])


@router.get("/task-types", **documented(TASK_TYPE_PAGE))
def task_types(
    service: TheService,
    _caller: TheCaller,
    page: ThePage,
    name: Annotated[
        Text | None,
        Query(description="Only the one of this name, which may be in a namespace."),
    ] = None,
) -> Page[TaskTypeAnswer]:
    """List the installed task types by name, each with the JSON Schema of its configs."""
    return service.task_types.page(page, name=name)
