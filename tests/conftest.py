"""What tests of several suites share: one host with Spark, because it takes long to start."""

from collections.abc import Iterator

import pytest

from tests import needs
from tests.integration.hosting import Hosting, hosting_in


@pytest.fixture(scope="session")
def hosting_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """One host for all tests of a run; jobs, streams and instances are each test's own."""
    # Before its tests are asked what they need.
    needs.mosquitto()
    with hosting_in(tmp_path_factory.mktemp("hosting")) as made:
        yield made


@pytest.fixture
def hosting(hosting_of_all: Hosting) -> Iterator[Hosting]:
    """The host, on which a test's jobs end with it, so that the next ones have room."""
    yield hosting_of_all
    hosting_of_all.stop_jobs()
