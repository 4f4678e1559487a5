"""The versions and the machine of a replay, for its manifest."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("braid", "pyspark", "pandas", "pyarrow", "numpy", "paho-mqtt")


def versions() -> Mapping[str, str]:
    """The versions of Braid, Python and the main packages."""
    return {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


def machine() -> Mapping[str, Any]:
    """The cores, the memory and the kernel."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "processor": _processor(),
        "memory": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
