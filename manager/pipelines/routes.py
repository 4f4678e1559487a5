"""Routes of modules and wheels: publish, list, show, deprecate, vouch; send and remove wheels."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import StringConstraints

from braid_client.answers.base import Page
from braid_client.answers.pipelines import ModuleAnswer, ModuleDetail, WheelAnswer
from dags.vocabulary import ModuleShape
from manager.problem import (
    Conflict,
    Forbidden,
    InvalidModule,
    InvalidWheel,
    NotFound,
    QuotaExceeded,
    TooLarge,
    UnsupportedMediaType,
)
from manager.rest import bodies
from manager.rest.dependencies import ForTenant, Named, Text, TheCaller, TheNumberedPage, TheService
from manager.rest.openapi import documented
from planning.forms import MOST_VERSION, ModuleForm

router = APIRouter(prefix="/v1", tags=["modules"])
Version = Annotated[int, Path(ge=1, le=MOST_VERSION, description="The version.")]
OfTenant = Annotated[
    ForTenant, Query(description="The tenant whose module it is. Only operators need it, and not for their own.")
]


@router.post("/modules", **documented(Conflict, Forbidden, InvalidModule, body=ModuleForm, status=201))
def publish_module(
    service: TheService, caller: TheCaller, raw: Annotated[bytes, Depends(bodies.module)], response: Response
) -> ModuleDetail:
    """Publish a version of a module: an operator for everybody, a tenant for itself. A version never changes."""
    answer = service.modules.publish(caller, raw)
    response.headers["Location"] = f"/v1/modules/{answer.name}/{answer.version}"
    return answer


@router.get("/modules", **documented(NotFound))
def modules(  # noqa: PLR0913, PLR0917 - each is a filter
    service: TheService,
    caller: TheCaller,
    page: TheNumberedPage,
    tenant: Annotated[ForTenant, Query(description="Only this tenant's.")] = None,
    name: Annotated[Text | None, Query(description="Only those with this name.")] = None,
    shape: Annotated[ModuleShape | None, Query(description="Only those of this shape.")] = None,
    tag: Annotated[Text | None, Query(description="Only those with this tag.")] = None,
    deprecated: Annotated[bool | None, Query(description="Only those that are deprecated, or only the others.")] = None,
) -> Page[ModuleAnswer]:
    """List the versions of modules that the caller may use, in the order of publication."""
    return service.modules.page(caller, page, tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)


@router.get("/modules/{name}", **documented(NotFound))
def module_versions(
    service: TheService, caller: TheCaller, name: Named, page: TheNumberedPage, tenant: OfTenant = None
) -> Page[ModuleAnswer]:
    """List the versions of a module, oldest first."""
    return service.modules.versions(caller, name, page, tenant=tenant)


@router.get("/modules/{name}/{version}", **documented(NotFound))
def module(
    service: TheService, caller: TheCaller, name: Named, version: Version, tenant: OfTenant = None
) -> ModuleDetail:
    """Show a version of a module with its form, as it was published."""
    return service.modules.get(caller, name, version, tenant=tenant)


@router.post("/modules/{name}/{version}/deprecate", **documented(Forbidden, NotFound))
def deprecate_module(
    service: TheService, caller: TheCaller, name: Named, version: Version, tenant: OfTenant = None
) -> ModuleAnswer:
    """Deprecate a version: from now on only pipelines that name it or hold it use it."""
    return service.modules.deprecate(caller, name, version, tenant=tenant)


@router.post("/modules/{name}/{version}/vouch", **documented(Conflict, Forbidden, NotFound))
def vouch_for_module(
    service: TheService, caller: TheCaller, name: Named, version: Version, tenant: OfTenant = None
) -> ModuleAnswer:
    """Vouch for a version of a tenant's code, so that it may run beside other tasks; operators only."""
    return service.modules.vouch(caller, name, version, tenant=tenant)


@router.delete("/modules/{name}/{version}/vouch", **documented(Conflict, Forbidden, NotFound))
def withdraw_vouch(
    service: TheService, caller: TheCaller, name: Named, version: Version, tenant: OfTenant = None
) -> ModuleAnswer:
    """Vouch for a version no longer; operators only."""
    return service.modules.withdraw(caller, name, version, tenant=tenant)


wheels_router = APIRouter(prefix="/v1", tags=["modules"])
_Digest = Annotated[
    str,
    StringConstraints(pattern="^[0-9a-f]{64}$"),
    Path(description="The SHA-256 of the file, in hexadecimal digits."),
]
_BODY = {
    "requestBody": {
        "required": True,
        "content": {bodies.OCTETS: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@wheels_router.put(
    "/wheels/{digest}",
    **documented(Conflict, Forbidden, InvalidWheel, QuotaExceeded, TooLarge, UnsupportedMediaType),
    openapi_extra=_BODY,
)
def put_wheel(
    service: TheService, caller: TheCaller, digest: _Digest, raw: Annotated[bytes, Depends(bodies.wheel)]
) -> WheelAnswer:
    """Send a wheel that code will import from, before the module that requires it. Sending it again changes nothing."""
    return service.wheels.put(caller, digest, raw)


@wheels_router.get("/wheels", **documented(NotFound))
def wheels(
    service: TheService, caller: TheCaller, page: TheNumberedPage, tenant: ForTenant = None
) -> Page[WheelAnswer]:
    """List wheels, in the order in which they were sent."""
    return service.wheels.page(caller, page, tenant=tenant)


@wheels_router.delete("/wheels/{digest}", **documented(Conflict, NotFound))
def remove_wheel(service: TheService, caller: TheCaller, digest: _Digest, tenant: ForTenant = None) -> WheelAnswer:
    """Delete a wheel that no module requires."""
    return service.wheels.remove(caller, digest, tenant=tenant)
