"""Images: what hosts are made from, and so which tags they offer."""

from dataclasses import dataclass

from merge.capacity import LEAST_FIGURE, refuse, wrong_figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A named set of tags, and what a host of it has and costs; registered by operators.

    Raises `ValueError` for figures that no host can have.
    """

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

    def __post_init__(self) -> None:
        """Refuse figures that no host can have."""
        wrong = [*wrong_figure("cores", self.cores, least=LEAST_FIGURE)]
        wrong += [*wrong_figure("start", self.start), *wrong_figure("price", self.price)]
        wrong += [] if self.most is None else [*wrong_figure("most", self.most, whole=True)]
        wrong += wrong_figure("there", self.there, whole=True)
        refuse(f"no image {self.name!r} can be", wrong)

    @property
    def limit(self) -> float | None:
        """The cores of all hosts that there may be; None if any number."""
        return None if self.most is None else max(self.most, self.there) * self.cores
