"""The CPU time of a tree of processes between two looks: nothing counts twice, and nothing is negative."""

import psutil
import pytest

from engine.host.cpu_meter import Key, ProcessCpu, Tree, look, spent_between
from tests.clock import set_clock

ROOT, JVM, DAEMON, FIRST, SECOND = ((number, "") for number in range(1, 6))


def used(part: str, own: float, reaped: float = 0.0, parent: Key | None = ROOT) -> ProcessCpu:
    return ProcessCpu(part=part, parent=parent, own=own, reaped=reaped)


BEGUN: Tree = {
    ROOT: used("driver", 1.0, parent=None),
    JVM: used("jvm", 4.0, 0.5),
    DAEMON: used("worker", 0.5, 2.0, parent=JVM),
    FIRST: used("worker", 3.0, parent=DAEMON),
}
ROOT_LATER = {ROOT: used("driver", 1.5, parent=None)}
WITH_JVM = ROOT_LATER | {JVM: used("jvm", 4.0, 0.5)}


@pytest.mark.parametrize(
    ("ended", "spent"),
    [
        pytest.param(BEGUN, {"driver": 0.0, "jvm": 0.0, "worker": 0.0}, id="nothing was done"),
        pytest.param(
            WITH_JVM | {DAEMON: used("worker", 0.5, 2.0 + 3.5), SECOND: used("worker", 1.0, parent=DAEMON)},
            {"driver": 0.5, "jvm": 0.0, "worker": 1.5},
            id="a worker was reaped, and another began",
        ),
        pytest.param(
            WITH_JVM | {DAEMON: used("worker", 0.5, 2.0), SECOND: used("worker", 1.0, parent=DAEMON)},
            {"driver": 0.5, "jvm": 0.0, "worker": 1.0},
            id="nobody reaped a worker",
        ),
        pytest.param(
            ROOT_LATER | {JVM: used("jvm", 4.0, 0.5 + 6.0)},
            {"driver": 0.5, "jvm": 0.5},
            id="the daemon was reaped, and its worker by the daemon",
        ),
        pytest.param(WITH_JVM, {"driver": 0.5, "jvm": 0.0}, id="nobody reaped the daemon, nor its worker"),
        pytest.param(
            ROOT_LATER | {JVM: used("jvm", 5.0, 0.75), DAEMON: BEGUN[DAEMON], FIRST: BEGUN[FIRST]},
            {"driver": 0.5, "jvm": 1.25, "worker": 0.0},
            id="commands came and went between the looks",
        ),
    ],
)
def test_cpu_time_counts_once(ended: Tree, spent: dict[str, float]) -> None:
    """The earlier time of an ended process does not count when it is reaped; one that is not reaped takes none away."""
    assert spent == dict(spent_between(BEGUN, ended))


def test_setting_the_clock_uses_no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier time of a process does not count again after the clock was set."""

    def looked() -> Tree:
        return look(psutil.Process(), "driver", lambda _child, _parent, part: part)

    begun = looked()
    set_clock(monkeypatch, by=3_600.0)
    assert sum(spent_between(begun, looked()).values()) < sum(used.own for used in begun.values()) / 2
