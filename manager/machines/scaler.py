"""The scaler: has machines added and removed by the leading manager, and sees to those that were.

What is decided is committed first, with its reason. Then each look does what is still to be done for the added
machines: start those that should run, stop those that are empty, forget those that are gone. So whatever is
interrupted goes on at the next look, or with the next manager.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from braid_client.answers.overview import OperationKind
from dags.problems import listed
from manager.kernel.draft import SERVICE
from manager.machines.admission import MachineWatch
from manager.machines.carriages import CommittedCarriages, CommittedFleet
from manager.machines.provisions import INTERVAL, FleetChange, LoadRule, Provisioner
from manager.machines.rentals import cheapest, rented
from manager.machines.supplies import Supplies, SupplyFailed
from manager.machines.use_cases import Machines
from manager.observations.figures import figures_of, host_loads, needed_cores
from manager.observations.reports import JobSeen, MachineStatus
from manager.observations.sight import Sight
from manager.problem import Conflict, StateNotReady
from manager.settings import Autoscale, ProvisionAlgorithm
from manager.use_case import Tools
from merge import Image
from provisioning.figures import MachineClass
from ring.fleet import SETTLED_AFTER
from ring.scale import FleetUse, ScaleAct, free_name

FALLEN_BEHIND = 10.0
"""Seconds that events may wait for a job, besides its pace, before it has fallen behind."""
_PACES = 1.5
"""Paces that an event waits for its batch at most, besides."""
_SLOW = 0.8
"""The part of its class' speed below which a machine is slow."""
_AGAIN_AFTER = 300.0
"""Seconds after which what failed is tried again."""
log = logging.getLogger("braid.fleet")


class MachineNeeds:
    """The classes of machines that submissions need, of which the scaler starts one each. Any thread may call it."""

    def __init__(self, carriages: CommittedCarriages, autoscale: Autoscale) -> None:
        self._carriages = carriages
        self._autoscale = autoscale
        self._lock = threading.Lock()
        self._wanted: dict[str, frozenset[str]] = {}
        """The tags that a machine of each class is wanted for."""

    def order(self, lacking: Collection[frozenset[str]], images: Iterable[Image]) -> str:
        """Have a machine started for each of these sets of tags, unless one is on its way; see `DecisionGround`."""
        if self._autoscale is Autoscale.OFF:
            return ""
        fleet, known = self._carriages.fleet(), {image.name: image.tags for image in images}
        there = [rental.machine_class for name, rental in fleet.rentals.items() if name not in fleet.draining]
        wanted: dict[str, frozenset[str]] = {}
        kinds: dict[str, MachineClass] = {}
        for tags in lacking:
            kind = next((kind for kind in there if tags <= kind.tags.union(known.get(kind.image, ()))), None)
            if kind is None:
                kind = cheapest(fleet.classes, fleet.rentals.values(), tags, known)
                if kind is None:
                    return ""
                wanted[kind.name] = tags
            kinds[kind.name] = kind
        with self._lock:
            self._wanted |= wanted
        if self._autoscale is Autoscale.PREVIEW:
            return ""
        said = (f"of class {name} in about {kind.start_seconds:.0f} s" for name, kind in sorted(kinds.items()))
        return f"no host offers what it needs; machines are started, {', '.join(said)}; send it again then"

    def take(self) -> Mapping[str, frozenset[str]]:
        """What is wanted since the last call: the tags by class."""
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        return wanted


