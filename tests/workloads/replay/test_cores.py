"""Cores are measured by part, over a tree like a service's, and what ended meanwhile is counted."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.host.cpu_meter import ProcessCpu
from workloads.replay.player import CoresReading, cores_between, read_cores

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
subprocess.Popen([{java!r}, "-c", {jvm!r}, {daemon!r}]).wait()
"""
KEEPER = """
import subprocess, sys
broker = subprocess.Popen(["sleep", "600"])
try:
    subprocess.Popen([sys.executable, "-c", {driver!r}, "engine.machines.process"]).wait()
finally:
    broker.kill()
    broker.wait()
"""
MANAGER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {keeper!r}, "manager.process.keeper_process"]).wait()
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Processes that stand in for those of a service; at each line a worker works and ends, at their end all do."""
    java = tmp_path / "java"
    java.symlink_to("/bin/sh")
    keeper = KEEPER.format(driver=DRIVER.format(java=str(java), jvm=JVM, daemon=DAEMON))
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
    """What it used is in the times of its parent; every other process plays the part that its place tells."""
    process = psutil.Process(service.pid)
    work(service)
    begun = read_cores(process)
    work(service)
    ended = read_cores(process)
    assert cores_between(begun, ended)["worker"] * (ended.at - begun.at) >= 0.35
    assert ["broker", "driver", "jvm", "manager", "manager", "worker"] == sorted(
        used.part for used in ended.used.values()
    )


def work(service: "subprocess.Popen[str]") -> None:
    """Have a worker work, and wait until it has ended."""
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write("\n")
    service.stdin.flush()
    assert "done\n" == service.stdout.readline()


def test_cores_are_means_over_the_time_between() -> None:
    """Half a second of CPU in two seconds is a quarter of a core, and a part without a process has none."""
    begun, ended = (
        CoresReading(at=at, used={(1, ""): ProcessCpu(part="manager", parent=None, own=own, reaped=0.0)})
        for at, own in ((10.0, 1.0), (12.0, 1.5))
    )
    assert {"broker": 0.0, "driver": 0.0, "jvm": 0.0, "worker": 0.0, "manager": 0.25} == cores_between(begun, ended)
