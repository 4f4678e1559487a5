"""A Spark standalone cluster on this machine, whose workers have Braid's dependencies, and not Braid."""

import os
import re
import shutil
import subprocess
import sysconfig
import threading
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from engine.spark.programs import find_java
from tests.integration import telling

BOUND = 60.0
SPARK = Path(pyspark.__file__).parent
SLOTS = 16
"""Of each worker: a job takes one for each shard as long as it runs."""
_OPTIONS = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}


class Cluster:
    """A master and some workers with one core and many slots each, in separate processes."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self._folder = folder
        folder.mkdir()
        self._processes: list[subprocess.Popen[bytes]] = []
        # As on another machine: only the variables that every machine has.
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SPARK_HOME": str(SPARK), **_OPTIONS}
        if "JAVA_HOME" in os.environ:
            self._environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
        find_java(self._environment)
        try:
            self._start("master", "Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = self._written("master", r"Starting Spark master at (spark://[\w.]+:\d+)")
            self.workers = [self.start_worker() for _ in range(workers)]
        except BaseException:
            self.stop()
            raise

    def start_worker(self) -> "Worker":
        """Start one more worker, and wait until the master knows it."""
        name = f"worker-{len(self._processes)}"
        given = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", str(SLOTS), "--memory", "1g"]
        process = self._start(name, "Worker", *given, "--work-dir", str(self._folder / name), self.url)
        self._written(name, "(Successfully registered with master)")
        return Worker(self._folder / name, process)

    def stop(self) -> None:
        """End all processes, the newest first."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, kind: str, *given: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - Spark's launcher, with arguments that no shell reads
                [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *given],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self._folder,
            )
        self._processes.append(process)
        return process

    def _written(self, name: str, pattern: str) -> str:
        """Wait until a process has written something."""
        deadline, pause = time.monotonic() + BOUND, threading.Event()
        while True:
            written = (self._folder / f"{name}.log").read_text()
            if match := re.search(pattern, written):
                return match[1]
            if time.monotonic() > deadline or self._processes[-1].poll() is not None:
                pytest.fail(f"{name} did not come up: {written[-2_000:]}")
            pause.wait(0.05)


class Worker:
    """One worker of a cluster."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self._process = process

    def kill_executors(self) -> None:
        """Kill what it runs. It starts that again."""
        tree = psutil.Process(self._process.pid).children(recursive=True)
        for each in tree:
            each.kill()
        psutil.wait_procs(tree, timeout=10)

    def kill(self) -> None:
        """Kill it, with everything that it runs."""
        process = psutil.Process(self._process.pid)
        tree = [process, *process.children(recursive=True)]
        for each in tree:
            each.kill()
        psutil.wait_procs(tree[1:], timeout=10)
        self._process.wait()


@contextmanager
def cluster_in(folder: Path, *, workers: int) -> Iterator[Cluster]:
    """A cluster of the caller's own, which is stopped at the end."""
    made = Cluster(folder, workers=workers)
    try:
        yield made
    finally:
        made.stop()


def bare_python(folder: Path) -> Path:
    """A Python with Braid's dependencies and a third-party package, and without Braid."""
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    # A folder on this path is searched, but the links of an editable install in it are not followed.
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    shutil.copy(telling.__file__, packages / "telling.py")
    return folder / "bin" / "python"


def offering(folder: Path, places: Mapping[str, str], types: Mapping[str, str] | None = None) -> Path:
    """A folder that offers behaviours, and perhaps task types, like an installed package."""
    package = folder / "offered-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    groups = {"braid.behaviours": places, "braid.task_types": types or {}}
    (package / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in offered.items())
            for group, offered in groups.items()
        )
    )
    return folder
