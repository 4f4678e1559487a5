"""Routes of wheels: send, list, remove."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import StringConstraints

from manager.answers import Page, WheelAnswer
from manager.problem import Conflict, Forbidden, InvalidWheel, NotFound, QuotaExceeded, TooLarge, UnsupportedMediaType
from manager.rest import bodies
from manager.rest.dependencies import ForTenant, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import modules as examples

router = APIRouter(prefix="/v1", tags=["modules"])
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


@router.put(
    "/wheels/{digest}",
    **documented(examples.WHEEL, *(Conflict, Forbidden, InvalidWheel, QuotaExceeded, TooLarge, UnsupportedMediaType)),
    openapi_extra=_BODY,
)
def put_wheel(
    service: TheService, caller: TheCaller, digest: _Digest, raw: Annotated[bytes, Depends(bodies.wheel)]
) -> WheelAnswer:
    """Send a wheel that code will import from, before the module that requires it. Sending it again changes nothing."""
    return service.wheels.put(caller, digest, raw)


@router.get("/wheels", **documented(examples.WHEEL_PAGE, NotFound))
def wheels(service: TheService, caller: TheCaller, page: ThePage, tenant: ForTenant = None) -> Page[WheelAnswer]:
    """List wheels, in the order in which they were sent."""
    return service.wheels.page(caller, page, tenant=tenant)


@router.delete("/wheels/{digest}", **documented(examples.WHEEL, Conflict, NotFound))
def remove_wheel(service: TheService, caller: TheCaller, digest: _Digest, tenant: ForTenant = None) -> WheelAnswer:
    """Delete a wheel that no module requires."""
    return service.wheels.remove(caller, digest, tenant=tenant)
