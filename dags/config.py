"""Configs: what a task type's schema is derived of, and the values that mean something else for each tenant."""

from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Protocol, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    model_serializer,
    model_validator,
)

_NAME = "[A-Za-z0-9_][A-Za-z0-9._-]*"
"""A level of a path; none of them leads upwards."""


def _holds_a_set(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    return (isinstance(kind, type) and issubclass(kind, AbstractSet)) or any(map(_holds_a_set, get_args(annotation)))


class Config(BaseModel):
    """The base of every task type's config schema: strict, complete, without NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __pydantic_init_subclass__(cls, **_more: Any) -> None:
        for name, field in cls.model_fields.items():
            if _holds_a_set(field.annotation):
                raise TypeError(
                    f"the config field {name!r} is a set, whose order changes from run to run, and with it the "
                    "signature; make it a tuple and let the type's normalise sort it"
                )


class Outside(Protocol):
    """What a host knows of the world outside, for the configs of its tasks."""

    def secret(self, owner: str, name: str) -> str:
        """What a tenant keeps secret under a name."""

    def place(self, owner: str, path: str) -> str:
        """Where a path of a tenant's lies on this machine."""

    def barred(self, host: str) -> str:
        """Why tasks of tenants may not connect to a host, given by its name or address; empty where they may."""


class Owned(Config):
    """A config value that means something else for each tenant; it is hashed with its owner, so that none share one.

    A host reads a plan's configs with itself as the context's `outside`. Only then may a value name its owner, and only
    then is looked up what it refers to, once; the configs of documents and plans hold the reference alone.
    """

    _found: str = PrivateAttr("")
    _outside: Outside | None = PrivateAttr(None)

    def _looked_up(self, owner: str, outside: Outside) -> str:
        raise NotImplementedError

    def _looked_up_once(self) -> str:
        if not self._found:
            raise LookupError(f"{self} means something only to a host's worker, which has its plan")
        return self._found

    @model_validator(mode="wrap")
    @classmethod
    def _of_a_plan(cls, told: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        outside = (info.context or {}).get("outside")
        if outside is None or not isinstance(told, dict):
            return handler(told)
        made = handler({name: value for name, value in told.items() if name != "owner"})
        made._found = made._looked_up(told.get("owner", ""), outside)  # noqa: SLF001 - its own
        made._outside = outside  # noqa: SLF001 - its own
        return made

    @model_serializer(mode="wrap")
    def _with_owner(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        owner = {"owner": info.context["owner"]} if info.context else {}
        return {**handler(self), **owner}


class Secret(Owned):
    """A config value that only refers to a secret.

    >>> Secret(secret="password").model_dump(context={"owner": "ann"})
    {'secret': 'password', 'owner': 'ann'}
    """

    secret: str

    @property
    def revealed(self) -> str:
        """The secret itself, in a worker; for nobody's eyes."""
        return self._looked_up_once()

    def barred(self, host: str) -> str:
        """Why a task may not connect to a host that the secret names; asked by the task before each connection."""
        if self._outside is None:
            raise LookupError(f"{self} means something only to a host's worker, which has its plan")
        return self._outside.barred(host)

    def _looked_up(self, owner: str, outside: Outside) -> str:
        return outside.secret(owner, self.secret)


class Place(Owned):
    """A config value that names a file or folder among those that hosts keep for the tenant.

    >>> Place(place="readings/today").place
    'readings/today'
    """

    place: Annotated[str, StringConstraints(max_length=200, pattern=f"^{_NAME}(/{_NAME})*$")]

    @property
    def path(self) -> str:
        """Where it lies, in a worker."""
        return self._looked_up_once()

    def _looked_up(self, owner: str, outside: Outside) -> str:
        return outside.place(owner, self.place)


class NamesSource(Config):
    """The least that a source type's config has: the name of a registered source."""

    source: str
