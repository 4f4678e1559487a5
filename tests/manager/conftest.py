"""What tests of the service share: databases of both kinds, a manager over one, and the command line."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager.store.database import Store, sqlite_url
from tests import needs
from tests.manager.braid_runner import Braid
from tests.manager.databases import Server, server
from tests.manager.managers import Manager, leading

# Most of the store is held on SQLite as well as on PostgreSQL.
BOTH = ("sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.full]))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """One server for all tests of a run; each has a database of its own."""
    # Before its tests are asked what they need.
    with server(needs.postgresql()) as made:
        yield made


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "braid.db")
    made: Server = request.getfixturevalue("postgresql")
    return made.new_database()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of SQLite with all tables, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "braid.db"
    Store(sqlite_url(path)).close()
    return path


@pytest.fixture
def sqlite(migrated: Path, tmp_path: Path) -> str:
    """The URL of a file of SQLite with all tables, for tests that are not about databases."""
    return sqlite_url(Path(shutil.copy(migrated, tmp_path / "braid.db")))


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """With ann and bob, and the sources weather and traffic; each dataflow gets a job of its own."""
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"), strategy="launch")


@pytest.fixture
def braid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Braid]:
    """The command line, in an empty folder, in the time zone UTC."""
    made = Braid(monkeypatch, tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield made
    monkeypatch.undo()
    time.tzset()
