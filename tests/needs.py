"""What some tests need of the platform: they skip where it is missing, and fail there in continuous integration."""

import os

import pytest

from bridge import broker_mosquitto


def mosquitto() -> None:
    """Skip the test, or fail it, where mosquitto is not installed."""
    if broker_mosquitto.executable() is None:
        if os.environ.get("CI"):
            pytest.fail("mosquitto is not installed, and continuous integration tests with it")
        pytest.skip("mosquitto is not installed")
