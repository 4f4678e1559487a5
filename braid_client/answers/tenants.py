"""Answers about tenants: quotas, API keys, secrets, credentials for the broker, and sessions of the console."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from braid_client.answers.base import Answer, Form, TenantName

_Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A count; every database can count that far."""


class Quota(Form):
    """The most that a tenant may use."""

    dataflows: _Count = 1_000
    tasks: _Count = 20_000
    streams: _Count = 100_000
    """The streams between the tasks of all its dataflows."""
    submits_per_minute: _Count = 600
    wheel_bytes: _Count = 64 * 1024 * 1024
    """The bytes of all its wheels."""
    sources: _Count = 200
    secrets: _Count = 200
    modules: _Count = 1_000
    """The versions of all its modules."""
    keys: _Count = 100
    """API keys that are valid."""
    requests_per_minute: _Count = 6_000
    """The requests of all its keys and sessions together."""
    from_earliest: _Count = 20
    """Dataflows that began at the earliest events, which share nothing and have jobs of their own."""
    state_mb: _Count = 4_000
    """The MB in the states of all tasks that its dataflows need."""
    budget: _Count = 1_000_000
    """The money a day that the cores of its dataflows with alternates may cost."""


class QuotaUse(Answer):
    """What a tenant uses of its quota; requests a minute are not counted over all managers."""

    dataflows: int
    tasks: int
    streams: int
    submits_per_minute: int
    """The submissions of the last minute."""
    wheel_bytes: int
    sources: int
    secrets: int
    modules: int
    keys: int
    from_earliest: int
    state_mb: int | None = None
    """None from a manager that does not lead. States of less than 10,000 bytes are not counted."""
    budget: float | None = None
    """None from a manager that does not lead, and without a price of cores."""


class PublishingForm(Form):
    """What a tenant may publish besides modules of installed task types."""

    code: bool


class TenantForm(Form):
    """A tenant to admit."""

    name: TenantName
    quota: Quota = Quota()


class TenantAnswer(Answer):
    """A tenant."""

    name: str
    quota: Quota
    uses: QuotaUse
    created: datetime
    publishes_code: bool = False
    """Whether an operator allows it to publish modules that are code."""
    quarantined_until: datetime | None = None
    """Until when its tasks share no worker with those of others, because some were stopped for asking too much."""


class Role(StrEnum):
    """The role of a caller: tenants act on what they own, operators on everything."""

    TENANT = "tenant"
    READ_ONLY = "read-only"
    """Sees what its tenant sees, and changes nothing."""
    OPERATOR = "operator"


class KeyForm(Form):
    """An API key to make; without a tenant it is an operator's."""

    tenant: TenantName | None = None
    note: Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    read_only: bool = False
    """Whether it may look and change nothing; only for a tenant."""
    expires: AwareDatetime | None = None
    """From when on it lets nobody in; without it the key is valid until it is revoked."""


class KeyAnswer(Answer):
    """An API key, without its secret."""

    id: str
    role: Role
    tenant: str | None
    note: str
    created: datetime
    revoked: datetime | None
    expires: datetime | None = None
    used: datetime | None = None
    """When it was last sent, to about a minute; None if it never was."""


class NewKeyAnswer(KeyAnswer):
    """A new API key. This answer alone holds its secret."""

    key: str


class SecretForm(Form):
    """A secret to store."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] = Field(repr=False)


class SecretAnswer(Answer):
    """The name of a secret. Its value is never shown."""

    tenant: str
    name: str


class BrokerLogin(Answer):
    """Where and as whom a tenant connects to the broker, and the topics that it may read and write."""

    url: str
    """Empty while the broker is not known."""
    user: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    made: datetime | None = None
    """When its present password was made; None if it has none."""


class BrokerCredentials(BrokerLogin):
    """The credentials with which a tenant connects to the broker. This answer alone holds the password."""

    password: str


class SessionForm(Form):
    """The API key to sign in with, or the token of a link."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(None, repr=False)
    link: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(None, repr=False)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.key is None) == (self.link is None):
            raise ValueError("give either a key or the token of a link")
        return self


class ConsoleLink(Answer):
    """A link that signs in to the console, once."""

    path: str = Field(repr=False)
    """Its path below the service's URL; the token is in the fragment, which browsers send to nobody."""
    until: datetime


class SessionAnswer(Answer):
    """The caller."""

    kind: Role
    tenant: str | None = None
    """None for an operator."""
    until: datetime | None = None
    """The end of the session; None for a caller without one."""
    name: str = ""
    """The name of the person at the provider; empty for an API key."""


class SignInOffer(Answer):
    """How the console lets people sign in besides with an API key."""

    provider: str | None
    """The host of the provider; None if there is none."""


class SignInBegun(Answer):
    """A sign-in with the provider that has begun."""

    url: str
    """Where the browser goes next."""


class SignInForm(Form):
    """What the provider sent a browser back with."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=3_000)] = Field(repr=False)
    state: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class SessionEnded(Answer):
    """The result of signing out: whether there was a session."""

    ended: bool
