"""Routes of secrets: put, list by name, remove."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from manager.answers import Page, SecretAnswer, SecretForm, SecretName
from manager.problem import NotFound, TooLarge, UnsupportedMediaType
from manager.rest.bodies import form
from manager.rest.dependencies import ForTenant, TheCaller, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["secrets"])
_Named = Annotated[SecretName, Path(description="Its name in documents.")]


@router.put(
    "/secrets/{name}", **documented(resources.SECRET, NotFound, TooLarge, UnsupportedMediaType, body=SecretForm)
)
def put_secret(
    service: TheService,
    caller: TheCaller,
    name: _Named,
    sent: Annotated[SecretForm, Depends(form(SecretForm))],
    tenant: ForTenant = None,
) -> SecretAnswer:
    """Store a secret. Tasks that name it get it with their next batch."""
    return service.secrets.put(caller, name, sent, tenant=tenant)


@router.get("/secrets", **documented(resources.SECRET_PAGE, NotFound))
def secrets(service: TheService, caller: TheCaller, page: ThePage, tenant: ForTenant = None) -> Page[SecretAnswer]:
    """List the names of secrets. Their values are never shown."""
    return service.secrets.page(caller, page, tenant=tenant)


@router.delete("/secrets/{name}", **documented(resources.SECRET, NotFound))
def remove_secret(service: TheService, caller: TheCaller, name: _Named, tenant: ForTenant = None) -> SecretAnswer:
    """Delete a secret. Tasks that name it fail."""
    return service.secrets.remove(caller, name, tenant=tenant)
