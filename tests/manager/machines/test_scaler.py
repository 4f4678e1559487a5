"""The scaler: what is decided and committed, the operator's hook, and the processes of added machines."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from braid_client.answers.overview import OperationKind
from bridge.transport.address import Address
from manager.machines.scaler import HostProcesses, ScaleHook, Scaler, SupplyFailed
from manager.observations.reports import InstanceMeasured, JobSeen, MachineStatus, Measured
from manager.observations.sight import JobSight, Sight
from manager.settings import Autoscale
from manager.use_case import Paging
from ring.fleet import MachineSeen
from ring.tokens import Ring
from tests.integration.serving import runs
from tests.manager.machines.carriages import commit, turn
from tests.manager.managers import OPERATOR, Manager, leading
from tests.manager.process.test_keeper import until

HOLD = 60.0


@dataclass
class Supply:
    """What was asked of it; it fails as long as a test says so."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    failure: str = ""

    def start(self, machine: str, why: str) -> None:
        self._call("start", machine, why)

    def stop(self, machine: str, why: str) -> None:
        self._call("stop", machine, why)

    def end(self) -> None:
        """Nothing depends on it."""

    def _call(self, act: str, machine: str, why: str) -> None:
        assert why
        self.calls.append((act, machine))
        if self.failure:
            raise SupplyFailed(self.failure)

    def taken(self) -> list[tuple[str, str]]:
        """What was asked since the last time, once each."""
        found, self.calls = list(dict.fromkeys(self.calls)), []
        return found


class Scaling:
    """A scaler over a machine of two cores that carries a host with one job."""

    def __init__(self, manager: Manager, autoscale: Autoscale = Autoscale.ON, most: int = 1) -> None:
        self.manager = manager
        self.carriages = manager.tools.carriages
        self.supply = Supply()
        self.now = 1_000.0
        self.cores_taken = 0.0
        self.machines: set[str] = set()
        self.complete = True
        self.scaler = Scaler(
            manager.tools, self._sight, self.supply, autoscale=autoscale, most=most, clock=lambda: self.now
        )
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
            name: (MachineStatus(seen=MachineSeen(name=name, alive=True, root="shared", cores=2.0), secret=""),)
            for name in self.machines
        }
        self.manager.seen.every_machine = {name: status for name, (status,) in machines.items()}
        return Sight(complete=self.complete, connection=1, jobs={"1": JobSight(seen=job)}, machines=machines)

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
    assert {"added-1"} == scaling.carriages.fleet().added.keys()
    scaling.machines.discard("added-1")
    scaling.run(30, cores=0.5)
    assert not scaling.carriages.fleet().added
    assert {"local"} == scaling.carriages.fleet().tokens.keys()
    assert [
        OperationKind.ADD_MACHINE,
        OperationKind.REMOVE_MACHINE,
        OperationKind.TAKE_OVER,
        OperationKind.FORGET_MACHINE,
    ] == [kind for kind, _, _ in scaling.journal()]
    assert "jobs take 1.90 of 2 cores, 70% or more, for 60 s" == scaling.journal()[0][2]


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
    assert not scaling.carriages.fleet().added


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


def command(folder: Path, *lines: str) -> str:
    """A command that does these lines of shell."""
    path = folder / "scale hook.sh"
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(stat.S_IRWXU)
    return f"'{path}' here"


def test_it_is_called_once_for_each_change(tmp_path: Path) -> None:
    """With its own words first; what was done is not done again by the same manager."""
    said = tmp_path / "said"
    hook = ScaleHook(command(tmp_path, f"echo \"$1 $2 $3 $4\" >> '{said}'"))
    for _ in range(2):
        hook.start("added-1", "jobs need more")
    for _ in range(2):
        hook.stop("added-1", "jobs need fewer")
    hook.start("added-1", "again")
    hook.end()
    assert [
        "here add added-1 jobs need more",
        "here remove added-1 jobs need fewer",
        "here add added-1 again",
    ] == said.read_text().splitlines()


def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A process that it began may keep its output open."""
    pid = tmp_path / "pid"
    hook = ScaleHook(command(tmp_path, f"sleep 600 & echo $! > '{pid}'"))
    hook.start("added-1", "why")
    ScaleHook(f"sh -c 'kill {pid.read_text().strip()}'").stop("added-1", "why")


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    """An exit code with what it said, one that takes too long, and one that is not there; then it is tried again."""
    ready = tmp_path / "ready"
    hook = ScaleHook(command(tmp_path, f"test -e '{ready}' || {{ echo no quota left; exit 3; }}"))
    with pytest.raises(SupplyFailed, match=r"ended with 3 on add added-1: no quota left"):
        hook.start("added-1", "why")
    ready.touch()
    hook.start("added-1", "why")
    with pytest.raises(SupplyFailed, match=r"took more than 0\.1 s to add added-1 and was killed"):
        ScaleHook(command(tmp_path, "exec sleep 600"), patience=0.1).start("added-1", "why")
    with pytest.raises(SupplyFailed, match="cannot be run"):
        ScaleHook(str(tmp_path / "nowhere")).start("added-1", "why")


# Nothing listens there: a host waits until a broker does.
NOWHERE = Address.parse("mqtt://braid:secret@127.0.0.1:9")


def processes(root: Path, broker: Address = NOWHERE) -> HostProcesses:
    return HostProcesses(root, lambda: broker, master="local[1]", tags=("gpu",))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[HostProcesses]:
    made = processes(tmp_path)
    yield made
    made.end()


def found(name: str) -> set[psutil.Process]:
    """The commands that run a host of this name below this process."""
    below = psutil.Process().children(recursive=True)
    return {each for each in below if runs(each) and {"host", name} <= set(each.cmdline())}


@pytest.mark.full
@pytest.mark.spark
def test_a_machine_is_one_process_whichever_manager_looks(made: HostProcesses, tmp_path: Path) -> None:
    """It is started once; the next manager goes on with it; arguments do not show the broker's password."""
    made.start("added-1", "why")
    (process,) = found("added-1")
    log = tmp_path / "added" / "added-1.log"
    until(lambda: "host added-1 runs over" in log.read_text(), f"a host: {log.read_text()}")
    made.start("added-1", "why")
    following = processes(tmp_path)
    following.start("added-1", "why")
    assert {process} == found("added-1")
    assert not any("secret" in word for word in process.cmdline())
    assert {"--tag=gpu", "local[1]"} <= set(process.cmdline())
    following.stop("added-1", "why")
    following.stop("added-1", "why")
    assert set() == found("added-1")


@pytest.mark.full
@pytest.mark.spark
def test_one_that_was_ordered_otherwise_is_replaced(made: HostProcesses, tmp_path: Path) -> None:
    """A broker that moved has another address."""
    made.start("added-1", "why")
    (process,) = found("added-1")
    elsewhere = processes(tmp_path, Address.parse("mqtt://braid:secret@127.0.0.1:7"))
    elsewhere.start("added-1", "why")
    (other,) = found("added-1")
    assert process != other
    elsewhere.end()
    assert set() == found("added-1")


@pytest.mark.full
@pytest.mark.spark
def test_one_that_ended_by_itself_is_a_failure_first(made: HostProcesses) -> None:
    """It is said with where to look; the next attempt starts it again."""
    made.start("added-1", "why")
    (process,) = found("added-1")
    process.kill()
    until(lambda: not runs(process), "its end")
    with pytest.raises(SupplyFailed, match=r"ended with -9; see .*added-1\.log"):
        made.start("added-1", "why")
    made.start("added-1", "why")
    assert 1 == len(found("added-1"))
