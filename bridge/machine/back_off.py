"""Back-off: how long to wait before something that failed is tried again."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class BackOff:
    """The waits after the first failure in a row, the second and so on, in seconds. The last wait repeats.

    >>> back_off = BackOff((1.0, 5.0, 60.0))
    >>> [back_off.after(failures) for failures in range(5)]
    [0.0, 1.0, 5.0, 60.0, 60.0]
    """

    waits: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.waits or any(wait < 0 for wait in self.waits):
            raise ValueError(f"{self.waits} is no back-off; give at least one wait, and none below 0")

    @classmethod
    def doubling(cls, first: float, *, longest: float) -> Self:
        """Waits that double up to a longest one.

        >>> BackOff.doubling(10.0, longest=60.0).waits
        (10.0, 20.0, 40.0, 60.0)
        """
        if not 0 < first <= longest:
            raise ValueError(f"the first wait is {first}; give one above 0, and at most {longest}")
        waits = [first]
        while waits[-1] < longest:
            waits.append(min(2 * waits[-1], longest))
        return cls(tuple(waits))

    @property
    def longest(self) -> float:
        """The wait that repeats."""
        return self.waits[-1]

    def after(self, failures: int) -> float:
        """The wait after so many failures in a row; 0 after none."""
        return self.waits[min(failures, len(self.waits)) - 1] if failures > 0 else 0.0
