"""Metering: the CPU that a host's process tree takes, by the part it plays."""

from collections.abc import Iterator

import psutil


class Metering:
    """The driver, its JVM, the workers, and whatever else it started; this process where none is named."""

    def __init__(self, driver: int | None = None) -> None:
        self._driver = psutil.Process(driver)
        self._gone: dict[str, float] = {}
        self._last: dict[tuple[int, float], tuple[str, float]] = {}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU since each part began, those of processes that ended since included."""
        now = dict(self._measured())
        for key, (part, seconds) in self._last.items():
            if key not in now:
                self._gone[part] = self._gone.get(part, 0.0) + seconds
        self._last = now
        total = dict(self._gone)
        for part, seconds in now.values():
            total[part] = total.get(part, 0.0) + seconds
        return {part: round(seconds, 3) for part, seconds in sorted(total.items())}

    def memory(self) -> dict[str, int]:
        """Bytes that each part holds for itself."""
        total: dict[str, int] = {}
        for process in self._processes():
            try:
                part, held = _part(process, self._driver), process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            total[part] = total.get(part, 0) + held
        return total

    def _measured(self) -> Iterator[tuple[tuple[int, float], tuple[str, float]]]:
        for process in self._processes():
            try:
                times = process.cpu_times()
                yield (process.pid, process.create_time()), (_part(process, self._driver), times.user + times.system)
            except psutil.NoSuchProcess:
                continue

    def _processes(self) -> list[psutil.Process]:
        # Workers live in process groups of their own; only the tree tells whose they are.
        return [self._driver, *self._driver.children(recursive=True)]


def _part(process: psutil.Process, driver: psutil.Process) -> str:
    if process == driver:
        return "driver"
    name = process.name()
    if name.startswith("java"):
        return "jvm"
    return "broker" if "mosquitto" in name else "worker"
