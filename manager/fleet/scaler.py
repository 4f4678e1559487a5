"""The scaler: has machines added and removed by the leading manager, and sees to those that were.

What is decided is committed first, with its reason. Then each look does what is still to be done for the added
machines: start those that should run, stop those that are empty, forget those that are gone. So whatever is interrupted
goes on at the next look, or with the next manager.
"""

import logging
import time
from collections.abc import Callable, Mapping

from manager.answers import OperationKind
from manager.carriages.committed import CommittedFleet
from manager.carriages.machine_watch import MachineWatch
from manager.cases.runtime.machines import Machines
from manager.cases.tools import Tools
from manager.committer.rows import SERVICE
from manager.defragmentation.autoscale import Autoscale
from manager.fleet.supply import MachineSupply, SupplyFailed
from manager.observations.figures import figures_of
from manager.observations.host_loads import host_loads
from manager.observations.machine_messages import MachineStatus
from manager.observations.sight import Sight
from manager.problem import Conflict, StateNotReady
from ring.fleet import SETTLED_AFTER, Fleet
from ring.scale import FleetUse, HostScale, ScaleAct, ScaleState, scaled
from ring.tokens import Ring

FALLEN_BEHIND = 10.0
"""Seconds that events may wait for a job, besides its pace, before it has fallen behind."""
_PACES = 1.5
"""Paces that an event waits for its batch at most, besides."""
_AGAIN_AFTER = 300.0
"""Seconds after which what failed is tried again."""
log = logging.getLogger("braid.fleet")


class Scaler:
    """One manager's; one thread looks."""

    def __init__(  # noqa: PLR0913 - what is committed and heard, what starts machines, and three settings
        self,
        tools: Tools,
        sight: Callable[[], Sight],
        supply: MachineSupply,
        *,
        autoscale: Autoscale,
        most: int,
        settled_after: float = SETTLED_AFTER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sight` is what was heard so far. `most` is how many machines may be added."""
        self._tools = tools
        self._sight = sight
        self._supply = supply
        self._autoscale = autoscale
        self._most = most
        self._settled_after = settled_after
        self._clock = clock
        self._machines = Machines(tools)
        self._watch = MachineWatch()
        self._state = ScaleState()
        self._said: HostScale | None = None
        """What was only said, as long as it is still found."""
        self._again: dict[str, float] = {}
        """When what failed is tried again, by machine."""

    def look(self) -> None:
        """Decide, commit, and do what is due."""
        sight = self._sight()
        if not sight.complete or not self._tools.committer.leads:
            self._state = ScaleState()
            return
        now, fleet = self._clock(), self._tools.carriages.fleet()
        machines = self._tools.admission.admitted(sight.machines, fleet)
        if self._autoscale is not Autoscale.OFF:
            self._decide(self._use(fleet, machines, sight, now))
            fleet = self._tools.carriages.fleet()
        for name in sorted(fleet.added):
            self._see_to(name, fleet, machines, now)

    def _use(self, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], sight: Sight, now: float) -> FleetUse:
        seen = self._watch.take(machines, sight.connection, fleet.named, now)
        jobs = [each.seen for each in sight.jobs.values() if each.seen is not None]
        with self._tools.committer.looking() as state:
            paces = {str(job): plan.pace for job, plan in state.plans.items()}
        behind = [
            each.job
            for each in jobs
            if each.job in paces
            and (figures_of(each.measured, now).lag_seconds or 0.0) > FALLEN_BEHIND + _PACES * paces[each.job]
        ]
        return FleetUse(
            carriages=fleet.carriages,
            fleet=Fleet(
                machines=seen.machines,
                ring=Ring(fleet.tokens),
                replicas=self._tools.replicas,
                draining=fleet.draining,
                now=now,
                lost_since=seen.lost_since,
                alive_since=seen.alive_since,
                settled_after=self._settled_after,
                loads=host_loads(jobs, now),
            ),
            added=fleet.added,
            most=self._most,
            behind=tuple(sorted(behind, key=int)),
        )

    def _decide(self, use: FleetUse) -> None:
        self._state, found = scaled(self._state, use)
        if self._state.short_since is self._state.spare_since is None:
            self._said = None
        if found is None:
            return
        if self._autoscale is Autoscale.PREVIEW:
            # Nothing changes by that, so the same is found again after each rest.
            if self._said is None or (self._said.act, self._said.machine) != (found.act, found.machine):
                self._tools.carriages.note(_PREVIEWED[found.act], found.machine, found.why)
                log.info("would %s machine %s: %s", found.act, found.machine, found.why)
            self._said = found
        elif found.act is ScaleAct.ADD:
            self._tools.carriages.add(found.machine, found.why)
            log.info("machine %s is added: %s", found.machine, found.why)
        else:
            self._tools.carriages.take_back(found.machine, found.why)
            log.info("machine %s is removed: %s", found.machine, found.why)

    def _see_to(self, name: str, fleet: CommittedFleet, machines: Mapping[str, MachineStatus], now: float) -> None:
        if now < self._again.get(name, now):
            return
        is_alive = name in machines and machines[name].seen.alive
        try:
            if name not in fleet.draining:
                self._supply.start(name, "jobs need more cores")
            elif name in fleet.named:
                # Until others have its hosts, and the copies that it keeps, it has to run.
                self._supply.start(name, "others do not have its hosts yet")
            else:
                self._supply.stop(name, "jobs need fewer cores")
                if not is_alive:
                    self._machines.leave(name, who=SERVICE)
        except SupplyFailed as error:
            self._again[name] = now + _AGAIN_AFTER
            log.warning("machine %s: %s; tried again in %g s", name, error, _AGAIN_AFTER)
            self._tools.carriages.note(OperationKind.SCALING_FAILS, name, str(error))
        except (Conflict, StateNotReady) as error:
            log.debug("machine %s is not forgotten yet: %s", name, error)


_PREVIEWED = {
    ScaleAct.ADD: OperationKind.WOULD_ADD_MACHINE,
    ScaleAct.REMOVE: OperationKind.WOULD_REMOVE_MACHINE,
}
