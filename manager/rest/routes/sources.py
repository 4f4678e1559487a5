"""Routes of sources: register, list, show, open to others, revoke."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from manager.answers import Page, SchemaAnswer, SchemaForm, SourceAnswer, SourceForm, Stopped, VisibilityForm
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady, TooLarge, UnsupportedMediaType
from manager.rest.bodies import form
from manager.rest.dependencies import Named, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources
from manager.rest.routes.reconfigurations import DryRun

router = APIRouter(prefix="/v1", tags=["sources"])
_BODY = (StateNotReady, TooLarge, UnsupportedMediaType)


@router.post(
    "/sources",
    **documented(
        resources.SOURCE_ANSWER,
        *(Conflict, Forbidden, NotFound, *_BODY),
        body=SourceForm,
        status=201,
        leads_to={"name": ("source", "set_visibility", "revoke_source")},
    ),
)
def register_source(
    service: TheService,
    caller: TheCaller,
    sent: Annotated[SourceForm, Depends(form(SourceForm))],
    response: Response,
) -> SourceAnswer:
    """Register a source. Documents refer to it by its name."""
    answer = service.sources.register(caller, sent)
    response.headers["Location"] = f"/v1/sources/{answer.name}"
    return answer


@router.get("/sources", **documented(resources.SOURCE_PAGE, StateNotReady))
def sources(service: TheService, caller: TheCaller, page: ThePage) -> Page[SourceAnswer]:
    """List the sources that the caller may read, by name."""
    return service.sources.page(caller, page)


@router.get("/sources/{name}", **documented(resources.SOURCE_ANSWER, NotFound, StateNotReady))
def source(service: TheService, caller: TheCaller, name: Named) -> SourceAnswer:
    """Show a source."""
    return service.sources.get(caller, name)


@router.put(
    "/sources/{name}/visibility", **documented(resources.STOPPED, Forbidden, NotFound, *_BODY, body=VisibilityForm)
)
def set_visibility(
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[VisibilityForm, Depends(form(VisibilityForm))],
) -> Stopped:
    """Set who may read a source. Dataflows of tenants that no longer may are removed."""
    return service.sources.set_visibility(caller, name, sent)


@router.put(
    "/sources/{name}/schema",
    **documented(resources.SCHEMA_ANSWER, Conflict, Forbidden, NotFound, *_BODY, body=SchemaForm),
)
def declare_fields(
    service: TheService,
    caller: TheCaller,
    name: Named,
    sent: Annotated[SchemaForm, Depends(form(SchemaForm))],
    dry_run: DryRun = False,  # noqa: FBT002 - a query parameter
) -> SchemaAnswer:
    """Change the schema of a source. Running dataflows keep the one that they were submitted with."""
    return service.sources.declare(caller, name, sent, dry_run=dry_run)


@router.delete("/sources/{name}", **documented(resources.STOPPED, Forbidden, NotFound, StateNotReady))
def revoke_source(service: TheService, caller: TheCaller, name: Named) -> Stopped:
    """Remove a source, and every dataflow that reads it."""
    return service.sources.revoke(caller, name)
