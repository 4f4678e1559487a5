"""Configs: the base of every task type's config, and config values whose meaning depends on the tenant."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Protocol, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    Tag,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_NAME = "[A-Za-z0-9_][A-Za-z0-9._-]*"
"""One level of a path. No level leads upwards."""


def _holds_a_set(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return (isinstance(kind, type) and issubclass(kind, AbstractSet)) or any(map(_holds_a_set, get_args(annotation)))


class Config(BaseModel):
    """The base of every task type's config schema: strict, complete, without NaN."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        # Forms and the documentation show them.
        use_attribute_docstrings=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_more: Any) -> None:
        for name, field in cls.model_fields.items():
            if _holds_a_set(field.annotation):
                raise TypeError(
                    f"the config field {name!r} is a set; its order changes from run to run, and so would the "
                    "signature; make it a tuple, and sort it in the type's normalise"
                )


class Outside(Protocol):
    """A host's access to the outside world, for the configs of its tasks."""

    def secret(self, owner: str, name: str) -> str:
        """The tenant's secret of that name."""

    def place(self, owner: str, path: str) -> str:
        """The path on this machine of a tenant's file or folder."""

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host (a name or address); empty if they may."""

    def addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host that tasks of tenants may connect to. Raises OSError if they may not."""

    def code(self, digest: str) -> str:
        """The path on this machine of a published source, whether it is there or not."""

    def wheel(self, digest: str) -> str:
        """The path on this machine of a wheel that published code imports from, whether it is there or not."""

    def vouched(self, owner: str, digest: str, entry: str, per: str) -> bool:
        """Whether an operator vouches for a published function now."""

    @property
    def deployment(self) -> str:
        """The id of the host's files, which no other deployment has."""


class Hosted(Config):
    """A config that asks the host of its worker what it knows of the outside world."""

    _outside: Outside | None = PrivateAttr(None)

    @property
    def in_host(self) -> Outside:
        """The outside world, as the host of a worker knows it."""
        if self._outside is None:
            raise LookupError(f"a {type(self).__name__} knows the outside world only in a host's worker")
        return self._outside

    @model_validator(mode="after")
    def _in_worker(self, info: ValidationInfo) -> Self:
        self._outside = (info.context or {}).get("outside")
        return self


def _unserialized(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without what serializes its values."""
    inner = {"schema": _unserialized(schema["schema"])} if "schema" in schema else {}
    return {**{name: part for name, part in schema.items() if name != "serialization"}, **inner}


class Owned(Config):
    """A config value whose meaning depends on the tenant. It is hashed with its owner, so tenants never share it.

    A host reads a plan's configs with itself as the context's `outside`. Only then may a value name its owner, and only
    then is its reference resolved, once. The configs of documents and plans hold only the reference.
    """

    _resolved: str = PrivateAttr("")
    _outside: Outside | None = PrivateAttr(None)

    def _resolve(self, owner: str, outside: Outside) -> str:
        raise NotImplementedError

    def _resolved_value(self) -> str:
        if not self._resolved:
            raise LookupError(f"{self} is resolved only in a host's worker, which has its plan")
        return self._resolved

    @model_validator(mode="wrap")
    @classmethod
    def _from_plan(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        outside = (info.context or {}).get("outside")
        if outside is None or not isinstance(given, dict):
            return handler(given)
        made = handler({name: value for name, value in given.items() if name != "owner"})
        made._resolved = made._resolve(given.get("owner", ""), outside)  # noqa: SLF001 - its own
        made._outside = outside  # noqa: SLF001 - its own
        return made

    @model_serializer(mode="wrap")
    def _with_owner(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        owner = {"owner": info.context["owner"]} if info.context else {}
        return {**handler(self), **owner}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # As it is in answers, too: its owner is only in plans.
        return handler(cast(CoreSchema, _unserialized(schema)))


class Secret(Owned):
    """A config value that refers to a secret.

    >>> Secret(secret="password").model_dump(context={"owner": "ann"})
    {'secret': 'password', 'owner': 'ann'}
    """

    secret: str

    @property
    def revealed(self) -> str:
        """The secret itself, in a worker. Never show or log it."""
        return self._resolved_value()

    def barred(self, host: str) -> str:
        """Why a task may not connect to a host that the secret names; empty if it may."""
        return self._there.barred(host)

    def addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host that the secret names, which a task may connect to. Raises OSError if it may not."""
        return self._there.addresses(host)

    @property
    def _there(self) -> Outside:
        if self._outside is None:
            raise LookupError(f"{self} is resolved only in a host's worker, which has its plan")
        return self._outside

    def _resolve(self, owner: str, outside: Outside) -> str:
        return outside.secret(owner, self.secret)


class Place(Owned):
    """A config value that names a file or folder which the hosts keep for the tenant.

    >>> Place(place="readings/today").place
    'readings/today'
    """

    place: Annotated[str, StringConstraints(max_length=200, pattern=f"^{_NAME}(/{_NAME})*$")]

    @property
    def path(self) -> str:
        """Its path on this machine, in a worker."""
        return self._resolved_value()

    def _resolve(self, owner: str, outside: Outside) -> str:
        return outside.place(owner, self.place)


def _named(value: Any) -> str | None:
    """The alternative that a value is meant for, so that only what is wrong with this one is a problem."""
    names = value.keys() if isinstance(value, dict) else getattr(type(value), "model_fields", ())
    return next((f"a {name}" for name in ("place", "secret") if name in names), None)


Where = Annotated[
    Annotated[Secret, Tag("a secret")] | Annotated[Place, Tag("a place")],
    Discriminator(
        _named,
        custom_error_type="neither",
        custom_error_message="Input should be an object with the field 'secret' or the field 'place'",
    ),
]
"""A secret with a URL, or a place of the tenant's."""


class NamesSource(Config):
    """The base of a source type's config: the name of a registered source."""

    source: str
    """The name of a registered source."""
