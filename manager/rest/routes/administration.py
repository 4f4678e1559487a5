"""Routes of administration: tenants, quotas, API keys, broker credentials."""

from typing import Annotated

from fastapi import APIRouter, Depends

from manager.answers import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    Page,
    PublishingForm,
    Quota,
    TenantAnswer,
    TenantForm,
)
from manager.problem import Conflict, Forbidden, NotFound, TooLarge, UnsupportedMediaType
from manager.rest.bodies import form
from manager.rest.dependencies import NamedTenant, TheCaller, TheId, ThePage, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["administration"])
_BODY = (TooLarge, UnsupportedMediaType)


@router.post("/tenants", **documented(resources.TENANT, Conflict, Forbidden, *_BODY, body=TenantForm, status=201))
def admit(
    service: TheService, caller: TheCaller, sent: Annotated[TenantForm, Depends(form(TenantForm))]
) -> TenantAnswer:
    """Admit a tenant; operators only."""
    return service.administration.admit(caller, sent)


@router.get("/tenants", **documented(resources.TENANT_PAGE))
def tenants(service: TheService, caller: TheCaller, page: ThePage) -> Page[TenantAnswer]:
    """List tenants. A tenant sees only itself."""
    return service.administration.tenants(caller, page)


@router.put("/tenants/{tenant}/quota", **documented(resources.TENANT, Forbidden, NotFound, *_BODY, body=Quota))
def set_quota(
    service: TheService, caller: TheCaller, tenant: NamedTenant, sent: Annotated[Quota, Depends(form(Quota))]
) -> TenantAnswer:
    """Set a tenant's quota; operators only."""
    return service.administration.set_quota(caller, tenant, sent)


@router.put(
    "/tenants/{tenant}/publishing", **documented(resources.TENANT, Forbidden, NotFound, *_BODY, body=PublishingForm)
)
def set_publishing(
    service: TheService,
    caller: TheCaller,
    tenant: NamedTenant,
    sent: Annotated[PublishingForm, Depends(form(PublishingForm))],
) -> TenantAnswer:
    """Set whether a tenant may publish modules that are code; operators only. What it has published stays."""
    return service.administration.set_publishing(caller, tenant, sent)


@router.post("/tenants/{tenant}/credentials", **documented(resources.CREDENTIALS, NotFound, status=201))
def make_credentials(service: TheService, caller: TheCaller, tenant: NamedTenant) -> BrokerCredentials:
    """Make new broker credentials for a tenant. They are shown only once, and replace those it had."""
    return service.administration.make_credentials(caller, tenant)


@router.post(
    "/keys",
    **documented(
        resources.NEW_KEY,
        *(Forbidden, NotFound, *_BODY),
        body=KeyForm,
        status=201,
        leads_to={"id": ("revoke_key",)},
    ),
)
def make_key(service: TheService, caller: TheCaller, sent: Annotated[KeyForm, Depends(form(KeyForm))]) -> NewKeyAnswer:
    """Make an API key: an operator for anyone, a tenant for itself. It is shown only once."""
    return service.administration.make_key(caller, sent)


@router.get("/keys", **documented(resources.KEY_PAGE))
def keys(service: TheService, caller: TheCaller, page: ThePage) -> Page[KeyAnswer]:
    """List API keys without their secrets. A tenant sees only its own."""
    return service.administration.keys(caller, page)


@router.delete("/keys/{id}", **documented(resources.KEY_ANSWER, Conflict, NotFound))
def revoke_key(service: TheService, caller: TheCaller, id: TheId) -> KeyAnswer:  # noqa: A002 - its public name
    """Revoke an API key."""
    return service.administration.revoke_key(caller, id)
