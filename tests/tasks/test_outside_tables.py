"""Tables: every event is written once, and rows come back as written; and connections to PostgreSQL."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pg8000.dbapi import InterfaceError
from sqlalchemy import create_engine, text

from dags import Kind
from engine.behaviour import EventName, Unwatched
from engine.implementations.outside.postgresql_connection import PostgresqlConnection
from tests import needs
from tests.manager.databases import Server, server
from tests.tasks.worksite import OWNER, Worksite, allow, keep_secret

FIELDS = {"t": Kind.FLOAT, "n": Kind.INTEGER, "room": Kind.STRING, "at": Kind.TIMESTAMP, "on": Kind.BOOLEAN}
INSERT: dict[str, Any] = {"database": {"place": "own.db"}, "table": "readings", "fields": ["n", "room", "t"]}

REFUSED = (
    "engine.implementations.outside.tables.DatabaseRefusal: "
    "the database 'own.db' refuses it: UNIQUE constraint failed: "
    "readings.room"
)


def rows_in(url: str, wanted: str = "SELECT n, room, t FROM readings ORDER BY n") -> list[tuple[Any, ...]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text(wanted))]
    engine.dispose()
    return found


def sqlite_of(root: Path) -> str:
    return f"sqlite:///{root}/files/{OWNER}/own.db"


def numbered(first: int, count: int) -> list[dict[str, Any]]:
    return [{"n": n, "room": f"r{n}", "t": n / 2} for n in range(first, first + count)]


def as_rows(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["n"], each["room"], each["t"]) for each in events]


class Alone(Unwatched):
    """Makes every event run alone, like those of a suspect."""

    def alone(self, instance: int) -> bool:
        return instance == 2


def test_each_event_becomes_a_row_and_passes_on_with_its_receipt(tmp_path: Path) -> None:
    """The receipt names the table and the event."""
    site = Worksite(tmp_path, "table_insert", FIELDS, **INSERT)
    left = site.run(numbered(0, 3))
    assert [(0, "own.db/readings#s:0.0"), (1, "own.db/readings#s:1.0"), (2, "own.db/readings#s:2.0")] == [
        (each["n"], each["receipt"]) for each in left
    ]
    assert as_rows(numbered(0, 3)) == rows_in(sqlite_of(tmp_path))


def test_events_without_any_value_of_a_field_are_written(tmp_path: Path) -> None:
    """Nulls are no numbers that tables do not accept."""
    site = Worksite(tmp_path, "table_insert", FIELDS, **INSERT)
    assert 2 == len(site.run([{"n": n, "room": "a", "t": None} for n in range(2)]))
    assert [(0, "a", None), (1, "a", None)] == rows_in(sqlite_of(tmp_path))


@settings(max_examples=15)
@given(data=st.data())
def test_events_are_written_once_if_a_worker_dies_before_the_record(data: st.DataObject) -> None:
    """Batches are repeated any number of times, whole or event by event, by any worker."""
    with TemporaryDirectory() as folder:
        root = Path(folder)
        site = Worksite(root, "table_insert", FIELDS, **{**INSERT, "batch": 2})
        written: list[dict[str, Any]] = []
        for _ in range(data.draw(st.integers(1, 3), label="batches")):
            events = numbered(len(written), data.draw(st.integers(1, 6), label="events"))
            cut = data.draw(st.integers(0, len(events)), label="cut of the spool's items")
            site.arrive(events, *(each for each in (cut, len(events) - cut) if each))
            for alone in data.draw(st.lists(st.booleans(), max_size=2), label="deaths, event by event"):
                site.die(Alone() if alone else Unwatched())
                site.made = site.behaviours()
            assert len(events) == len(site.run())
            written += events
        assert as_rows(written) == rows_in(sqlite_of(root))
        assert len(written) == rows_in(sqlite_of(root), "SELECT count(*) FROM braid_written")[0][0]


def test_an_event_that_is_parked_upstream_the_second_time_shifts_no_other(tmp_path: Path) -> None:
    """Names follow the raw events, not the number of earlier events."""

    class Parks(Unwatched):
        def alone(self, instance: int) -> bool:
            return instance == 2

        def parked(self, instance: int, event: EventName | None = None) -> str:
            return "it killed its worker" if instance == 2 and event == (0, 0) else ""

    site = Worksite(tmp_path, "table_insert", FIELDS, **INSERT)
    site.arrive(numbered(0, 3))
    site.die()
    site.run(watch=Parks())
    site.run(numbered(3, 2))
    assert as_rows(numbered(0, 5)) == rows_in(sqlite_of(tmp_path))


def test_a_bad_event_is_parked_and_the_others_are_written(tmp_path: Path) -> None:
    """NaN, and values that break a rule of the table. Null is a value."""
    site = Worksite(tmp_path, "table_insert", FIELDS, **INSERT)
    site.run(numbered(0, 1))
    engine = create_engine(sqlite_of(tmp_path))
    with engine.begin() as connection:
        connection.execute(text("CREATE UNIQUE INDEX one ON readings (room)"))
    engine.dispose()
    events = numbered(1, 9)
    events[3] = {**events[3], "t": float("nan")}
    events[5] = {**events[5], "room": "r0"}
    events[7] = {**events[7], "t": None}
    assert [
        "ValueError: the field 't' is nan; it needs a finite number",
        REFUSED,
    ] == site.parked(events)
    good = [each for at, each in enumerate(events) if at not in {3, 5}]
    assert as_rows(numbered(0, 1) + good) == rows_in(sqlite_of(tmp_path))


def test_a_database_that_cannot_be_reached_is_tried_once_a_batch(tmp_path: Path) -> None:
    """The URL is not shown. All events are parked, and none is tried alone."""
    url = keep_secret(tmp_path, "warehouse", "postgresql://me:sesame@127.0.0.1:1/nowhere")
    allow(tmp_path, "127.0.0.1")
    site = Worksite(tmp_path, "table_insert", FIELDS, **{**INSERT, "database": url})
    reasons = site.parked(numbered(0, 5))
    assert 5 == len(reasons)
    assert 1 == len(set(reasons))
    assert reasons[0].startswith("engine.side_effect.OutsideUnreachable: the database 'warehouse' cannot be used: ")
    assert "sesame" not in reasons[0]


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        (None, "'ann' has no secret 'warehouse'; put it with `braid secrets put warehouse`"),
        ("sesame", "the secret 'warehouse' is not the URL of a database; put one there"),
        (
            "sqlite:////etc/passwd",
            "is that of 'sqlite', not of a database server; for SQLite, use a place instead",
        ),
        *(
            (url, "has no host, or an option other than application_name, charset, sslmode; correct it")
            for url in (
                "postgresql:///braid",
                "postgresql://braid@h/braid?unix_sock=/run/5432",
                "mysql://h/b?read_default_file=/x",
            )
        ),
    ],
)
def test_a_secret_that_is_missing_or_unfit_fails_the_task_by_name(tmp_path: Path, secret: str | None, why: str) -> None:
    """With a remedy. The secret itself is not shown."""
    if secret is not None:
        keep_secret(tmp_path, "warehouse", secret)
    site = Worksite(tmp_path, "table_insert", FIELDS, **{**INSERT, "database": {"secret": "warehouse"}})
    (reason,) = site.parked(numbered(0, 1))
    assert reason.endswith(why)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    """A server for these tests."""
    with server(needs.postgresql()) as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """How a config names a new database, and its URL."""
    if request.param == "sqlite":
        yield {"place": "own.db"}, sqlite_of(tmp_path)
        return
    server: Server = request.getfixturevalue("postgresql")
    url = server.new_database()
    allow(tmp_path, "127.0.0.0/8", "::1")
    yield keep_secret(tmp_path, "warehouse", url), url.replace("postgresql://", "postgresql+pg8000://")


def test_rows_of_every_kind_come_back_in_the_order_of_the_column(
    tmp_path: Path, database: tuple[dict[str, str], str]
) -> None:
    """Those within both bounds, per event. Repeated batches write none twice."""
    named, url = database
    times = [datetime(2026, 1, 1, 0, 0, second, 500_000, tzinfo=UTC) for second in range(5)]
    rows = [{"n": 4 - n, "room": "ä", "t": n / 3, "at": times[n], "on": n > 2} for n in range(5)]
    fields = list(FIELDS)
    writing = Worksite(tmp_path, "table_insert", FIELDS, database=named, table="Readings", fields=fields, batch=2)
    writing.arrive([*rows, {"n": 9}])
    writing.die()
    assert 6 == len(writing.run())
    assert [(6,)] == rows_in(url, 'SELECT count(*) FROM "Readings"')
    asking = Worksite(
        tmp_path,
        "table_range_query",
        {"low": Kind.INTEGER, "high": Kind.INTEGER, "who": Kind.STRING},
        database=named,
        table="Readings",
        column="n",
        low="low",
        high="high",
        columns={name: str(kind) for name, kind in FIELDS.items()},
        keep=["who"],
        most=4,
    )
    asked = [{"low": 1, "high": 3, "who": "x"}, {"low": 9, "high": 9, "who": "y"}, {"low": 5, "high": 8, "who": "z"}]
    found = asking.run(asked)
    nothing = dict.fromkeys(("room", "t", "at", "on"))
    assert [*({"who": "x", **rows[n]} for n in (3, 2, 1)), {"who": "y", "n": 9, **nothing}] == found
    assert [
        "ValueError: more than 4 rows are between 'low' = 0 and 'high' = 9; query fewer, or raise `most`",
        "ValueError: the field 'low' is null; it needs a value",
    ] == asking.parked([{"low": 0, "high": 9}, {"low": None, "high": 9}])


WELCOME = b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I"
"""Nobody needs a password, and the server is ready."""


def test_a_connection_to_a_server_that_has_gone_closes_whole() -> None:
    """With its buffers, which hold what could not be sent; as with the driver's own, a second time is an error."""
    here, there = socket.socketpair()
    there.sendall(WELCOME)
    connection = PostgresqlConnection("ann", sock=here, ssl_context=False)
    buffers = connection._sock
    there.close()
    with pytest.raises(InterfaceError, match="network error"):
        connection.cursor().execute("SELECT 1")
    connection.close()
    assert (True, -1) == (buffers.closed, here.fileno())
    with pytest.raises(InterfaceError, match="is closed"):
        connection.close()


def test_a_connection_that_is_refused_leaves_no_socket() -> None:
    """Whether the server goes before the first message or says why."""
    here, there = socket.socketpair()
    there.close()
    with pytest.raises(InterfaceError, match="network error"):
        PostgresqlConnection("ann", sock=here, ssl_context=False)
    assert -1 == here.fileno()
