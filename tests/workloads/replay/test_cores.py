"""Cores are measured by part, over a tree like a service's, and what ended meanwhile is counted."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from workloads.replay.cores import Key, Look, Part, Used, cores_between, look

BURN = "import time\nwhile time.process_time() < 0.4: pass"
DAEMON = f"""
import subprocess, sys
for line in sys.stdin:
    subprocess.Popen([sys.executable, "-c", {BURN!r}]).wait()
    print("done", flush=True)
"""
JVM = f'"{sys.executable}" -c "$0"; exit 0'
DRIVER = """
import subprocess
subprocess.Popen(["java", "-c", {jvm!r}, {daemon!r}], executable="/bin/sh").wait()
"""
KEEPER = """
import subprocess, sys
broker = subprocess.Popen(["sleep", "600"])
try:
    subprocess.Popen([sys.executable, "-c", {driver!r}, "engine.host_process"]).wait()
finally:
    broker.kill()
    broker.wait()
"""
MANAGER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {keeper!r}, "manager.keeper_process"]).wait()
"""


@pytest.fixture
def service() -> Iterator["subprocess.Popen[str]"]:
    """Processes that stand in for those of a service; at each line a worker works and ends, at their end all do."""
    keeper = KEEPER.format(driver=DRIVER.format(jvm=JVM, daemon=DAEMON))
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", MANAGER.format(keeper=keeper)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    below: list[psutil.Process] = []
    try:
        yield process
        below = psutil.Process(process.pid).children(recursive=True)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
        psutil.wait_procs(below, timeout=30)


def test_a_worker_that_ended_counts_for_the_workers(service: "subprocess.Popen[str]") -> None:
    """What it used its parent was told; every other process plays the part that its place tells."""
    process = psutil.Process(service.pid)
    work(service)
    begun = look(process)
    work(service)
    ended = look(process)
    assert cores_between(begun, ended)["workers"] * (ended.at - begun.at) >= 0.35
    assert ["broker", "driver", "jvm", "manager", "manager", "workers"] == sorted(
        used.part for used in ended.used.values()
    )


def work(service: "subprocess.Popen[str]") -> None:
    """Have a worker work, and wait until it has ended."""
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write("\n")
    service.stdin.flush()
    assert "done\n" == service.stdout.readline()


ROOT, DAEMONS, FIRST, SECOND = (1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)


def used(part: Part, own: float, buried: float = 0.0, parent: Key | None = ROOT) -> Used:
    return Used(part=part, parent=parent, own=own, buried=buried)


def test_nothing_counts_twice_and_nothing_less_than_nothing() -> None:
    """What a worker used before is not counted when it is buried, and one that nobody buried takes none away."""
    begun = Look(
        at=10.0,
        used={
            ROOT: used("manager", 1.0, parent=None),
            DAEMONS: used("workers", 0.5, 2.0),
            FIRST: used("workers", 3.0, parent=DAEMONS),
        },
    )
    grown = {ROOT: used("manager", 1.5, parent=None), SECOND: used("workers", 1.0, parent=DAEMONS)}
    buried = Look(at=12.0, used=grown | {DAEMONS: used("workers", 0.5, 2.0 + 3.5)})
    lost = Look(at=12.0, used=grown | {DAEMONS: used("workers", 0.5, 2.0)})
    orphaned = Look(at=12.0, used=grown)
    assert [(0.25, 0.75), (0.25, 0.5), (0.25, 0.5)] == [
        (cores["manager"], cores["workers"])
        for cores in (cores_between(begun, ended) for ended in (buried, lost, orphaned))
    ]
