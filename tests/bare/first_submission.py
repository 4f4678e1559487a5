"""The README's first submission in two terminals, as it stands there, without any setting.

    python -m tests.bare.first_submission [PROGRAMS]

PROGRAMS is the folder of the commands `braid` and `python` that are used; by default the environment of this run.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil

from manager.settings import Settings
from tests.documentation.pages import page
from tests.integration.serving import BRAID, runs
from tests.integration.test_shell_blocks import second_terminal, typed

BOUND = 180.0
README = page("README.md")


def submit_first(folder: Path, programs: Path = BRAID.parent) -> None:
    """Type what the README says: every block ends well and prints what stands after it. Ctrl-C then ends it all."""
    with _first_terminal(folder, programs) as service:
        _await_ready(service, folder / "terminal.log")
        assert not (trouble := typed(README, folder, second_terminal(folder, programs), {})), trouble
        started = psutil.Process(service.pid).children(recursive=True)
        os.killpg(service.pid, signal.SIGINT)
        assert service.wait(BOUND) == 0, (folder / "terminal.log").read_text()
        assert len(started) > 2
        assert [each for each in started if runs(each)] == []


@contextmanager
def _first_terminal(folder: Path, programs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A terminal in which the README's service starts, in a session of its own as terminals have it."""
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(programs)
    typed_first = next(each.text for each in README.examples if each.language == "sh" and each.text.endswith("serve\n"))
    with (
        (folder / "terminal.log").open("wb") as shown,
        subprocess.Popen(  # noqa: S603 - our own documentation
            ["/bin/bash", "-c", typed_first],
            cwd=folder,
            env={**os.environ, "HOME": str(folder)},
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


def _await_ready(service: subprocess.Popen[bytes], log: Path) -> None:
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="braid-first-") as _folder:
        submit_first(Path(_folder), *map(Path, sys.argv[1:]))
