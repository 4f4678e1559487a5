"""Tokens: the machines' places on a ring, which can be moved.

Each machine has a token, and owns the points from its token up to the next one, clockwise. The copies of what it owns
are at the machines that follow it, so the machine that takes something over already has it: when a machine leaves, its
neighbour clockwise moves its token back to where the other's was. Likewise, a neighbour that moves its token half-way
back relieves a machine that has too much to do; `ring.balance` has how far it does.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

RING_SIZE = 2**32


def point_of(name: str) -> int:
    """A point for a name, which is the same everywhere."""
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

    def joined(self, machine: str, relieves: str = "", points: Collection[int] = ()) -> "Ring":
        """The ring with a new machine, behind one that has too much to do, by default the one with most room.

        It gets half of the arc behind the last of the points that are used there, so it owns none of them at first,
        unless there is no such place on the whole ring.
        """
        if machine in self.tokens:
            raise ValueError(f"machine {machine} is on the ring already")
        if not self.tokens:
            return Ring({machine: point_of(machine)})
        used = {name: self._used(name, points)[-1] for name in self._order()}
        room = {name: self.arc(name) - used[name] for name in used}
        if max(room.values()) < 2:  # noqa: PLR2004  nothing can be halved but arcs with hosts
            used, room = dict.fromkeys(used, 0), {name: self.arc(name) for name in used}
        before = relieves if room.get(relieves, 0) > 1 else max(room, key=room.__getitem__)
        return Ring({**self.tokens, machine: (self.tokens[before] + used[before] + room[before] // 2) % RING_SIZE})

    def can_begin_at(self, point: int) -> bool:
        """Whether a new machine can own a point without taking others: it is the token of its owner."""
        owner = self.owner(point)
        return bool(owner) and self.tokens[owner] == point and self.arc(owner) > 1

    def begun_at(self, machine: str, point: int, points: Collection[int]) -> "Ring":
        """The ring with a new machine at a point where it can begin; its owner keeps all others that are used."""
        owner = self.owner(point)
        far = self._used(owner, points)
        back = far[1] if len(far) > 1 else max(1, self.arc(owner) // 2)
        return Ring({**self.tokens, machine: point, owner: (point + back) % RING_SIZE})

    def free_point(self, machine: str, points: Collection[int]) -> int:
        """A point of a machine for a new host: its token, or else the middle of the largest gap between those used."""
        token, used = self.tokens[machine], self._used(machine, points)
        if token not in points:
            return token
        first, last = max(pairwise([*used, self.arc(machine)]), key=lambda pair: pair[1] - pair[0])
        return (token + (first + last) // 2) % RING_SIZE

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

    def _used(self, machine: str, points: Collection[int]) -> list[int]:
        """How far the used points of a machine are from its token, which always counts as one."""
        token, size = self.tokens[machine], self.arc(machine)
        return sorted({0, *(far for point in points if (far := (point - token) % RING_SIZE) < size)})

    def _order(self) -> list[str]:
        return sorted(self.tokens, key=self.tokens.__getitem__)
