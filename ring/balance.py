"""Balance: where the machines' tokens should be, so that none has much more to do than the others.

**A host is at home at the machine that owns its point**, and hosts go home. The point stays as long as the host exists;
what moves is tokens.

- A new machine is placed behind all points that are used there, so that nothing moves because it came. Its own hosts
  then get points of its arc. One that was forgotten, and whose host others carry since, gets that back.
- A machine that is lost gets its hosts back once it is there again for a while; one that is forgotten leaves its points
  to its neighbour, and with them its hosts.
- Balance moves tokens until no machine could help another one any more. The hosts whose points have another owner then
  go home, one at a time. So going home cannot undo it.

Tokens are moved only while every host is at home, so no load counts that is at a machine for a while only.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ring.decision import may_have
from ring.fleet import Carriage, Fleet
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
        loads = dict.fromkeys(ring.tokens, 0.0)
        for point, load in self.loads.items():
            loads[ring.owner(point)] += load / self.size(ring.owner(point))
        return loads

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
    for moves in _ways_back(ring, machine):
        left = moves[-1].arc(machine)
        given = {point: load.loads[point] for point, far in own.items() if far >= left}
        if 0 < sum(given.values()) < room and all(load.may_own(neighbour, point) for point in given):
            return moves
    return ()


def _ways_back(ring: Ring, machine: str) -> Iterator[tuple[Ring, ...]]:
    """One move half-way back, two of them, and so on to a single point; then one by less and less of the arc."""
    moves: tuple[Ring, ...] = ()
    while (last := moves[-1] if moves else ring).arc(machine) > 1:
        moves += (last.relieved(machine),)
        yield moves
    part = 4
    while ring.arc(machine) // part:
        yield (ring.relieved(machine, part),)
        part *= 2


BURDENED = 1.3
"""So many times the mean load is too much for a machine."""
RELIEVED = 1.15
"""Up to so many times the mean load it is not any more."""
WORTH = 0.1
"""By such a part of the mean load the highest one has to fall, so that hosts are moved."""
IDLE = 0.1
"""A machine with less than such a part of its cores to do needs no relief."""
_NEARLY = 0.02
"""A ring is as good as the best one if its highest load is higher by such a part of the mean load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingTurn:
    """The ring from now on."""

    ring: Ring
    why: str = ""
    """Why hosts go elsewhere; empty if none does."""
    uneven_since: float | None = None
    """Since when loads are uneven, or were last found to be as even as can be; for the next decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the load is spread over the machines that can have hosts, each for its cores."""

    machine: str
    """The one with most to do."""
    highest: float
    mean: float

    @property
    def ratio(self) -> float:
        """The highest load over the mean one."""
        return self.highest / self.mean if self.mean else 1.0


def next_ring(carriages: Mapping[str, Carriage], fleet: Fleet, uneven_since: float | None = None) -> RingTurn:
    """The ring with all machines that are there, on which tokens were moved if that has been worth it for a while."""
    ring = fleet.ring
    for name, seen in sorted(fleet.machines.items()):
        if seen.alive and name not in ring.tokens:
            ring = joined(name, ring, carriages, fleet.loads)
    settled = {name for name, seen in fleet.machines.items() if seen.alive and fleet.settled(name)}
    able = settled & fleet.ring.tokens.keys() - fleet.draining
    if ring is not fleet.ring or not able or not _is_calm(carriages, fleet):
        return RingTurn(ring=ring)
    load = _load(carriages, fleet, able)
    now = _spread(ring, load, able)
    if now.highest < IDLE or now.ratio <= (BURDENED if uneven_since is None else RELIEVED):
        return RingTurn(ring=ring)
    since = fleet.now if uneven_since is None else uneven_since
    if fleet.now - since < fleet.settled_after:
        return RingTurn(ring=ring, uneven_since=since)
    after, then = _best(ring, load, able, now)
    if now.highest - then.highest < WORTH * now.mean:
        return RingTurn(ring=ring, uneven_since=fleet.now)
    homes = {host: after.owner(carriage.point) for host, carriage in sorted(carriages.items())}
    going = [f"{host} to {home}" for host, home in homes.items() if home != carriages[host].machine]
    why = (
        f"machine {now.machine} has {now.ratio:.2f} times the mean load; the highest will be {then.ratio:.2f} times, "
        f"once these hosts have moved: {', '.join(going)}"
    )
    return RingTurn(ring=after, why=why)


def joined(machine: str, ring: Ring, carriages: Mapping[str, Carriage], loads: Mapping[str, float]) -> Ring:
    """The ring with a new machine, behind the one with most to do, if that has several hosts.

    One that was forgotten, whose host others carry since, begins where that goes home to it.
    """
    if machine in carriages and ring.can_begin_at(point := carriages[machine].point):
        return ring.begun_at(machine, point, [carriage.point for carriage in carriages.values()])
    hosts: dict[str, list[float]] = {}
    for host, carriage in carriages.items():
        hosts.setdefault(ring.owner(carriage.point), []).append(loads.get(host, 0.0))
    several = {name: sum(own) for name, own in sorted(hosts.items()) if len(own) > 1 and any(own)}
    burdened = max(several, key=several.__getitem__, default="")
    return ring.joined(machine, burdened, [carriage.point for carriage in carriages.values()])


def _is_calm(carriages: Mapping[str, Carriage], fleet: Fleet) -> bool:
    """Whether no machine came a moment ago, and every host is at home, where it is wanted."""
    if not all(fleet.settled(name) for name, seen in fleet.machines.items() if seen.alive):
        return False
    return all(
        not carriage.heir
        and fleet.home(carriage) == carriage.machine
        and fleet.alive(carriage.machine, carriage.root)
        and carriage.machine not in fleet.draining
        for carriage in carriages.values()
    )


def _load(carriages: Mapping[str, Carriage], fleet: Fleet, able: Collection[str]) -> RingLoad:
    at: dict[int, list[Carriage]] = {}
    for carriage in carriages.values():
        at.setdefault(carriage.point, []).append(carriage)

    def may_own(machine: str, point: int) -> bool:
        return machine in able and all(
            may_have(machine, carriage, fleet) and fleet.suits(machine, carriage) for carriage in at[point]
        )

    return RingLoad(
        loads={point: sum(fleet.loads.get(carriage.host, 0.0) for carriage in there) for point, there in at.items()},
        # A machine that has just begun may not have counted its cores.
        sizes={name: max(1.0, seen.cores) for name, seen in fleet.machines.items()},
        may_own=may_own,
    )


def _spread(ring: Ring, load: RingLoad, able: Collection[str]) -> Spread:
    loads = load.of(ring)
    machine = max(sorted(able), key=loads.__getitem__)
    mean = sum(load.loads.values()) / sum(map(load.size, able))
    return Spread(machine=machine, highest=loads[machine], mean=mean)


def _best(ring: Ring, load: RingLoad, able: Collection[str], now: Spread) -> tuple[Ring, Spread]:
    """The first ring on the way that is nearly as good as the best one, so that few hosts move."""
    way = [(candidate, _spread(candidate, load, able)) for candidate in balancing(ring, load)]
    best = min(spread.highest for _, spread in way)
    return next((candidate, spread) for candidate, spread in way if spread.highest <= best + _NEARLY * now.mean)
