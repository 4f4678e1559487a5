"""What capacities cost: the cores that machines offer, the cheapest of so much power, and the next smaller ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provisioning.algorithms.core_kinds import CoreKind, Counts, kinds_of
from provisioning.dataflow_figures import DataflowFigures
from provisioning.machine_class import MachineClass

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Smaller:
    """The next smaller capacity of a task."""

    counts: Counts
    lost: float
    """Power."""
    saved: float
    """Price."""


class CoreMenu:
    """What capacities cost: kinds of cores, by the tags that a task needs."""

    def __init__(self, classes: Sequence[MachineClass]) -> None:
        """Offer what the classes have."""
        self.classes = tuple(classes)
        self.kinds: tuple[CoreKind, ...] = kinds_of(classes)
        self.prices = tuple(kind.least_price for kind in self.kinds)
        self.speeds = tuple(kind.speed for kind in self.kinds)
        self.power_price = min(price / speed for price, speed in zip(self.prices, self.speeds, strict=True))
        """The lowest price of a reference core by the hour."""
        self._fitting: dict[frozenset[str], tuple[int, ...]] = {}
        self._smaller: dict[tuple[frozenset[str], Counts], _Smaller | None] = {}

    def cover(self, tags: frozenset[str], power: float) -> tuple[float, int, int, int]:
        """The price of the cheapest cores of so much power; so many of one kind, and the kind of one more, or -1."""
        best: tuple[float, int, int, int] | None = None
        fitting = self._offering(tags)
        for kind in fitting:
            whole = int(power / self.speeds[kind] + _ROUNDING)
            rest = power - whole * self.speeds[kind]
            price, last = whole * self.prices[kind], -1
            if rest > _ROUNDING or not whole:
                last = min(
                    (one for one in fitting if self.speeds[one] >= rest - _ROUNDING), key=self.prices.__getitem__
                )
                price += self.prices[last]
            if best is None or price < best[0] - _ROUNDING:
                best = price, whole, kind, last
        if best is None:
            raise ValueError(f"no class of machines offers {', '.join(sorted(tags)) or 'a core'}; add one")
        return best

    def counts(self, tags: frozenset[str], power: float) -> Counts:
        """The cheapest cores of so much power."""
        _, whole, kind, last = self.cover(tags, power)
        return tuple(whole * (at == kind) + (at == last) for at in range(len(self.kinds)))

    def power(self, counts: Counts) -> float:
        """What so many cores do."""
        return sum(count * speed for count, speed in zip(counts, self.speeds, strict=True))

    def price(self, counts: Counts) -> float:
        """What so many cores cost at least."""
        return sum(count * price for count, price in zip(counts, self.prices, strict=True))

    def smaller(self, tags: frozenset[str], counts: Counts) -> _Smaller | None:
        """One core less, or a cheaper one in its place, whichever loses least power; None if nothing is to be saved."""
        key = tags, counts
        if key not in self._smaller:
            options = [one for one in self._less(tags, counts) if one.saved > _ROUNDING]
            self._smaller[key] = min(options, key=lambda one: (one.lost, -one.saved), default=None)
        return self._smaller[key]

    def _offering(self, tags: frozenset[str]) -> tuple[int, ...]:
        if tags not in self._fitting:
            self._fitting[tags] = tuple(at for at, kind in enumerate(self.kinds) if tags <= kind.tags)
        return self._fitting[tags]

    def _less(self, tags: frozenset[str], counts: Counts) -> Iterator[_Smaller]:
        for kind, count in enumerate(counts):
            if not count:
                continue
            without = (*counts[:kind], count - 1, *counts[kind + 1 :])
            if sum(without):
                yield _Smaller(counts=without, lost=self.speeds[kind], saved=self.prices[kind])
            for other in self._offering(tags):
                if self.speeds[other] < self.speeds[kind]:
                    yield _Smaller(
                        counts=(*without[:other], without[other] + 1, *without[other + 1 :]),
                        lost=self.speeds[kind] - self.speeds[other],
                        saved=self.prices[kind] - self.prices[other],
                    )


def menus(dataflow: DataflowFigures, classes: Sequence[MachineClass]) -> Iterator[CoreMenu]:
    """All classes, and, if a core is cheapest only on a machine that is full, also some of them."""
    kinds = kinds_of(classes)
    yield CoreMenu(classes)
    if all(kind.linear for kind in kinds):
        return
    wanted = {task.tags for task in dataflow.tasks}
    without = [tuple(other for other in kinds if other is not kind) for kind in kinds]
    for some in dict.fromkeys((*without, *((kind,) for kind in kinds))):
        if all(any(tags <= kind.tags for kind in some) for tags in wanted):
            yield CoreMenu([one for kind in some for one in kind.classes])
