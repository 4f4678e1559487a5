"""Processes of added machines: started once, found by the next manager, replaced if ordered otherwise, and stopped."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bridge.transport.address import Address
from manager.machines.scaler import HostProcesses, SupplyFailed
from tests.integration.serving import runs
from tests.manager.process.test_keeper import until

pytestmark = [pytest.mark.full, pytest.mark.spark]

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
