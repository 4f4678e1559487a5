"""Relief: how far tokens have to move so that no machine could help another one any more."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ring.tokens import RING_SIZE, Ring

MOST_BALANCING_STEPS = 1_000
"""The most steps of one balancing; it ends by itself long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLoad:
    """What there is to do at the points of a ring, and which machines can do how much of it."""

    loads: Mapping[int, float]
    """The load at each point with a host, 0 included."""
    sizes: Mapping[str, float] = field(default_factory=dict)
    """How much each machine can do, 1 if nothing is said."""
    may_own: Callable[[str, int], bool] = lambda _machine, _point: True
    """Whether a machine may be given a point with a host."""

    def of(self, ring: Ring) -> dict[str, float]:
        """The load of each machine for its size."""
        found = dict.fromkeys(ring.tokens, 0.0)
        for point, load in self.loads.items():
            found[ring.owner(point)] += load / self.size(ring.owner(point))
        return found

    def size(self, machine: str) -> float:
        """How much a machine can do."""
        return self.sizes.get(machine, 1.0)


def balancing(ring: Ring, load: RingLoad, steps: int = MOST_BALANCING_STEPS) -> tuple[Ring, ...]:
    """The rings from the first one to the one on which no machine can relieve another, by one moved token each.

    The machine with most to do is relieved by its neighbour if both then have less than it had. A neighbour that is
    full itself is relieved first, by the next one. So the highest loads only fall, and it ends.
    """
    rings = [ring]
    while len(rings) <= steps and len(ring.tokens) > 1:
        now = load.of(rings[-1])
        heads = sorted(now, key=lambda name: (-now[name], name))
        moves = next(filter(None, (_relief(rings[-1], head, load, now) for head in heads)), ())
        if not moves:
            break
        rings += moves
    return tuple(rings[: steps + 1])


def _relief(ring: Ring, machine: str, load: RingLoad, now: Mapping[str, float]) -> tuple[Ring, ...]:
    """The moves of the neighbour's token after which it and the machine both have less than the machine has now."""
    neighbour = ring.neighbour(machine)
    room = (now[machine] - now[neighbour]) * load.size(neighbour)
    begin, size = ring.tokens[machine], ring.arc(machine)
    own = {point: far for point in load.loads if (far := (point - begin) % RING_SIZE) < size}
    for moves in (*_half_way(ring, machine), *_less_than_half_way(ring, machine)):
        left = moves[-1].arc(machine)
        given = {point: load.loads[point] for point, far in own.items() if far >= left}
        if 0 < sum(given.values()) < room and all(load.may_own(neighbour, point) for point in given):
            return moves
    return ()


def _half_way(ring: Ring, machine: str) -> Iterator[tuple[Ring, ...]]:
    """One move half-way back, two of them, and so on, until the machine is left with a single point."""
    moves: tuple[Ring, ...] = ()
    while (moves[-1] if moves else ring).arc(machine) > 1:
        moves += ((moves[-1] if moves else ring).relieved(machine),)
        yield moves


def _less_than_half_way(ring: Ring, machine: str) -> Iterator[tuple[Ring, ...]]:
    """One move by a quarter of the arc, by an eighth of it, and so on."""
    part = 4
    while ring.arc(machine) // part:
        yield (ring.relieved(machine, part),)
        part *= 2
