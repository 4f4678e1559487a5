"""The scaler: what is decided and committed, by classes of machines."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from braid_client.answers.jobs import ImageForm
from braid_client.answers.machines import MachineClassForm, SupplyKind
from braid_client.answers.overview import OperationKind
from manager.machines.rentals import SuppliedClass
from manager.machines.scaler import MachineNeeds, Scaler
from manager.machines.supplies import SupplyFailed
from manager.observations.reports import InstanceMeasured, JobSeen, MachineStatus, Measured
from manager.observations.sight import JobSight, Sight
from manager.problem import InvalidDataflow, StateNotReady
from manager.settings import Autoscale, ProvisionAlgorithm
from manager.use_case import Paging
from merge import Host
from ring.fleet import MachineSeen
from ring.tokens import Ring
from tests.manager.machines.carriages import commit, turn
from tests.manager.managers import OPERATOR, Manager, leading

HOLD = 60.0


@dataclass
class Supply:
    """What was asked of it; it fails as long as a test says so."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    failure: str = ""
    kinds: dict[str, str] = field(default_factory=dict)
    """The class of each machine."""

    def start(self, machine: str, kind: SuppliedClass, why: str) -> None:
        self._call("start", machine, kind, why)

    def stop(self, machine: str, kind: SuppliedClass, why: str) -> None:
        self._call("stop", machine, kind, why)

    def end(self) -> None:
        """Nothing depends on it."""

    def _call(self, act: str, machine: str, kind: SuppliedClass, why: str) -> None:
        assert why
        self.kinds[machine] = kind.name
        self.calls.append((act, machine))
        if self.failure:
            raise SupplyFailed(self.failure)

    def taken(self) -> list[tuple[str, str]]:
        """What was asked since the last time, once each."""
        found, self.calls = list(dict.fromkeys(self.calls)), []
        return found


class Scaling:
    """A scaler over a machine of two cores that carries a host with one job."""

    def __init__(
        self,
        manager: Manager,
        autoscale: Autoscale = Autoscale.ON,
        algorithm: ProvisionAlgorithm = ProvisionAlgorithm.REACTIVE,
        **classes: Any,
    ) -> None:
        self.manager = manager
        self.carriages = manager.tools.carriages
        self.supply = Supply()
        self.now = 1_000.0
        self.ahead = 0.0
        """Seconds that the clock of its machines is ahead, to have them come late."""
        self.speed = 1.25
        self.cores_taken = 0.0
        self.machines: set[str] = set()
        self.complete = True
        self.needs = MachineNeeds(self.carriages, autoscale)
        manager.committer.ground = replace(manager.committer.ground, order=self.needs.order)
        self.scaler = Scaler(
            manager.tools,
            self._sight,
            {SupplyKind.PROCESS: self.supply, SupplyKind.COMMAND: self.supply},
            self.needs,
            autoscale=autoscale,
            algorithm=algorithm,
            clock=lambda: self.now,
            wall=lambda: time.time() + self.ahead,
        )
        for name, figures in (classes or {"small": {"price": 0.1}}).items():
            manager.service.machine_classes.put(OPERATOR, name, MachineClassForm(**figures))
        self.machines.add("local")
        if not self.carriages.fleet().carriages:
            self.come("local")

    def _sight(self) -> Sight:
        measured = tuple(
            Measured(at=at, batch=0, instances={1: InstanceMeasured(cpu_ns=int(at * self.cores_taken * 1e9))})
            for at in (self.now - 10, self.now)
        )
        job = JobSeen(job="1", host="local", state="running", measured=measured, seen=datetime.now(UTC))
        machines = {
            name: (
                MachineStatus(
                    seen=MachineSeen(name=name, alive=True, root="shared", cores=2.0, speed=self.speed), secret=""
                ),
            )
            for name in self.machines
        }
        self.manager.seen.every_machine = {name: status for name, (status,) in machines.items()}
        return Sight(complete=self.complete, connection=1, jobs={"1": JobSight(seen=job)}, machines=machines)

    def _status(self, name: str) -> MachineStatus:
        seen = MachineSeen(name=name, alive=True, root="shared", cores=2.0, speed=self.speed)
        return MachineStatus(seen=seen, secret="")

    def come(self, name: str) -> None:
        """Have a machine come, which begins with its host."""
        self.machines.add(name)
        fleet = self.carriages.fleet()
        ring = Ring(fleet.tokens).joined(name, points=[each.point for each in fleet.carriages.values()])
        commit(self.carriages, turn(name, name, root="shared", point=ring.tokens[name]), tokens=dict(ring.tokens))

    def hand_over(self, host: str, machine: str) -> None:
        """Have a host carried by another machine, as the keeper of carriages does once it is empty."""
        point = self.carriages.fleet().carriages[host].point
        commit(self.carriages, turn(host, machine, root="shared", point=point))

    def run(self, seconds: float, cores: float) -> None:
        self.cores_taken = cores
        for _ in range(int(seconds / 10)):
            self.now += 10
            self.scaler.look()

    def journal(self) -> list[tuple[OperationKind, str, str]]:
        """The entries about added machines, oldest first."""
        entries = self.manager.service.operations.page(OPERATOR, Paging()).items
        return [(each.kind, each.subject, each.note) for each in reversed(entries) if each.subject.startswith("added")]


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite)