class Scaler:
    """Adds and removes machines of one manager; one thread looks."""

    def __init__(  # noqa: PLR0913 - what is committed and heard, what starts machines, three settings, and clocks
        self,
        tools: Tools,
        sight: Callable[[], Sight],
        supplies: Supplies,
        needs: MachineNeeds,
        *,
        autoscale: Autoscale,
        algorithm: ProvisionAlgorithm = ProvisionAlgorithm.HORIZON,
        settled_after: float = SETTLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`sight` is what was heard so far."""
        self._tools = tools
        self._sight = sight
        self._supplies = supplies
        self._needs = needs
        self._autoscale = autoscale
        self._settled_after = settled_after
        self._clock = clock
        self._wall = wall
        self._missed: set[int] = set()
        """The rentals that are late, and were said to be."""
        self._machines = Machines(tools)
        self._watch = MachineWatch()
        self._rule = (
            LoadRule()
            if algorithm is ProvisionAlgorithm.REACTIVE
            else Provisioner(tools, algorithm, autoscale=autoscale, settled_after=settled_after)
        )
        self._previewed: tuple[ScaleAct, str] | None = None
        """The last decision that was only previewed, as long as it stays the same."""
        self._retry_at: dict[str, float] = {}
        """When what failed is tried again, by machine."""

    def look(self) -> None:
        """Decide, commit, and do what is due."""
        sight = self._sight()
        if not sight.complete or not self._tools.committer.leads:
            self._rule.forget()
            return
        now, fleet = self._clock(), self._tools.carriages.fleet()
        machines = self._tools.admission.admitted(sight.machines, fleet)
        self._welcome(fleet, machines)
        if self._autoscale is not Autoscale.OFF:
            use = self._use(fleet, machines, sight, now)
            self._decide(fleet, use, needed_cores(_jobs(sight), use.behind, now, INTERVAL))
        fleet = self._tools.carriages.fleet()
        for name in sorted(fleet.rentals):
            self._see_to(name, fleet, machines, now)

    def _welcome(self, fleet: CommittedFleet, machines: Mapping[str, MachineStatus]) -> None:
        """Note which rented machines have come, and which are late or slower than others of their class."""
        for name, rental in sorted(fleet.rentals.items()):
            if rental.ready is not None:
                continue
            took, kind, is_late = self._wall() - rental.since, rental.machine_class, rental.is_given_up(self._wall())
            usual = f"one of class {kind.name} takes {kind.start_seconds:.0f} s"
            if name in machines and machines[name].seen.alive:
                seen, known = machines[name].seen, fleet.classes.get(kind.name)
                self._tools.carriages.come(rental, seen.speed)
                if is_late:
                    self._note(OperationKind.MACHINE_LATE, name, f"it came after {took:.0f} s; {usual}")
                if seen.speed is not None and known and known.measured and seen.speed < _SLOW * known.speed:
                    why = f"its speed is {seen.speed:.2f}, and that of class {kind.name} {known.speed:.2f}"
                    self._note(OperationKind.MACHINE_SLOW, name, why)
            elif is_late and rental.number not in self._missed:
                self._missed.add(rental.number)
                why = f"it has not reported for {took:.0f} s, as a worker of a cluster never does; {usual}"
                self._note(OperationKind.MACHINE_LATE, name, why)

    def _note(self, kind: OperationKind, machine: str, why: str) -> None:
        self._tools.carriages.note(kind, machine, why)
        log.warning("%s: %s: %s", kind, machine, why)

    def _use(self, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], sight: Sight, now: float) -> FleetUse:
        seen, there = self._watch.take(machines, sight.connection, fleet.named, now), rented(fleet.rentals.values())
        jobs = _jobs(sight)
        with self._tools.committer.looking() as state:
            paces = {str(job): plan.pace for job, plan in state.plans.items()}
        lags = {job.job: figures_of(job.measured, now).lag_seconds or 0.0 for job in jobs if job.job in paces}
        behind = [job for job, lag in lags.items() if lag > FALLEN_BEHIND + _PACES * paces[job]]
        return FleetUse(
            carriages=fleet.carriages,
            fleet=fleet.with_seen(
                replace(seen, loads=host_loads(jobs, now)),
                replicas=self._tools.replicas,
                settled_after=self._settled_after,
            ),
            added={name: rental.since for name, rental in fleet.rentals.items()},
            most=len(fleet.rentals) + (cheapest(fleet.classes, fleet.rentals.values()) is not None),
            kept=frozenset(
                name
                for name, rental in fleet.rentals.items()
                if there[rental.machine_class.name] <= rental.machine_class.least
            ),
            behind=tuple(sorted(behind, key=int)),
        )

    def _decide(self, fleet: CommittedFleet, use: FleetUse, need: float) -> None:
        due = self._rule.due(fleet, use, need, self._wall())
        change = self._demanded(fleet) or due
        if change is None:
            if self._rule.is_idle:
                self._previewed = None
            return
        machine, kind = change.machine or free_name(use), fleet.classes.get(change.machine_class)
        why = change.why if kind is None else f"{change.why}; class {kind.name}, at {kind.price:g} an hour"
        if self._autoscale is Autoscale.PREVIEW:
            # Nothing changes by that, so the same is decided again after each rest.
            if self._previewed != (change.act, machine):
                self._tools.carriages.note(_PREVIEWED[change.act], machine, why)
                log.info("would %s machine %s: %s", change.act, machine, change.why)
            self._previewed = change.act, machine
        elif change.act is ScaleAct.REMOVE:
            self._tools.carriages.take_back(machine, why)
            log.info("machine %s is removed: %s", machine, change.why)
        elif kind is not None:
            self._tools.carriages.add(machine, kind, why)
            log.info("machine %s of class %s is added: %s", machine, kind.name, change.why)

    def _demanded(self, fleet: CommittedFleet) -> FleetChange | None:
        """A machine that there has to be whatever the load: of a class with too few, or that a submission needs."""
        there = rented(fleet.rentals.values())
        for name, kind in sorted(fleet.classes.items()):
            if there[name] < kind.least:
                why = f"there are always {kind.least} machines of class {name}, or more"
                return FleetChange(act=ScaleAct.ADD, machine_class=name, why=why)
        # Only one machine is added at a look; the others are asked for again.
        for name, tags in self._needs.take().items():
            needed = fleet.classes.get(name)
            if needed is not None and (needed.most is None or there[name] < needed.most):
                why = f"a dataflow needs {listed(sorted(tags)) if tags else 'a host'}, and there is none with it"
                return FleetChange(act=ScaleAct.ADD, machine_class=name, why=why)
        return None

    def _see_to(self, name: str, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], now: float) -> None:
        kind = fleet.classes.get(fleet.rentals[name].machine_class.name)
        # One of a class that is not stored any more is left alone until it is.
        if kind is None or now < self._retry_at.get(name, now):
            return
        supply = self._supplies[kind.supply]
        is_alive = name in machines and machines[name].seen.alive
        try:
            if name not in fleet.draining:
                supply.start(name, kind, "jobs need more cores")
            elif name in fleet.named:
                # Until others have its hosts, and the copies that it keeps, it has to run.
                supply.start(name, kind, "others do not have its hosts yet")
            else:
                supply.stop(name, kind, "jobs need fewer cores")
                if not is_alive:
                    self._machines.leave(name, who=SERVICE)
        except SupplyFailed as error:
            self._retry_at[name] = now + _AGAIN_AFTER
            log.warning("machine %s: %s; tried again in %g s", name, error, _AGAIN_AFTER)
            self._tools.carriages.note(OperationKind.SCALING_FAILS, name, str(error))
        except (Conflict, StateNotReady) as error:
            log.debug("machine %s is not forgotten yet: %s", name, error)


def _jobs(sight: Sight) -> list[JobSeen]:
    return [job_sight.seen for job_sight in sight.jobs.values() if job_sight.seen is not None]


_PREVIEWED = {ScaleAct.ADD: OperationKind.WOULD_ADD_MACHINE, ScaleAct.REMOVE: OperationKind.WOULD_REMOVE_MACHINE}
