"""A run: one seed's machines and faults, played until all is well again, and the judgement of it."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain

from tests.simulation.machines.faults import Faults
from tests.simulation.machines.machine import Machine
from tests.simulation.machines.world import Trouble, World

FAULTY = (40.0, 40.0, 130.0)
"""For so long things fail; in the longest, hosts go home meanwhile."""
LONGEST = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a seed led to."""

    world: World
    together: tuple[int, ...]
    """How many machines were lost at once, each time."""
    trouble: str
    """Empty if all went well."""


def played(seed: int, make: type[Machine] = Machine) -> Run:
    """The run of a seed, up to its first trouble, or to its end."""
    world = World(seed, make)
    faults = Faults(world)
    try:
        _play(world, faults)
        missing = unfinished(world)
        trouble = f"it never happens that {missing}" if missing else damage(world)
    except Trouble as found:
        trouble = f"at {world.now:.1f}: {found}"
    return Run(world=world, together=tuple(faults.together), trouble=trouble)


def _play(world: World, faults: Faults) -> None:
    faulty = world.numbers.choice(FAULTY)
    while world.now < faulty:
        world.pass_on(world.numbers.choice([0.05, 0.2, 0.5]))
        faults.strike()
        if world.numbers.random() < 0.3:
            world.send()
        for host in world.sources:
            world.check(host)
    faults.heal()
    while unfinished(world) and world.now < LONGEST:
        world.pass_on(0.5)
    if len(world.sources) > len(world.machines) and not unfinished(world):
        _balance(world, faults)


def _balance(world: World, faults: Faults) -> None:
    """All is calm, loads are uneven and stay so: hosts move until that does not help any more, and then stay."""
    faults.forget()
    faults.skew()
    begun, before, until = world.now, len(world.turns), world.now + 3 * min(world.settled_after, 10) + 10
    while world.now < until or (unfinished(world) and world.now < begun + LONGEST):
        world.pass_on(0.5)
    balances = [at for at, _ in world.balances if at > begun]
    moved = Counter(turn.carriage.host for _, turn in world.turns[before:] if "released" in turn.why)
    # Hosts of forgotten machines have a new home, and go there once.
    if any(each > len(balances) + 1 for each in moved.values()):
        raise Trouble(f"hosts move to and fro: {moved}, after {len(balances)} balances")


def unfinished(world: World) -> str:
    """What has not come about yet, though all that still exist are well."""
    there = set(world.machines) - world.gone
    for host, source in world.sources.items():
        carriage = world.database.carriages.get(host)
        machine = carriage and world.machines[carriage.machine]
        carrier = machine.carriers.get(host) if machine else None
        if carriage is None or carrier is None or carrier.order != carriage or not carrier.running:
            return f"{host} is carried"
        if carriage.machine in world.draining and there - world.draining:
            return f"{host} leaves {carriage.machine}, which drains"
        if carriage.heir or len(carriage.kept_by) < min(
            world.replicas, len(there - world.draining - {carriage.machine})
        ):
            return f"{host} has all its copies"
        home = world.database.ring.owner(carriage.point)
        if home in there - world.draining and carriage.machine != home:
            return f"{host} is at home"
        if source.unacknowledged or carrier.files.unread() or carrier.waiting:
            return f"all events of {host} are worked off"
    return ""


def damage(world: World) -> str:
    """What anybody outside misses in the end."""
    for host, outputs in world.outputs.items():
        if list(range(1, len(outputs) + 1)) != sorted(outputs):
            return f"outputs of {host} are missing: there are {sorted(outputs)}"
        if lost := world.acks[host] - set(chain.from_iterable(outputs.values())):
            return f"acknowledged events of {host} are lost: {sorted(lost)}"
    return ""
