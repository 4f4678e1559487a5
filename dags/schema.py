"""Schemas: the fields of a stream's events and their kinds; and registered sources, the raw streams that have one.

Documents refer to a source by its name. A source says which tenants may read it.
"""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rpds import HashTrieMap


class Kind(StrEnum):
    """The kind of a field's values. Every kind allows null."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"
    TIMESTAMP = "timestamp"
    JSON = "json"


NUMBER = frozenset({Kind.INTEGER, Kind.FLOAT})
ANY = frozenset(Kind)


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a stream. A persistent map, so that a long chain of tasks that each add a field stays cheap.

    >>> Schema.of(temperature=Kind.FLOAT).plus("hot", Kind.BOOLEAN).names()
    ('hot', 'temperature')
    """

    fields: HashTrieMap[str, Kind]

    @classmethod
    def of(cls, fields: Mapping[str, Kind] | None = None, /, **more: Kind) -> Schema:
        """A schema with these fields."""
        from rpds import HashTrieMap  # noqa: PLC0415 - the client comes without it, and makes no schemas

        return cls(HashTrieMap({**(fields or {}), **more}))

    def names(self) -> tuple[str, ...]:
        """The names of the fields, sorted."""
        return tuple(sorted(self.fields))

    def plus(self, name: str, kind: Kind) -> Schema:
        """The schema with one more field, or with another kind for an existing one."""
        return Schema(self.fields.insert(name, kind))

    def only(self, names: Iterable[str]) -> Schema:
        """The schema with only those of its fields that are named."""
        return Schema.of({name: self.fields[name] for name in names if name in self.fields})

    def without(self, name: str) -> Schema:
        """The schema without one field."""
        return Schema(self.fields.discard(name))


def meet(schemas: Iterable[Schema]) -> Schema:
    """The fields that every event has if several streams enter one port: those that all have, with the same kind.

    >>> meet([Schema.of(a=Kind.FLOAT, b=Kind.STRING), Schema.of(a=Kind.FLOAT, b=Kind.FLOAT)]).names()
    ('a',)
    """
    # Tasks that pass events on unchanged return the very same schema object.
    first, *others = {id(schema): schema for schema in schemas}.values()
    if not others:
        return first
    return Schema.of(
        {name: kind for name, kind in first.fields.items() if all(other.fields.get(name) == kind for other in others)}
    )


class Visibility(StrEnum):
    """The tenants that may use a source in a dataflow."""

    PRIVATE = "private"
    NAMED = "named"
    PUBLIC = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A raw stream as registered. Documents refer to it by name."""

    name: str
    owner: str
    schema: Schema
    visibility: Visibility = Visibility.PRIVATE
    readers: frozenset[str] = frozenset()
    """The tenants besides the owner that may read it, if the visibility is `named`."""

    def visible_to(self, tenant: str) -> bool:
        """True if the tenant may use it.

        >>> from dags.schema import Schema
        >>> weather = Source(name="w", owner="ann", schema=Schema.of(), visibility=Visibility.NAMED, readers={"bob"})
        >>> [weather.visible_to(tenant) for tenant in ("ann", "bob", "eve")]
        [True, True, False]
        """
        return (
            tenant == self.owner
            or self.visibility is Visibility.PUBLIC
            or (self.visibility is Visibility.NAMED and tenant in self.readers)
        )
