"""The part of a client that administers: tenants, quotas, API keys, secrets and broker credentials."""

from collections.abc import AsyncIterator

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
from manager.client.async_connection import AsyncServiceConnection
from manager.client.requests import administration


class AsyncAdministrationClient(AsyncServiceConnection):
    """Administers one service with one API key."""

    async def admit(self, form: TenantForm) -> TenantAnswer:
        """Admit a tenant; operators only."""
        return await self.send(administration.admit(form))

    def tenants(self) -> AsyncIterator[TenantAnswer]:
        """All tenants for an operator, itself for a tenant."""
        return self._items(administration.tenants())

    async def set_quota(self, tenant: str, quota: Quota) -> TenantAnswer:
        """Set what a tenant may use; operators only."""
        return await self.send(administration.set_quota(tenant, quota))

    async def set_publishing(self, tenant: str, form: PublishingForm) -> TenantAnswer:
        """Set whether a tenant may publish modules that are code; operators only."""
        return await self.send(administration.set_publishing(tenant, form))

    async def make_credentials(self, tenant: str) -> BrokerCredentials:
        """Make a tenant's broker credentials; its earlier ones become invalid."""
        return await self.send(administration.make_credentials(tenant))

    async def make_key(self, form: KeyForm) -> NewKeyAnswer:
        """Make an API key: an operator for anyone, a tenant for itself."""
        return await self.send(administration.make_key(form))

    def keys(self) -> AsyncIterator[KeyAnswer]:
        """The caller's API keys; all of them for an operator."""
        return self._items(administration.keys())

    async def revoke_key(self, key: str) -> KeyAnswer:
        """Revoke an API key by its id."""
        return await self.send(administration.revoke_key(key))

    async def put_secret(self, name: str, form: SecretForm, *, tenant: str | None = None) -> SecretAnswer:
        """Store a secret; operators name the tenant."""
        return await self.send(administration.put_secret(name, form, tenant))

    def secrets(self, *, tenant: str | None = None) -> AsyncIterator[SecretAnswer]:
        """The names of the caller's secrets; for an operator those of all tenants, or one."""
        return self._items(administration.secrets(tenant))

    async def remove_secret(self, name: str, *, tenant: str | None = None) -> SecretAnswer:
        """Remove a secret; tasks that name it fail."""
        return await self.send(administration.remove_secret(name, tenant))
