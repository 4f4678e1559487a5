"""The tables of tenants and their credentials."""

from sqlalchemy import false
from sqlmodel import Field, SQLModel

DEFAULT_WHEEL_BYTES = 64 * 1024 * 1024


class TenantRow(SQLModel, table=True):
    """A tenant and its quota."""

    __tablename__ = "tenant"
    name: str = Field(primary_key=True)
    dataflows: int
    tasks: int
    streams: int = Field(default=100_000, sa_column_kwargs={"server_default": "100000"})
    submits_per_minute: int
    created: float
    publishes: bool = Field(default=False, sa_column_kwargs={"server_default": false()})
    """Whether an operator allows it to publish code."""
    wheel_bytes: int = Field(default=DEFAULT_WHEEL_BYTES, sa_column_kwargs={"server_default": str(DEFAULT_WHEEL_BYTES)})
    """How large the wheels may be in all that its code imports from."""
    sources: int = Field(default=200, sa_column_kwargs={"server_default": "200"})
    secrets: int = Field(default=200, sa_column_kwargs={"server_default": "200"})
    modules: int = Field(default=1_000, sa_column_kwargs={"server_default": "1000"})
    keys: int = Field(default=100, sa_column_kwargs={"server_default": "100"})
    requests_per_minute: int = Field(default=6_000, sa_column_kwargs={"server_default": "6000"})
    from_earliest: int = Field(default=20, sa_column_kwargs={"server_default": "20"})
    state_mb: int = Field(default=4_000, sa_column_kwargs={"server_default": "4000"})
    """How large the states of all its tasks may be."""
    stopped_at: float | None = None
    """When one of its tasks was last stopped because it asked for too much."""
    quarantined_until: float | None = None
    """The end of its last quarantine."""


class KeyRow(SQLModel, table=True):
    """An API key; its secret is kept as a hash."""

    __tablename__ = "api_key"
    id: str = Field(primary_key=True)
    hash: str
    role: str
    tenant: str | None = Field(default=None, index=True)
    note: str = ""
    created: float
    revoked: float | None = None


class SessionRow(SQLModel, table=True):
    """A session of the console: a token for an API key, kept as a hash."""

    __tablename__ = "console_session"
    hash: str = Field(primary_key=True)
    key: str
    until: float


class CredentialRow(SQLModel, table=True):
    """A tenant's credentials for the broker; the password is kept as the broker's hash."""

    __tablename__ = "broker_credential"
    tenant: str = Field(primary_key=True)
    hash: str
    created: float
