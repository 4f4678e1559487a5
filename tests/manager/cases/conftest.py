"""A manager with tenants and sources, where a module needs no other."""

from collections.abc import Iterator

import pytest

from tests.manager.managers import Manager


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """With ann and bob, and the sources weather and traffic; each dataflow gets a job of its own."""
    made = Manager(sqlite, strategy="launch").lead()
    made.admit("ann", "bob")
    made.register("weather", "traffic")
    yield made
    made.close()
