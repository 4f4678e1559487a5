"""A machine as a process of its own, which can be killed and held up, and the ways between it and all others."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from bridge.transport.address import Address
from tests.faulty_way import FaultyWay
from tests.integration.serving import BOUND, BRAID
from workloads.service import free_port


class MachineWays:
    """The ways between a machine and all others, which a test can break."""

    def __init__(self, broker: Address) -> None:
        self.listens = free_port()
        """Where the machine takes copies."""
        self.to_broker = FaultyWay(broker.port)
        """The machine's way."""
        self.to_copies = FaultyWay(self.listens)
        """The others' way to it."""

    def close(self) -> None:
        """Let nothing pass any more."""
        self.to_broker.close()
        self.to_copies.close()


class MachineProcess:
    """A machine: `braid host` with all that it starts."""

    def __init__(self, name: str, root: Path, broker: str, *, options: Sequence[str]) -> None:
        self.name = name
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        given = [f"--root={root}", f"--broker={broker}", "--master=local[2,8]", *options]
        with (root.parent / f"{name}.log").open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [str(BRAID), "host", name, *given], stdout=output, stderr=output
            )

    def kill(self, *, with_disk: bool = False) -> None:
        """Kill all its processes at once, the keeper first."""
        tree = self._tree()
        self._process.kill()
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()
        psutil.wait_procs(tree[1:], timeout=10)
        if with_disk:
            shutil.rmtree(self.root)

    def pause(self) -> None:
        """Hold all its processes up."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Let it end."""
        self._process.terminate()
        self._process.wait(BOUND)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def _tree(self) -> list[psutil.Process]:
        process = psutil.Process(self._process.pid)
        return [process, *process.children(recursive=True)]

    def _signal(self, number: signal.Signals) -> None:
        for each in self._tree():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)
