"""Outages of the database: logged once, answered with one clear problem, and survived by every loop."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from manager import reconciler as reconciling
from manager.jobs.changes import JobChanges
from manager.kernel.live_events import LiveEvents
from manager.kernel.wanted import WantedJob
from manager.problem import DatabaseAway
from manager.reconciler import Reconciler
from manager.rest.app import make_app
from manager.store import leadership
from manager.store.database import Store, sqlite_url
from manager.store.leadership import Candidate
from manager.store.tables import Leadership, TenantRow
from manager.use_case import Paging
from tests import needs
from tests.manager.databases import Server, server
from tests.manager.managers import OPERATOR, Manager
from tests.manager.observations.listened_host import Hearing
from tests.manager.rest.socket_server import serving

PATIENCE = 60.0
LINE = "s:source > a:map{'add': 1} > k:sink"


def add(store: Store, name: str) -> None:
    with store.write() as session:
        session.add(TenantRow(name=name, dataflows=1, tasks=1, submits_per_minute=1, created=0.0))


def names(store: Store) -> list[str]:
    with store.read() as session:
        return sorted(session.scalars(text("SELECT name FROM tenant")))


def until(test: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a database, which a test may move away."""
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    made = Store(f"{sqlite_url(folder / 'braid.db')}?timeout=0.05")
    yield made
    made.close()


class Outage:
    """A way to make SQLite fail, and work again."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def disconnect(self) -> None:
        """Have the store make new connections from now on."""
        self.before = self.store._engine.pool
        self.store.close()

    def close_those_before(self) -> None:
        """Close the connections that were in use when the store was disconnected."""
        self.before.dispose()


class Locked(Outage):
    """Another process holds the write lock."""

    def begin(self) -> None:
        self.other = sqlite3.connect(self.folder / "braid.db", isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        self.other.close()


class Bound(Outage):
    """Every connection has a size limit."""

    pragma: ClassVar[str]

    def begin(self) -> None:
        self.disconnect()
        event.listen(self.store._engine, "connect", self._bind)

    def end(self) -> None:
        event.remove(self.store._engine, "connect", self._bind)
        self.close_those_before()

    @classmethod
    def _bind(cls, connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute(f"PRAGMA {cls.pragma}")


class Full(Bound):
    """There is no room for another page."""

    pragma = "max_page_count = 1"


class ReadOnly(Bound):
    """The file is read-only."""

    pragma = "query_only = ON"


class Gone(Outage):
    """The folder is missing, as if a disk is not mounted."""

    def begin(self) -> None:
        self.disconnect()
        self.folder.rename(self.folder.with_name("gone"))

    def end(self) -> None:
        self.close_those_before()
        self.folder.with_name("gone").rename(self.folder)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Locked, "database is locked"),
        (Full, "database or disk is full"),
        (ReadOnly, "attempt to write a readonly database"),
        (Gone, "unable to open database file"),
    ],
    ids=["locked", "full", "read-only", "gone"],
)
def test_an_outage_of_sqlite_is_logged_once_and_survived(
    store: Store, folder: Path, caplog: pytest.LogCaptureFixture, kind: type[Outage], why: str
) -> None:
    """Each write raises that the database is away, none is half done, and the log has one line."""
    add(store, "before")
    outage = kind(folder, store)
    outage.begin()
    for _ in range(3):
        with pytest.raises(DatabaseAway):
            # More than one page.
            add(store, "x" * 10_000)
    outage.end()
    add(store, "after")
    assert ["after", "before"] == names(store)
    shown = f"the database {sqlite_url(folder / 'braid.db')}"
    assert [
        f"{shown} cannot be written: {why}; it is tried again until it can",
        f"{shown} can be written again",
    ] == [record.getMessage() for record in caplog.records if record.name == "braid.database"]


def test_a_defect_is_no_outage(store: Store) -> None:
    """A missing table does not appear by waiting, so it stays an error."""
    with pytest.raises(OperationalError, match="no such table"), store.read() as session:
        session.execute(text("SELECT * FROM nowhere"))


class Reading(JobChanges):
    """Wants no jobs, and reads the database to find that out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.looks = 0

    def wanted(self) -> Mapping[str, WantedJob]:
        names(self._store)
        self.looks += 1
        return {}

    def on_change(self, listener: Callable[[], None]) -> None:
        """Nothing changes."""


def test_the_loops_of_a_manager_outlive_an_outage(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is renewed and the reconciler looks again once the database is back; no tracebacks are logged."""
    monkeypatch.setattr(leadership, "RENEW_EVERY", 0.01)
    monkeypatch.setattr(reconciling, "_LOOK_EVERY", 0.01)
    monkeypatch.setattr(reconciling, "_FAILURE_PAUSE", 0.01)
    won, lost = threading.Event(), threading.Event()
    candidate = Candidate(store, "one", won=lambda _term: won.set(), lost=lost.set)
    hearing, reading = Hearing(), Reading(store)
    hearing.listener.start()
    hearing.until_complete()
    reconciler = Reconciler(reading, hearing.listener, LiveEvents(last=0))
    candidate.start()
    reconciler.start()
    assert won.wait(PATIENCE)
    until(lambda: reading.looks > 0)
    outage = Gone(folder, store)
    outage.begin()
    until(lambda: {"read", "written"} <= store._away)
    outage.end()
    seen, leased = reading.looks, _until(store)
    until(lambda: reading.looks > seen and _until(store) > leased)
    assert not lost.is_set()
    reconciler.stop()
    candidate.stop()
    hearing.listener.stop()
    grave = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert {"braid.database"} == {record.name for record in grave}
    assert [] == [record for record in grave if record.exc_info]


def _until(store: Store) -> float:
    with store.read() as session:
        return session.get_one(Leadership, 1).until


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may stop."""
    with server(needs.postgresql()) as made:
        yield made


@pytest.mark.postgresql
def test_a_stopped_postgresql_is_answered_and_survived(own_server: Server) -> None:
    """While it is stopped every request gets 503 with Retry-After and one problem, and works once it runs again."""
    manager = Manager(own_server.new_database()).lead()
    manager.admit("ann")
    manager.register("weather")
    manager.submit("ann", LINE)
    key = manager.service.administration.first_key()
    app = make_app(manager.service, LiveEvents(last=0), lambda: None)
    headers = {"Authorization": f"Bearer {key}"}
    with (
        serving(app) as url,
        httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE) as ask,
    ):
        assert 200 == ask.get("/v1/dataflows").status_code
        own_server.stop()
        for method, path in (("GET", "dataflows"), ("GET", "tenants"), ("DELETE", "sources/ann:weather")) * 2:
            answer = ask.request(method, f"/v1/{path}")
            assert (503, "/problems/database-away", "5") == (
                answer.status_code,
                answer.json()["type"],
                answer.headers["Retry-After"],
            )
        with pytest.raises(DatabaseAway):
            manager.candidate.look()
        own_server.start()
        manager.candidate.look()
        assert 1 == len(ask.get("/v1/dataflows").json()["items"])
    manager.admit("bob")
    manager.submit("ann", LINE)
    assert 2 == len(manager.service.dataflows.page(OPERATOR, Paging()).items)
    manager.close()
