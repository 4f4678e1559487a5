"""What a tree of processes spent between two looks: nothing twice, and nothing less than nothing."""

import psutil
import pytest

from engine.host.process_tree import Key, ProcessCpu, Tree, look, spent_between
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
def test_what_was_spent_counts_once(ended: Tree, spent: dict[str, float]) -> None:
    """What the dead had used before is not counted when they are reaped, and who is not reaped takes none away."""
    assert spent == dict(spent_between(BEGUN, ended))


def test_setting_the_clock_spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process used before is not counted once more after the clock was set."""

    def looked() -> Tree:
        return look(psutil.Process(), "driver", lambda _child, _parent, part: part)

    begun = looked()
    set_clock(monkeypatch, by=3_600.0)
    assert sum(spent_between(begun, looked()).values()) < sum(used.own for used in begun.values()) / 2
