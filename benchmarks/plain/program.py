"""A plain program of Spark, run in a process of its own."""

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from engine.spark.programs import find_java


class PlainRun(NamedTuple):
    """What a program leaves that works sections off."""

    seconds: float
    """From when it has a session until the last section is done."""
    rows: list[tuple[Any, ...]]


def run_program(name: str, *arguments: object) -> PlainRun:
    """Run a module of this folder that works sections off."""
    printed = printed_by(name, *arguments)
    return PlainRun(printed["seconds"], [tuple(row) for row in printed["rows"]])


def printed_by(name: str, *arguments: object) -> dict[str, Any]:
    """Run a module of this folder to its end; what its last line says."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    find_java(environment)
    command = [sys.executable, "-m", f"benchmarks.plain.{name}", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise RuntimeError(done.stderr[-2_000:])
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return printed
