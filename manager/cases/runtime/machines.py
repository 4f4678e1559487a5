"""The use cases of machines: list them with the hosts that they carry, drain them, and forget them."""

import time
from collections.abc import Iterable, Mapping

from manager.answers import CarriedHostAnswer, MachineAnswer, Page
from manager.carriages.committed import CommittedFleet
from manager.carriages.departure import departure
from manager.carriages.standings import HostStanding, standings
from manager.cases.base import Base, Caller, Paging, operators_only, paged
from manager.observations.host_loads import host_loads
from manager.problem import Conflict, NotFound, StateNotReady
from ring.carriage import MachineSeen
from ring.tokens import RING_SIZE, Ring


class Machines(Base):
    """Machines; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[MachineAnswer]:
        """The machines, by name."""
        operators_only(caller)
        found = [each for each in self._all() if each.name > (paging.after or "")]
        return paged(found[: paging.limit + 1], paging.limit, cursor=lambda each: each.name, answer=lambda each: each)

    def drain(self, caller: Caller, machine: str) -> MachineAnswer:
        """Have a machine give up all hosts that it carries, and take none; idempotent."""
        return self._drain(caller, machine, draining=True)

    def undrain(self, caller: Caller, machine: str) -> MachineAnswer:
        """Let a machine take hosts again; idempotent."""
        return self._drain(caller, machine, draining=False)

    def forget(self, caller: Caller, machine: str) -> MachineAnswer:
        """Forget a machine that is gone for good, with the hosts that nobody needs; the machine as it was."""
        operators_only(caller)
        found = self._found(machine)
        if self._seeing.misses_machines():
            raise StateNotReady("not all machines have been heard yet that may be alive; ask again in a moment", 5.0)
        seen = {name: status.seen for name, status in self._seeing.machines().items()}
        # As long as this is looked at, no job begins on any host.
        with self._committer.looking() as state:
            jobs: dict[str, list[str]] = {}
            for job, plan in state.plans.items():
                jobs.setdefault(plan.host, []).append(str(job))
            leaving = departure(machine, self._tools.carriages.fleet(), seen, jobs)
            if leaving.refusal:
                raise Conflict(leaving.refusal)
            self._tools.carriages.forget(machine, ending=leaving.ending, who=caller.who)
        self._committer.notify()
        return found

    def _drain(self, caller: Caller, machine: str, *, draining: bool) -> MachineAnswer:
        operators_only(caller)
        self._found(machine)
        self._tools.carriages.drain(machine, draining=draining, who=caller.who)
        return self._found(machine)

    def _found(self, machine: str) -> MachineAnswer:
        found = next((each for each in self._all() if each.name == machine), None)
        if found is None:
            raise NotFound("machine", machine)
        return found

    def _all(self) -> list[MachineAnswer]:
        committed = self._tools.carriages.fleet()
        machines = {name: status.seen for name, status in self._seeing.machines().items()}
        safe = standings(committed, machines, replicas=self._tools.replicas)
        names = machines.keys() | committed.known
        loads = self._loads()
        return [_answer(name, committed, machines, safe, loads) for name in sorted(names)]

    def _loads(self) -> dict[str, float]:
        with self._committer.looking() as state:
            jobs = [str(job) for job in state.plans]
        return host_loads(filter(None, map(self._seeing.job, jobs)), time.monotonic())


def _answer(
    name: str,
    committed: CommittedFleet,
    machines: Mapping[str, MachineSeen],
    safe: Iterable[HostStanding],
    loads: Mapping[str, float],
) -> MachineAnswer:
    safe, ring = tuple(safe), Ring(committed.tokens)
    known = name in machines
    seen = machines.get(name, MachineSeen(name=name, alive=False))
    here = [each.carriage.host for each in safe if each.carriage.machine == name]
    same = [each.name for each in machines.values() if each.name != name and seen.root and each.root == seen.root]
    return MachineAnswer(
        name=name,
        alive=seen.alive,
        draining=name in committed.draining,
        zone=seen.zone,
        shares_root_with=tuple(sorted(same)),
        takes_copies=seen.alive and bool(seen.at),
        at=seen.at,
        cores=seen.cores if known else None,
        share=ring.arc(name) / RING_SIZE if name in ring.tokens else None,
        load=sum(found) if (found := [loads[host] for host in here if host in loads]) else None,
        tags=tuple(sorted(seen.tags)),
        hosts=tuple(_carried(each, ring, loads) for each in safe if each.carriage.host in here),
        keeps=tuple(each.carriage.host for each in safe if name in each.carriage.kept_by),
    )


def _carried(standing: HostStanding, ring: Ring, loads: Mapping[str, float]) -> CarriedHostAnswer:
    carriage = standing.carriage
    return CarriedHostAnswer(
        name=carriage.host,
        home=ring.owner(carriage.point),
        load=loads.get(carriage.host),
        heir=carriage.heir,
        peers=carriage.peers,
        kept_by=tuple(sorted(carriage.kept_by)),
        standby=standing.standby,
        behind_bytes=standing.behind_bytes,
        under_replicated=standing.under_replicated,
        stays=standing.stays,
    )
