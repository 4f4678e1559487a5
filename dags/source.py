"""Registered sources: the raw streams that documents name, and who may read them."""

from dataclasses import dataclass
from enum import StrEnum

from dags.schema import Schema


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
