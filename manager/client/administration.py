# Generated from async_administration.py by `make client`: edit that file.
"""The part of a client that administers: tenants, quotas, API keys, secrets and broker credentials."""

from collections.abc import Iterator

from manager.answers import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    PublishingForm,
    Quota,
    SecretAnswer,
    SecretForm,
    TenantAnswer,
    TenantForm,
)
from manager.client.connection import ServiceConnection
from manager.client.requests import administration


class AdministrationClient(ServiceConnection):
    """Administers one service with one API key."""

    def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return self.send(administration.admit(form))

    def tenants(self) -> Iterator[TenantAnswer]:
        """All tenants for an operator, itself for a tenant."""
        return self._items(administration.tenants())

    def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return self.send(administration.set_quota(tenant, quota))

    def set_publishing(self, tenant: str, form: PublishingForm) -> TenantAnswer:
        """Set whether a tenant may publish modules that are code; operators only."""
        return self.send(administration.set_publishing(tenant, form))

    def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; its earlier ones become invalid."""
        return self.send(administration.make_credentials(tenant))

    def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anyone, a tenant for itself."""
        return self.send(administration.make_key(form))

    def keys(self) -> Iterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(administration.keys())

    def revoke_key(self, key: str) -> KeyAnswer:
        """Revoke an API key by its id."""
        return self.send(administration.revoke_key(key))

    def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Store a secret; operators name the tenant."""
        return self.send(administration.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> Iterator[SecretAnswer]:
        """The names of the caller's secrets; for an operator those of all tenants, or one."""
        return self._items(administration.secrets(tenant))

    def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Remove a secret; tasks that name it fail."""
        return self.send(administration.remove_secret(name, tenant))
