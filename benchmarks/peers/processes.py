"""Processes that a measurement starts, asks and ends, with all that they have started in turn."""

import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from engine.host.cpu_meter import Tree, look
from workloads.service import RunFailed

_ENDING = 15.0
"""Seconds in which a process may end by itself."""
_TAIL = 1_500


class AskedProcess:
    """A process that answers lines with lines; made by `asked_process`."""

    def __init__(self, process: "subprocess.Popen[str]", name: str, log: Path) -> None:
        self._process = process
        self._name = name
        self._log = log
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def process(self) -> psutil.Process:
        """The process."""
        return psutil.Process(self._process.pid)

    def tell(self, line: str) -> None:
        """Write a line to its input."""
        if self._process.stdin is None:
            raise RunFailed(f"{self._name} has no input")
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def next_line(self, timeout: float) -> str | None:
        """The next line of its output; None if there is none within some seconds."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        if not line:
            raise RunFailed(f"{self._name} ended; {self.tail()}")
        return line.rstrip("\n")

    def line(self, timeout: float) -> str:
        """The next line of its output, which has to come within some seconds."""
        line = self.next_line(timeout)
        if line is None:
            raise RunFailed(f"{self._name} said nothing for {timeout:g} s; {self.tail()}")
        return line

    def check(self) -> None:
        """Fail if it has ended."""
        if self._process.poll() is not None:
            raise RunFailed(f"{self._name} ended; {self.tail()}")

    def tail(self) -> str:
        """The end of its log."""
        return f"it last wrote: {self._log.read_bytes()[-_TAIL:].decode(errors='replace').strip() or 'nothing'}"

    def close(self) -> None:
        """Read no more, once it has ended."""
        self._reading.join()

    def _read(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as output:
                for line in output:
                    self._lines.put(line)
        self._lines.put("")


@contextmanager
def asked_process(
    command: Sequence[str | Path],
    name: str,
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    answers: bool = True,
) -> Iterator[AskedProcess]:
    """Run a process while the context lasts; afterwards nothing that it started is left.

    Its errors go to the log, and what it prints too if it does not answer.
    """
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if answers else errors,
            stderr=errors,
            text=True,
            env=None if environment is None else {**os.environ, **environment},
            # Ctrl-C goes to the benchmark, which ends the process itself.
            start_new_session=True,
        )
    asked = AskedProcess(process, name, log)
    try:
        yield asked
    finally:
        _end_tree(process)
        asked.close()


def install_once(what: str, folder: Path, command: Sequence[str | Path], timeout: float) -> None:
    """Run a command that installs something into a folder, unless it was done before."""
    ready = folder / "ready"
    if ready.exists():
        return
    try:
        done = subprocess.run(  # noqa: S603 - pinned packages, from the registries that are set up here
            list(map(str, command)), capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"{what} was not installed within {timeout:g} s") from error
    if done.returncode:
        raise RunFailed(f"{what} could not be installed: {done.stderr.strip()[-_TAIL:]}")
    ready.touch()


def look_at_one(process: psutil.Process, part: str) -> Tree:
    """The CPU time of a process and of all below it, as one part."""
    return look(process, part, lambda _process, _parent, above: above)


def _end_tree(process: "subprocess.Popen[str]") -> None:
    """End a process and everything below it; what does not end in time is killed."""
    tree: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        tree = [root, *root.children(recursive=True)]
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING)
    for left in psutil.wait_procs(tree, timeout=1.0)[1]:
        with suppress(psutil.NoSuchProcess):
            left.kill()
    process.wait()
