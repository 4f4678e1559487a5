"""The CPU meter: a host's CPU time by role, including processes that ended unseen."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.host.cpu_meter import CpuMeter
from engine.spark.programs import SERVER_MODULE

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
