"""Supplies: the commands of classes, and the processes of added machines."""

import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from braid_client.answers.machines import SupplyKind
from bridge.transport.address import Address
from manager.machines.rentals import SuppliedClass
from manager.machines.supplies import COMMAND_FOLDER, HostProcesses, SupplyCommands, SupplyFailed
from tests.integration.serving import runs
from tests.manager.process.test_keeper import until

RENTED = SuppliedClass(name="rented", cores=8, price=1.0, supply=SupplyKind.COMMAND, command="rent")
HERE = SuppliedClass(name="here", cores=1, price=0.0, tags=frozenset({"gpu"}), nice=5)


def commands(root: Path, *lines: str, patience: float = 60.0) -> SupplyCommands:
    """Commands of classes, with one that does these lines of shell."""
    path = root / COMMAND_FOLDER / "rent"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    path.chmod(stat.S_IRWXU)
    return SupplyCommands(root, patience=patience)


def test_it_is_called_once_for_each_change(tmp_path: Path) -> None:
    """With its own words first; what was done is not done again by the same manager."""
    said = tmp_path / "said"
    supply = commands(tmp_path, f"echo \"$1 $2 $3 $4\" >> '{said}'")
    for _ in range(2):
        supply.start("added-1", RENTED, "jobs need more")
    for _ in range(2):
        supply.stop("added-1", RENTED, "jobs need fewer")
    supply.start("added-1", RENTED, "again")
    supply.end()
    assert [
        "add added-1 rented jobs need more",
        "remove added-1 rented jobs need fewer",
        "add added-1 rented again",
    ] == said.read_text().splitlines()


def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A process that it began may keep its output open."""
    pid = tmp_path / "pid"
    commands(tmp_path, f"sleep 600 & echo $! > '{pid}'").start("added-1", RENTED, "why")
    psutil.Process(int(pid.read_text())).kill()


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    """An exit code with what it said, one that takes too long, and one that is not there; then it is tried again."""
    ready = tmp_path / "ready"
    supply = commands(tmp_path, f"test -e '{ready}' || {{ echo no quota left; exit 3; }}")
    with pytest.raises(SupplyFailed, match=r"ended with 3 on add added-1: no quota left"):
        supply.start("added-1", RENTED, "why")
    ready.touch()
    supply.start("added-1", RENTED, "why")
    with pytest.raises(SupplyFailed, match=r"took more than 0\.1 s to add added-1 and was killed"):
        commands(tmp_path, "exec sleep 600", patience=0.1).start("added-1", RENTED, "why")
    with pytest.raises(SupplyFailed, match="cannot be run"):
        SupplyCommands(tmp_path / "nowhere").start("added-1", RENTED, "why")


# Nothing listens there: a host waits until a broker does.
NOWHERE = Address.parse("mqtt://braid:secret@127.0.0.1:9")


def processes(root: Path, broker: Address = NOWHERE) -> HostProcesses:
    return HostProcesses(root, lambda: broker)


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
    """It is started once, as its class says; the next manager goes on with it; arguments do not show a password."""
    made.start("added-1", HERE, "why")
    (process,) = found("added-1")
    log = tmp_path / "added" / "added-1.log"
    until(lambda: "host added-1 runs over" in log.read_text(), f"a host: {log.read_text()}")
    made.start("added-1", HERE, "why")
    following = processes(tmp_path)
    following.start("added-1", HERE, "why")
    assert {process} == found("added-1")
    assert not any("secret" in word for word in process.cmdline())
    assert {"--tag=gpu", "local[1]"} <= set(process.cmdline())
    assert min(19, psutil.Process().nice() + 5) == process.nice()
    following.stop("added-1", HERE, "why")
    following.stop("added-1", HERE, "why")
    assert set() == found("added-1")


@pytest.mark.full
@pytest.mark.spark
def test_one_that_was_ordered_otherwise_is_replaced(made: HostProcesses, tmp_path: Path) -> None:
    """A broker that moved has another address."""
    made.start("added-1", HERE, "why")
    (process,) = found("added-1")
    elsewhere = processes(tmp_path, Address.parse("mqtt://braid:secret@127.0.0.1:7"))
    elsewhere.start("added-1", HERE, "why")
    (other,) = found("added-1")
    assert process != other
    elsewhere.end()
    assert set() == found("added-1")


@pytest.mark.full
@pytest.mark.spark
def test_one_that_ended_by_itself_is_a_failure_first(made: HostProcesses) -> None:
    """It is said with where to look; the next attempt starts it again."""
    made.start("added-1", HERE, "why")
    (process,) = found("added-1")
    process.kill()
    until(lambda: not runs(process), "its end")
    with pytest.raises(SupplyFailed, match=r"ended with -9; see .*added-1\.log"):
        made.start("added-1", HERE, "why")
    made.start("added-1", HERE, "why")
    assert 1 == len(found("added-1"))
