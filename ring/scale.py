"""Scale: whether a machine should be added, or one that was added should go again. Pure.

A machine is added where cores are short, and one at a time is drained where the others can do its work with plenty to
spare. What calls for an addition is above `BUSY` of all cores, and after a removal they are below `SPARE`, so under a
constant load it comes to rest: no addition ever follows a removal. Each must be right for a while, and a rest follows
each, in which machines start and hosts move. Machines that operators started are left alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ring.decision import wanted
from ring.fleet import Carriage, Fleet

CROWDED = 0.7
"""The part of all cores from which on more are needed; no drained machine's work may fill another one beyond it."""
BUSY = 0.5
"""The part of all cores from which on they are to blame if jobs fall behind."""
SPARE = 0.4
"""The part of the cores that are left which jobs may take when one machine goes."""
_TIMES_LONGER = 5.0
"""How many times longer than for an addition a removal must be right, and the rest after each."""


class ScaleAct(StrEnum):
    """What is done about the number of machines."""

    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostScale:
    """A machine to add, or to drain and stop; made by `scaled`."""

    act: ScaleAct
    machine: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUse:
    """All that a decision on the number of machines considers."""

    carriages: Mapping[str, Carriage]
    fleet: Fleet
    """With the loads of hosts."""
    added: Mapping[str, float]
    """When each machine was added that was, and is not gone yet."""
    most: int
    """How many may be added."""
    kept: frozenset[str] = frozenset()
    """The added ones that may not go."""
    behind: tuple[str, ...] = ()
    """The jobs that have fallen behind."""

    @property
    def leaving(self) -> frozenset[str]:
        """The added machines that drain."""
        return self.fleet.draining & self.added.keys()

    @property
    def cores(self) -> float:
        """The cores of all machines that are there to stay."""
        return sum(map(self.cores_of, self.staying))

    @property
    def taken(self) -> float:
        """The cores that all jobs take."""
        return sum(self.fleet.loads.get(host, 0.0) for host in sorted(self.carriages))

    @property
    def staying(self) -> tuple[str, ...]:
        """The machines that are there and do not drain."""
        machines = sorted(self.fleet.machines.items())
        return tuple(name for name, seen in machines if seen.alive and name not in self.fleet.draining)

    @property
    def workers(self) -> tuple[str, ...]:
        """The added ones that do not report: they are workers of a cluster, whose cores other machines have."""
        return tuple(sorted(self.added.keys() - self.fleet.machines.keys() - self.fleet.draining))

    def cores_of(self, machine: str) -> float:
        """The cores of a machine; of a worker an equal part of all."""
        if machine in self.workers:
            return self.cores / (1 + len(self.workers))
        # A machine that has just begun may not have counted its cores.
        return max(1.0, self.fleet.machines[machine].cores)

    def cores_without(self, machine: str) -> float:
        """The cores that are left once a machine has gone; one that is away has none to lose."""
        is_there = machine in self.workers or machine in self.staying
        return self.cores - self.cores_of(machine) if is_there else self.cores

    def load_of(self, machine: str) -> float:
        """The cores that the hosts of a machine take."""
        return sum(
            self.fleet.loads.get(host, 0.0)
            for host, carriage in sorted(self.carriages.items())
            if carriage.machine == machine
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleState:
    """What is remembered from one decision to the next; made by `scaled`. Start with the empty one."""

    short_since: float | None = None
    """Since when cores or machines have been short without a break."""
    spare_since: float | None = None
    """Since when a machine could go without a break."""
    rest_until: float | None = None
    """Until when nothing is done; a leader that begins rests too, because it does not know what was done last."""


def scaled(before: ScaleState, use: FleetUse) -> tuple[ScaleState, HostScale | None]:
    """The state for the next decision, and what to do now, if anything."""
    now, hold = use.fleet.now, use.fleet.settled_after
    rest = hold * _TIMES_LONGER
    short, spare = _shortage(use), next(_removable(use), None)
    state = ScaleState(
        short_since=(now if before.short_since is None else before.short_since) if short else None,
        spare_since=(now if before.spare_since is None else before.spare_since) if spare and not short else None,
        rest_until=now + rest if before.rest_until is None else before.rest_until,
    )
    if state.rest_until is not None and now < state.rest_until:
        return state, None
    scale = None
    if short and _held(state.short_since, now, hold) and len(use.added) < use.most:
        scale = HostScale(act=ScaleAct.ADD, machine=free_name(use), why=f"{short}, for {hold:g} s")
    elif spare and not short and _held(state.spare_since, now, rest) and not use.leaving:
        why = (
            f"jobs take {use.taken:.2f} cores, no more than {SPARE:.0%} of the {use.cores_without(spare):g} that are "
            f"left without {spare}, which has {use.load_of(spare):.2f} to do, for {rest:g} s"
        )
        scale = HostScale(act=ScaleAct.REMOVE, machine=spare, why=why)
    return (state if scale is None else replace(state, rest_until=now + rest)), scale


def _shortage(use: FleetUse) -> str:
    """Why a machine should be added; empty if there is no reason."""
    cores = use.cores
    taken = f"jobs take {use.taken:.2f} of {cores:g} cores"
    if few := too_few(use):
        return few
    if cores and use.taken >= CROWDED * cores:
        return f"{taken}, {CROWDED:.0%} or more"
    if cores and use.taken >= BUSY * cores and use.behind:
        jobs = f"job {use.behind[0]} has" if len(use.behind) == 1 else f"jobs {', '.join(use.behind)} have"
        return f"{jobs} fallen behind, and {taken}, {BUSY:.0%} or more"
    return ""


def too_few(use: FleetUse) -> str:
    """Why the copies of hosts need a machine more; empty if they do not."""
    machines, copies = len(use.staying), use.fleet.replicas
    if not copies or machines > copies:
        return ""
    return f"there are {machines} machines, and {copies} copies of each host need {copies + 1}"


def _removable(use: FleetUse) -> Iterator[str]:
    """The added machines without which all that runs has plenty of room: the emptiest and newest first."""
    if use.behind:
        return
    order = sorted(
        use.added.keys() - use.fleet.draining - use.kept, key=lambda name: (use.load_of(name), -use.added[name], name)
    )
    for name in order:
        left = use.cores_without(name)
        if left > 0 and use.taken <= SPARE * left and fits_without(name, use):
            yield name


def fits_without(name: str, use: FleetUse, *, most: float = CROWDED) -> bool:
    """Whether each of its hosts would go to a machine with room for it, and copies would still have their machines.

    A host whose jobs take nothing has none, and may end.
    `most` is the part of a machine's cores that may be taken.
    """
    fleet = replace(use.fleet, draining=use.fleet.draining | {name})
    staying = [machine for machine in use.staying if machine != name]
    if use.fleet.replicas and name in use.staying and len(staying) <= use.fleet.replicas:
        return False
    loads = {machine: use.load_of(machine) for machine in staying}
    for host, carriage in sorted(use.carriages.items()):
        if carriage.machine == name and host in fleet.loads:
            to = wanted(carriage, fleet)
            if to not in loads or not fleet.suits(to, carriage):
                return False
            loads[to] += fleet.loads.get(host, 0.0)
            if loads[to] > most * use.cores_of(to):
                return False
    return True


def free_name(use: FleetUse) -> str:
    """The first name that no machine has, and whose host, if it is still there from before, would go home to it."""
    carriages, ring = use.carriages, use.fleet.ring
    used = {*use.added, *use.fleet.machines, *ring.tokens}
    used |= {host for host, carriage in carriages.items() if not ring.can_begin_at(carriage.point)}
    return next(name for number in range(1, len(used) + 2) if (name := f"added-{number}") not in used)


def _held(since: float | None, now: float, hold: float) -> bool:
    return since is not None and now - since >= hold
