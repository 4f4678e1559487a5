"""Tokens: the machines' places on a ring, which can be moved.

Each machine has a token, and owns the points from its token up to the next one, clockwise. The copies of what it owns
are at the machines that follow it, so the machine that takes something over already has it: when a machine leaves, its
neighbour clockwise moves its token back to where the other's was. Likewise, a neighbour that moves its token half-way
back relieves a machine that has too much to do.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

RING_SIZE = 2**32
MOST_BALANCING_STEPS = 1_000
"""The most steps of one balancing; it ends by itself long before."""


def point_of(name: str) -> int:
    """The point of a host, and the first token of the machine of its name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class Ring:
    """Machines in the order of their tokens; no two have the same one."""

    tokens: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.tokens.values())) < len(self.tokens):
            raise ValueError(f"two machines have the same token: {dict(self.tokens)}; give each one of its own")
        if any(not 0 <= token < RING_SIZE for token in self.tokens.values()):
            raise ValueError(f"a token is not on the ring: {dict(self.tokens)}; choose it from 0 to {RING_SIZE - 1}")

    def including(self, names: Iterable[str]) -> "Ring":
        """The ring with these machines too; a new one begins at the point of its name, or the next free one."""
        tokens = dict(self.tokens)
        for name in sorted(set(names) - set(tokens)):
            taken = set(tokens.values())
            token = point_of(name)
            while token in taken:
                token = (token + 1) % RING_SIZE
            tokens[name] = token
        return Ring(tokens)

    def owner(self, point: int) -> str:
        """The machine whose token is the nearest one at or before a point; empty if there is no machine."""
        order = self._order()
        if not order:
            return ""
        return order[bisect_right([self.tokens[name] for name in order], point % RING_SIZE) - 1]

    def clockwise(self, machine: str) -> tuple[str, ...]:
        """The other machines, from the one after this one; one that is not on the ring stands at its name's point."""
        begin = self.tokens.get(machine, point_of(machine))
        others = (name for name in self.tokens if name != machine)
        return tuple(sorted(others, key=lambda name: (self.tokens[name] - begin) % RING_SIZE))

    def neighbour(self, machine: str) -> str:
        """The next machine clockwise; the machine itself if it is alone."""
        return next(iter(self.clockwise(machine)), machine)

    def next_machines(
        self, machine: str, zones: Mapping[str, str], count: int, *, taken: Collection[str] = ()
    ) -> tuple[str, ...]:
        """The machines that should keep copies, clockwise: first of other zones than those so far, then any.

        Only machines in `zones` are chosen. `taken` are zones that have a copy already, beside the machine's own.
        """
        left = [name for name in self.clockwise(machine) if name in zones]
        seen = {*taken, *([zones[machine]] if machine in zones else [])}
        chosen: list[str] = []
        while left and len(chosen) < count:
            best = next((name for name in left if zones[name] not in seen), left[0])
            left.remove(best)
            chosen.append(best)
            seen.add(zones[best])
        return tuple(chosen)

    def arc(self, machine: str) -> int:
        """How many points a machine owns."""
        return (self.tokens[self.neighbour(machine)] - self.tokens[machine]) % RING_SIZE or RING_SIZE

    def joined(self, machine: str, relieves: str = "") -> "Ring":
        """The ring with a new machine half-way in the arc of one that has too much to do, by default the largest."""
        if machine in self.tokens:
            raise ValueError(f"machine {machine} is on the ring already")
        if not self.tokens:
            return Ring({machine: point_of(machine)})
        before = relieves or max(self._order(), key=self.arc)
        half = self.arc(before) // 2
        if not half:
            raise ValueError(f"machine {before} owns a single point, so nothing of it can be given to {machine}")
        return Ring({**self.tokens, machine: (self.tokens[before] + half) % RING_SIZE})

    def left(self, machine: str) -> "Ring":
        """The ring without a machine; its neighbour, which has copies of what it owned, takes its token."""
        others = {name: token for name, token in self.tokens.items() if name != machine}
        if others and machine in self.tokens:
            others[self.neighbour(machine)] = self.tokens[machine]
        return Ring(others)

    def relieved(self, machine: str, part: int = 2) -> "Ring":
        """The ring with the neighbour's token moved half-way back to a machine, or by a smaller part of its arc."""
        if part < 2:  # noqa: PLR2004  the half is the most
            raise ValueError(f"a token moves half-way back at most, not by 1/{part}")
        neighbour = self.neighbour(machine)
        if neighbour == machine:
            return self
        back = (self.tokens[neighbour] - self.arc(machine) // part) % RING_SIZE
        return replace(self, tokens={**self.tokens, neighbour: back})

    def _order(self) -> list[str]:
        return sorted(self.tokens, key=self.tokens.__getitem__)


def machine_loads(ring: Ring, loads: Mapping[int, float]) -> dict[str, float]:
    """The load of each machine, by the loads measured at points."""
    order = sorted(ring.tokens, key=ring.tokens.__getitem__)
    tokens = [ring.tokens[name] for name in order]
    found = dict.fromkeys(ring.tokens, 0.0)
    for point, load in loads.items():
        found[order[bisect_right(tokens, point % RING_SIZE) - 1]] += load
    return found


def balancing(ring: Ring, loads: Mapping[int, float], steps: int = MOST_BALANCING_STEPS) -> tuple[Ring, ...]:
    """The rings from the first one to the one on which no machine can relieve another, by one moved token each.

    The machine with most to do is relieved by its neighbour if both then have less than it had. A neighbour that is
    full itself is relieved first, by the next one. So the highest loads only fall, and it ends.
    """
    rings = [ring]
    while len(rings) <= steps and len(ring.tokens) > 1:
        now = machine_loads(rings[-1], loads)
        heads = sorted(now, key=lambda name: (-now[name], name))
        moves = next(filter(None, (_relief(rings[-1], head, loads, now) for head in heads)), ())
        if not moves:
            break
        rings += moves
    return tuple(rings[: steps + 1])


def _relief(ring: Ring, machine: str, loads: Mapping[int, float], now: Mapping[str, float]) -> tuple[Ring, ...]:
    """The moves of the neighbour's token after which it and the machine both have less than the machine has now."""
    room = now[machine] - now[ring.neighbour(machine)]
    begin, size = ring.tokens[machine], ring.arc(machine)
    own = [((point - begin) % RING_SIZE, load) for point, load in loads.items() if (point - begin) % RING_SIZE < size]
    for moves in (*_half_way(ring, machine), *_less_than_half_way(ring, machine)):
        left = moves[-1].arc(machine)
        if 0 < sum(load for distance, load in own if distance >= left) < room:
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