def test_a_wave_adds_a_machine_that_is_emptied_stopped_and_forgotten(manager: Manager) -> None:
    """It is stopped only once others carry its hosts, and forgotten once it is gone; the journal has the reasons."""
    scaling = Scaling(manager)
    scaling.run(7 * HOLD, cores=1.9)
    assert [("start", "added-1")] == scaling.supply.taken()
    scaling.come("added-1")
    scaling.run(20 * HOLD, cores=0.5)
    assert [("start", "added-1")] == scaling.supply.taken()
    assert {"added-1"} == scaling.carriages.fleet().draining
    scaling.hand_over("added-1", "local")
    scaling.run(10, cores=0.5)
    assert [("stop", "added-1")] == scaling.supply.taken()
    assert {"added-1"} == scaling.carriages.fleet().rentals.keys()
    scaling.machines.discard("added-1")
    scaling.run(30, cores=0.5)
    assert not scaling.carriages.fleet().rentals
    assert {"local"} == scaling.carriages.fleet().tokens.keys()
    assert [
        OperationKind.ADD_MACHINE,
        OperationKind.REMOVE_MACHINE,
        OperationKind.TAKE_OVER,
        OperationKind.FORGET_MACHINE,
    ] == [kind for kind, _, _ in scaling.journal()]
    assert "jobs take 1.90 of 2 cores, 70% or more, for 60 s; class small, at 0.1 an hour" == scaling.journal()[0][2]


def test_a_worker_that_never_reports_is_removed_without_a_drain(manager: Manager) -> None:
    """It carries nothing, so it is stopped and forgotten at once when it is not needed any more."""
    scaling = Scaling(manager)
    scaling.run(7 * HOLD, cores=1.9)
    scaling.run(20 * HOLD, cores=0.2)
    assert [("start", "added-1"), ("stop", "added-1")] == scaling.supply.taken()
    assert not scaling.carriages.fleet().known - {"local"}


def test_previews_are_said_once_and_change_nothing(manager: Manager) -> None:
    """The journal has what would be done, and again only after it was not right for a while."""
    scaling = Scaling(manager, Autoscale.PREVIEW)
    scaling.run(40 * HOLD, cores=1.9)
    assert [OperationKind.WOULD_ADD_MACHINE] == [kind for kind, _, _ in scaling.journal()]
    scaling.run(10 * HOLD, cores=0.9)
    scaling.run(40 * HOLD, cores=1.9)
    assert [OperationKind.WOULD_ADD_MACHINE] * 2 == [kind for kind, _, _ in scaling.journal()]
    assert [] == scaling.supply.taken()
    assert not scaling.carriages.fleet().rentals


def test_off_decides_nothing_and_keeps_what_was_added(manager: Manager) -> None:
    """Jobs may run there; an operator who drains it has it stopped."""
    Scaling(manager).run(7 * HOLD, cores=1.9)
    off = Scaling(manager, Autoscale.OFF)
    off.run(40 * HOLD, cores=0.0)
    assert [("start", "added-1")] == off.supply.taken()
    off.carriages.drain("added-1", draining=True, who="operator")
    off.run(10, cores=0.0)
    assert [("stop", "added-1")] == off.supply.taken()


def test_a_failure_is_noted_and_tried_again_later(manager: Manager) -> None:
    """Once in five minutes, each time with what went wrong."""
    scaling = Scaling(manager)
    scaling.supply.failure = "the cloud is away"
    scaling.run(6 * HOLD, cores=1.9)
    assert 1 == len(scaling.supply.calls)
    scaling.run(4 * HOLD, cores=1.9)
    assert 1 == len(scaling.supply.calls)
    scaling.run(2 * HOLD, cores=1.9)
    assert 2 == len(scaling.supply.calls)
    assert [(OperationKind.SCALING_FAILS, "added-1", "the cloud is away")] * 2 == scaling.journal()[1:]


def test_nothing_is_done_before_everything_has_come(manager: Manager) -> None:
    """Neither by a manager that has not heard of all machines yet, nor by one that does not lead."""
    scaling = Scaling(manager)
    scaling.complete = False
    scaling.run(40 * HOLD, cores=1.9)
    assert [] == scaling.supply.calls
    scaling.complete = True
    manager.committer.step_down()
    scaling.run(40 * HOLD, cores=1.9)
    assert [] == scaling.supply.calls


def test_the_cheapest_class_for_its_power_is_taken_first(manager: Manager) -> None:
    """Of each there are no more than there may be; a class that always has machines keeps them."""
    scaling = Scaling(
        manager,
        small={"price": 0.2, "most": 2},
        large={"cores": 4, "price": 0.4},
        steady={"price": 9.0, "least": 1},
    )
    scaling.run(10, cores=0.1)
    assert {"added-1": "steady"} == scaling.supply.kinds
    scaling.come("added-1")
    scaling.run(40 * HOLD, cores=8.0)
    assert {"added-1": "steady", "added-2": "large", "added-3": "small", "added-4": "small"} == scaling.supply.kinds
    (first, *_) = scaling.journal()
    assert "there are always 1 machines of class steady, or more; class steady, at 9 an hour" == first[2]
    scaling.run(40 * HOLD, cores=0.0)
    assert {"added-1"} == scaling.carriages.fleet().rentals.keys() - scaling.carriages.fleet().draining


