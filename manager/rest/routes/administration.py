"""Routes of administration: tenants, quotas, API keys, broker credentials."""

from typing import Annotated

from fastapi import APIRouter, Depends

from manager.answers import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    Page,
    Quota,
    TenantAnswer,
    TenantForm,
)
from manager.problem import Conflict, Forbidden, NotFound, TooLarge, UnsupportedMediaType
from manager.rest.bodies import form
from manager.rest.dependencies import Named, NamedTenant, TheCaller, ThePage, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import resources

router = APIRouter(prefix="/v1", tags=["administration"])
_BODY = (TooLarge, UnsupportedMediaType)


@router.post("/tenants", **told(resources.TENANT, Conflict, Forbidden, *_BODY, body=TenantForm, status=201))
def admit(
    service: TheService, caller: TheCaller, sent: Annotated[TenantForm, Depends(form(TenantForm))]
) -> TenantAnswer:
    """Admit a tenant; operators only."""
    return service.administration.admit(caller, sent)


@router.get("/tenants", **told(resources.TENANT_PAGE))
def tenants(service: TheService, caller: TheCaller, page: ThePage) -> Page[TenantAnswer]:
    """List tenants: all for an operator, itself for a tenant."""
    return service.administration.tenants(caller, page)


@router.put("/tenants/{tenant}/quota", **told(resources.TENANT, Forbidden, NotFound, *_BODY, body=Quota))
def set_quota(
    service: TheService, caller: TheCaller, tenant: NamedTenant, sent: Annotated[Quota, Depends(form(Quota))]
) -> TenantAnswer:
    """Set what a tenant may use; operators only."""
    return service.administration.set_quota(caller, tenant, sent)


@router.post("/tenants/{tenant}/credentials", **told(resources.CREDENTIALS, NotFound, status=201))
def make_credentials(service: TheService, caller: TheCaller, tenant: NamedTenant) -> BrokerCredentials:
    """Make a tenant's broker credentials, shown this once; those before let nobody in any more."""
    return service.administration.make_credentials(caller, tenant)


@router.post(
    "/keys",
    **told(
        resources.NEW_KEY,
        *(Forbidden, NotFound, *_BODY),
        body=KeyForm,
        status=201,
        leads_to={"id": ("revoke_key",)},
    ),
)
def make_key(service: TheService, caller: TheCaller, sent: Annotated[KeyForm, Depends(form(KeyForm))]) -> NewKeyAnswer:
    """Make an API key, shown this once: an operator for anybody, a tenant for itself."""
    return service.administration.make_key(caller, sent)


@router.get("/keys", **told(resources.KEY_PAGE))
def keys(service: TheService, caller: TheCaller, page: ThePage) -> Page[KeyAnswer]:
    """List API keys, without their secrets: a tenant's own, or all for an operator."""
    return service.administration.keys(caller, page)


@router.delete("/keys/{id}", **told(resources.KEY_ANSWER, Conflict, NotFound))
def revoke_key(service: TheService, caller: TheCaller, id: Named) -> KeyAnswer:  # noqa: A002 - its public name
    """Have an API key let nobody in any more."""
    return service.administration.revoke_key(caller, id)
