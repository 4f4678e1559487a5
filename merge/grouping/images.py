"""Images: what hosts are made from, and so which tags they offer."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A named set of tags, and what a host of it has and costs; registered by operators."""

    name: str
    tags: frozenset[str]
    cores: float
    """Of each host."""
    start: float = 0.0
    """Seconds until a new host is there."""
    price: float = 0.0
    """Of a host for an hour."""
    most: int | None = None
    """How many hosts there may be; None if any number."""
    there: int = 0
    """How many hosts run already."""

    @property
    def limit(self) -> float | None:
        """The cores of all hosts that there may be; None if any number."""
        return None if self.most is None else max(self.most, self.there) * self.cores
