"""The CPU time of a host by role, and of a tree of processes between two looks."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.host.cpu_meter import CpuMeter, Key, ProcessCpu, Tree, look, spent_between
from engine.spark.programs import SERVER_MODULE
from tests.clock import set_clock

BURN = "import time\nwhile time.process_time() < 0.3: pass"
JVM = f"""while read line; do {sys.executable} -c '{BURN}'; echo done; done"""
DRIVER = """
import subprocess, sys
subprocess.Popen([sys.argv[1], "-c", sys.argv[2]]).wait()
"""


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A shell under the name of a JVM."""
    path = tmp_path / "java"
    path.symlink_to("/bin/sh")
    return path


def test_commands_count_for_the_jvm_that_ran_them(java: Path) -> None:
    """They end before they are seen, and there are some in every batch."""
    command = [sys.executable, "-c", DRIVER, str(java), JVM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        assert process.stdin is not None
        assert process.stdout is not None
        metering = CpuMeter(process.pid)
        measured = []
        for _ in range(2):
            process.stdin.write("\n")
            process.stdin.flush()
            assert "done\n" == process.stdout.readline()
            measured.append(metering.cpu())
        process.stdin.close()
    assert [["driver", "jvm"]] * 2 == [sorted(each) for each in measured]
    assert measured[0]["jvm"] >= 0.25
    assert measured[1]["jvm"] - measured[0]["jvm"] >= 0.25


def test_workers_that_a_server_forks_are_workers() -> None:
    """Although the server is a child of the driver, and not of the JVM."""
    burns = f"import sys, subprocess; subprocess.run([sys.executable, '-c', {BURN!r}])"
    server = f"{burns}; print('done', flush=True); input()"
    driver = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]]).wait()"
    command = [sys.executable, "-c", driver, server, SERVER_MODULE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own command
        assert process.stdin is not None
        assert process.stdout is not None
        metering = CpuMeter(process.pid)
        assert "done\n" == process.stdout.readline()
        measured = metering.cpu()
        process.communicate("\n")
    assert measured["worker"] >= 0.25


ROOT, DRIVERS_JVM, DAEMON, FIRST, SECOND = ((number, "") for number in range(1, 6))


def used(part: str, own: float, reaped: float = 0.0, parent: Key | None = ROOT) -> ProcessCpu:
    return ProcessCpu(part=part, parent=parent, own=own, reaped=reaped)


BEGUN: Tree = {
    ROOT: used("driver", 1.0, parent=None),
    DRIVERS_JVM: used("jvm", 4.0, 0.5),
    DAEMON: used("worker", 0.5, 2.0, parent=DRIVERS_JVM),
    FIRST: used("worker", 3.0, parent=DAEMON),
}
ROOT_LATER = {ROOT: used("driver", 1.5, parent=None)}
WITH_JVM = ROOT_LATER | {DRIVERS_JVM: used("jvm", 4.0, 0.5)}


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
            ROOT_LATER | {DRIVERS_JVM: used("jvm", 4.0, 0.5 + 6.0)},
            {"driver": 0.5, "jvm": 0.5},
            id="the daemon was reaped, and its worker by the daemon",
        ),
        pytest.param(WITH_JVM, {"driver": 0.5, "jvm": 0.0}, id="nobody reaped the daemon, nor its worker"),
        pytest.param(
            ROOT_LATER | {DRIVERS_JVM: used("jvm", 5.0, 0.75), DAEMON: BEGUN[DAEMON], FIRST: BEGUN[FIRST]},
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
