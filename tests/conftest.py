"""What suites share: one host with Spark, because it takes long to start, and a port that no test gets."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from manager.process.keeper_process import MQTT_PORT
from tests.integration.hosting import Hosting, hosting_in


@pytest.fixture(scope="session", autouse=True)
def _no_standard_port() -> Iterator[None]:
    """Services of tests run beside each other, and one that starts again must not find its port taken by another."""
    with socket.socket() as held:
        # Every process that runs tests holds it.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Where somebody else has it, no test gets it either.
        with suppress(OSError):
            held.bind(("", MQTT_PORT))
            held.listen()
        yield


@pytest.fixture(scope="session")
def hosting_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """One host for all tests of a run; jobs, streams and instances are each test's own."""
    with hosting_in(tmp_path_factory.mktemp("hosting")) as made:
        yield made


@pytest.fixture
def hosting(hosting_of_all: Hosting) -> Iterator[Hosting]:
    """The host, on which a test's jobs end with it, so that the next ones have room."""
    yield hosting_of_all
    hosting_of_all.stop_jobs()
