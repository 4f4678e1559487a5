"""The README's first submission in two terminals, as it stands there, without any setting."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from manager.settings import Settings
from tests.documentation.pages import page
from tests.integration.serving import BRAID, runs
from tests.integration.test_shell_blocks import second_terminal, typed

pytestmark = pytest.mark.bare
BOUND = 180.0
README = page("README.md")


@pytest.fixture
def first_terminal(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A terminal in which the README's service starts, in a session of its own as terminals have it."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(BRAID.parent)
    typed_first = next(each.text for each in README.examples if each.language == "sh" and each.text.endswith("serve\n"))
    with (
        (tmp_path / "terminal.log").open("wb") as shown,
        subprocess.Popen(  # noqa: S603 - our own documentation
            ["/bin/bash", "-c", typed_first],
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
            stdout=shown,
            stderr=shown,
            start_new_session=True,
        ) as process,
    ):
        below: list[psutil.Process] = []
        try:
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                below = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            for each in below:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def test_the_first_submission_does_what_the_readme_says(
    tmp_path: Path, first_terminal: subprocess.Popen[bytes]
) -> None:
    """Every block ends well and prints what stands after it; Ctrl-C then ends the service and all that it started."""
    await_ready(first_terminal, tmp_path / "terminal.log")
    assert not typed(README, tmp_path, second_terminal(tmp_path), {})
    started = psutil.Process(first_terminal.pid).children(recursive=True)
    os.killpg(first_terminal.pid, signal.SIGINT)
    assert 0 == first_terminal.wait(BOUND), (tmp_path / "terminal.log").read_text()
    assert len(started) > 2
    assert [] == [each for each in started if runs(each)]


def await_ready(service: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the service says that it is ready."""
    deadline = time.monotonic() + BOUND
    while True:
        with suppress(httpx.TransportError):
            if httpx.get(f"{Settings().here}/readyz", timeout=5.0).is_success:
                return
        assert service.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        with suppress(subprocess.TimeoutExpired):
            service.wait(0.2)
