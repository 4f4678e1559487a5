"""What some tests need of the platform: they skip where it is missing, and fail there in continuous integration."""

import os
import shutil

import pytest

from bridge import broker_mosquitto


def mosquitto() -> None:
    """Skip the test, or fail it, where mosquitto is not installed."""
    _needs("mosquitto", there=broker_mosquitto.executable() is not None)


def openssl() -> None:
    """Skip the test, or fail it, where the command openssl is not installed."""
    _needs("openssl", there=shutil.which("openssl") is not None)


def _needs(name: str, *, there: bool) -> None:
    if there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{name} is not installed, and continuous integration tests with it")
    pytest.skip(f"{name} is not installed")
