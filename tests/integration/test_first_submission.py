"""The README's first submission, typed as it stands there."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.documentation.pages import page

BOUND = 120.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a user who has set nothing, but for the port: somebody may serve on the usual one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BRAID_", "XDG_"))}
    return {**kept, "HOME": str(tmp_path), "BRAID_PORT": port}


@pytest.fixture
def serving(tmp_path: Path, environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """What the README's first block starts; it is ready."""
    page("README.md").save_files(tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - a line of our own README
            shell(["serve"])[0].split(), cwd=tmp_path, env=environment, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + BOUND
        while not ready(environment["BRAID_PORT"]):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(BOUND)


@pytest.mark.spark
def test_the_first_submission_works_as_typed(
    tmp_path: Path, environment: dict[str, str], serving: "subprocess.Popen[bytes]"
) -> None:
    """Each line of the README's shell blocks does what it is there for, and Ctrl-C ends the service."""
    commands = shell(["tenants", "sources", "submit", "list"])
    assert len(commands) > 6
    shown = {line: typed(line, tmp_path, environment) for line in commands}
    assert "averages of plausible temperatures" in shown[".venv/bin/braid list"]
    assert "tenant-ann" in shown[".venv/bin/braid tenants credentials ann"]
    serving.send_signal(signal.SIGINT)
    assert 0 == serving.wait(BOUND)


def shell(commands: list[str]) -> list[str]:
    """The lines of the README's shell blocks that call one of these commands, in order."""
    lines = [line for each in page("README.md").examples if each.language == "sh" for line in each.text.splitlines()]
    return [line for line in lines if line.startswith(tuple(f".venv/bin/braid {command}" for command in commands))]


def typed(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a line prints."""
    done = subprocess.run(  # noqa: S603 - a line of our own README
        line.split(), cwd=folder, env=environment, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert 0 == done.returncode, f"{line}: {done.stderr}"
    return done.stdout


def ready(port: str) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5.0, trust_env=False).is_success
    except httpx.TransportError:
        return False
