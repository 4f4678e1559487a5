"""The requests about tenants, API keys and secrets."""

from manager.answers import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    Page,
    PublishingForm,
    Quota,
    SecretAnswer,
    SecretForm,
    TenantAnswer,
    TenantForm,
)
from manager.client.requests.request import Request, form_body, given, list_request, path_to


def admit(form: TenantForm) -> Request[TenantAnswer]:
    """Admit a tenant."""
    return Request(method="POST", path="/v1/tenants", answer=TenantAnswer, body=form_body(form))


def tenants() -> Request[Page[TenantAnswer]]:
    """The tenants that the caller may see."""
    return list_request("/v1/tenants", Page[TenantAnswer])


def set_quota(tenant: str, quota: Quota) -> Request[TenantAnswer]:
    """Set what a tenant may use."""
    return Request(method="PUT", path=path_to("tenants", tenant, "quota"), answer=TenantAnswer, body=form_body(quota))


def set_publishing(tenant: str, form: PublishingForm) -> Request[TenantAnswer]:
    """Set whether a tenant may publish code."""
    return Request(
        method="PUT", path=path_to("tenants", tenant, "publishing"), answer=TenantAnswer, body=form_body(form)
    )


def make_credentials(tenant: str) -> Request[BrokerCredentials]:
    """Make a tenant's broker credentials."""
    return Request(method="POST", path=path_to("tenants", tenant, "credentials"), answer=BrokerCredentials)


def make_key(form: KeyForm) -> Request[NewKeyAnswer]:
    """Make an API key."""
    return Request(method="POST", path="/v1/keys", answer=NewKeyAnswer, body=form_body(form))


def keys() -> Request[Page[KeyAnswer]]:
    """The caller's API keys."""
    return list_request("/v1/keys", Page[KeyAnswer])


def revoke_key(key: str) -> Request[KeyAnswer]:
    """Revoke an API key."""
    return Request(method="DELETE", path=path_to("keys", key), answer=KeyAnswer)


def put_secret(name: str, form: SecretForm, tenant: str | None) -> Request[SecretAnswer]:
    """Store a secret."""
    path, query = path_to("secrets", name), given(tenant=tenant)
    return Request(method="PUT", path=path, answer=SecretAnswer, query=query, body=form_body(form))


def secrets(tenant: str | None) -> Request[Page[SecretAnswer]]:
    """The names of secrets."""
    return list_request("/v1/secrets", Page[SecretAnswer], given(tenant=tenant))


def remove_secret(name: str, tenant: str | None) -> Request[SecretAnswer]:
    """Remove a secret."""
    return Request(method="DELETE", path=path_to("secrets", name), answer=SecretAnswer, query=given(tenant=tenant))
