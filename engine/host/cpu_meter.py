"""The CPU meter of a host: the CPU time of its process tree, by the role of the processes."""

import psutil

from engine.host.process_tree import Tree, look, spent_between
from engine.spark.forked_python import SERVER_MODULE

DRIVER, JVM, WORKER = "driver", "jvm", "worker"


class CpuMeter:
    """Measures a driver, its JVM, its workers, and anything else it started; by default this process is the driver."""

    def __init__(self, driver: int | None = None) -> None:
        self._driver = psutil.Process(driver)
        self._last: Tree = {}
        self._total: dict[str, float] = {}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by role since the meter was made, or the processes began."""
        now = look(self._driver, DRIVER, part_below)
        for part, seconds in spent_between(self._last, now).items():
            self._total[part] = self._total.get(part, 0.0) + seconds
        self._last = now
        return {part: round(seconds, 3) for part, seconds in sorted(self._total.items())}


def part_below(process: psutil.Process, _parent: psutil.Process, above: str) -> str:
    """The role of a process below a driver; one that is neither a JVM nor its worker counts for its parent."""
    name = process.name()
    if above == DRIVER and name.startswith("java"):
        return JVM
    if above == DRIVER and SERVER_MODULE in process.cmdline():
        return WORKER
    return WORKER if above == JVM and name.startswith("python") else above
