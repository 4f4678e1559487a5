"""What some tests need of the platform: they skip where it is missing, and fail there in continuous integration."""

import os
import shutil
from importlib import import_module, util
from pathlib import Path
from types import ModuleType

import pytest

from bridge import broker_setup

_REMEDIES = {
    "mosquitto": "apt-get install mosquitto",
    "mosquitto_passwd": "apt-get install mosquitto",
    "openssl": "apt-get install openssl",
    "PostgreSQL": "apt-get install postgresql",
    "chromium": "apt-get install chromium",
    "promtool": "apt-get install prometheus",
    "Helm's engine": "make helm",
    "zsh": "apt-get install zsh",
}


def mosquitto() -> None:
    """Skip the test, or fail it, where mosquitto is not installed."""
    _needs("mosquitto", there=broker_setup.mosquitto_program() is not None)


def mosquitto_passwd() -> None:
    """Skip the test, or fail it, where mosquitto's command for passwords is not installed; it may come apart."""
    _needs("mosquitto_passwd", there=shutil.which("mosquitto_passwd") is not None)


def openssl() -> None:
    """Skip the test, or fail it, where the command openssl is not installed."""
    _needs("openssl", there=shutil.which("openssl") is not None)


def promtool() -> str:
    """The command that checks rules of Prometheus; skip the test, or fail it, where it is not installed."""
    found = shutil.which("promtool")
    _needs("promtool", there=found is not None)
    assert found is not None
    return found


def zsh() -> None:
    """Skip the test, or fail it, where the shell zsh is not installed."""
    _needs("zsh", there=shutil.which("zsh") is not None)


def helm() -> ModuleType:
    """Helm's own engine as a library; skip the test, or fail it, where it is not installed."""
    _needs("Helm's engine", there=util.find_spec("helm_python") is not None)
    return import_module("helm_python")


def postgresql() -> Path:
    """The folder of PostgreSQL's programs; skip the test, or fail it, where it is not installed."""
    found = postgresql_programs()
    _needs("PostgreSQL", there=found is not None)
    assert found is not None
    return found


def postgresql_programs() -> Path | None:
    """The folder of the newest PostgreSQL that is installed: on the path, or where Debian has it beside the path."""
    on_path = shutil.which("initdb")
    # Debian has a folder for each version; the numbers are as long as each other.
    beside = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    for folder in [*([Path(on_path).resolve().parent] if on_path else []), *reversed(beside)]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


def chromium() -> Path:
    """The browser chromium; skip the test, or fail it, where it is not installed."""
    found = shutil.which("chromium")
    _needs("chromium", there=found is not None)
    assert found is not None
    return Path(found)


def _needs(name: str, *, there: bool) -> None:
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{name} is not installed, and continuous integration tests with it")
    pytest.skip(f"for want of {name}: {_REMEDIES[name]}")