def test_without_a_class_nothing_is_added(manager: Manager) -> None:
    """However much there is to do."""
    scaling = Scaling(manager)
    manager.service.machine_classes.remove(OPERATOR, "small")
    scaling.run(40 * HOLD, cores=1.9)
    assert [] == scaling.journal()


def test_a_machine_that_has_come_says_how_long_its_class_takes(manager: Manager) -> None:
    """By the mean of those that came; the class keeps what it was given until then."""
    scaling = Scaling(manager, small={"start_seconds": 600.0})
    assert 600.0 == scaling.carriages.fleet().classes["small"].start_seconds
    scaling.run(7 * HOLD, cores=1.9)
    assert scaling.carriages.fleet().rentals["added-1"].ready is None
    scaling.come("added-1")
    scaling.run(10, cores=1.9)
    fleet = scaling.carriages.fleet()
    rental = fleet.rentals["added-1"]
    assert rental.ready is not None
    assert pytest.approx(rental.ready - rental.since) == fleet.classes["small"].start_seconds
    assert (1.25, 1.25, 1.25) == (rental.speed, rental.power, fleet.classes["small"].speed)
    (answer,) = manager.service.machine_classes.page(OPERATOR, Paging()).items
    assert (True, 1.25, ("added-1",)) == (answer.measured, answer.speed, answer.machines)


def test_machines_that_are_late_or_slow_are_said_to_be(manager: Manager) -> None:
    """Once each: one that has not come, the same once it comes, and one that is slower than those before it."""
    scaling = Scaling(manager, small={"start_seconds": 30.0, "least": 2, "most": 2})
    scaling.run(20, cores=0.1)
    scaling.come("added-1")
    scaling.run(10, cores=0.1)
    scaling.ahead, scaling.speed = 100.0, 0.5
    scaling.run(30, cores=0.1)
    late = [("machine late", "added-2", "it has not reported for 100 s, as a worker of a cluster never does")]
    assert late == [entry for entry in beginnings(scaling) if "machine l" in entry[0]]
    scaling.come("added-2")
    scaling.run(30, cores=0.1)
    assert [
        (OperationKind.MACHINE_LATE, "added-2", "it came after 100 s"),
        (OperationKind.MACHINE_SLOW, "added-2", "its speed is 0.50, and that of class small 1.25"),
    ] == beginnings(scaling)[-2:]


def beginnings(scaling: Scaling) -> list[tuple[str, str, str]]:
    """The journal with the first part of each reason; seconds above a hundred are those that this test took."""
    entries = ((kind, name, why.partition(";")[0]) for kind, name, why in scaling.journal())
    return [(kind, name, re.sub(r"\b1\d\d s\b", "100 s", why)) for kind, name, why in entries]


def test_a_submission_has_a_machine_started_that_offers_what_it_needs(manager: Manager) -> None:
    """By tags of a class or of its image, once however often it is sent; what no class offers is refused as before."""
    manager.admit("ann")
    manager.register("weather")
    manager.hosts = (Host(name="plain", cores=8.0),)
    manager.service.images.put(OPERATOR, "cuda", ImageForm(tags=frozenset({"gpu"})))
    scaling = Scaling(manager, plain={}, card={"image": "cuda", "price": 2.0})
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source > a:map[gpu] > b:count[fpga] > k:sink")
    scaling.run(20, cores=0.1)
    assert {} == scaling.supply.kinds
    for _ in range(3):
        with pytest.raises(StateNotReady, match="machines are started, of class card in about 60 s; send it again"):
            manager.submit("ann", "s:source > a:map[gpu] > k:sink")
        scaling.run(20, cores=0.1)
    assert {"added-1": "card"} == scaling.supply.kinds
    assert "a dataflow needs 'gpu', and there is none with it; class card, at 2 an hour" == scaling.journal()[0][2]


@pytest.mark.parametrize(
    ("autoscale", "said"), [(Autoscale.OFF, []), (Autoscale.PREVIEW, [OperationKind.WOULD_ADD_MACHINE])]
)
def test_nothing_is_started_for_a_submission_unless_the_service_scales(
    manager: Manager, autoscale: Autoscale, said: list[OperationKind]
) -> None:
    """It is refused as without classes; a preview says in the journal what would be started."""
    manager.admit("ann")
    manager.register("weather")
    manager.hosts = (Host(name="plain", cores=8.0),)
    scaling = Scaling(manager, autoscale, card={"tags": {"gpu"}})
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source > a:map[gpu] > k:sink")
    scaling.run(20, cores=0.1)
    assert {} == scaling.supply.kinds
    assert said == [kind for kind, _, _ in scaling.journal()]
