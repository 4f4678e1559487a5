"""Databases of older releases: brought up to date with a copy of what was, and taken back."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import alembic.command
import pytest
from sqlalchemy import inspect, text

from bridge.files import is_open_to_others
from manager.store.database import DatabaseDown, Store, downgrade, sqlite_url
from manager.store.tables import Leadership
from tests.manager.backup.test_backup import newest_scheme
from tests.manager.braid_runner import Braid
from tests.manager.store.test_database import engine_of, migrate, opened, tenant

FIRST_RELEASE = "0027"


@pytest.fixture
def old_url(empty_url: str) -> str:
    return aged(empty_url)


def aged(url: str) -> str:
    """A database as the first release made it, with a tenant."""
    with opened(url) as store:
        with store.write() as session:
            session.add(tenant("ann"))
        migrate(engine_of(store), alembic.command.downgrade, FIRST_RELEASE)
    return url


def tenants(store: Store) -> list[str]:
    with store.read() as session:
        return list(session.scalars(text("SELECT name FROM tenant")))


def test_an_upgrade_keeps_rows_and_says_how_to_go_back(old_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """All rows are there, and the log names the way back; a second opening upgrades nothing."""
    caplog.set_level(logging.INFO, "braid.database")
    for _ in range(2):
        with opened(old_url) as store:
            assert ["ann"] == tenants(store)
            assert "webhook" in inspect(engine_of(store)).get_table_names()
    assert [f"`braid downgrade {FIRST_RELEASE}` takes them back"] == [
        record.getMessage().partition("; ")[2] for record in caplog.records
    ]


def test_a_file_is_copied_before_an_upgrade(tmp_path: Path) -> None:
    """The copy has the tables and rows of before, and nobody else may read it."""
    url = aged(sqlite_url(tmp_path / "braid.db"))
    with opened(url) as store, store.write() as session:
        session.add(tenant("bob"))
    copy = tmp_path / f"braid.db.{FIRST_RELEASE}"
    with closing(sqlite3.connect(copy)) as connection:
        assert [("ann",)] == connection.execute("SELECT name FROM tenant").fetchall()
        assert [(FIRST_RELEASE,)] == connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert not is_open_to_others(copy)


def test_an_upgraded_database_goes_back(old_url: str) -> None:
    """Its tables are those of the older release again, and what that knows has stayed, with what came since."""
    with opened(old_url) as store:
        with store.write() as session:
            session.add(tenant("bob"))
        newest = set(inspect(engine_of(store)).get_table_names())
    downgrade(old_url, FIRST_RELEASE)
    with opened(old_url) as store:
        # Opening brings it up again, with all rows and without what only newer releases keep.
        assert ["ann", "bob"] == sorted(tenants(store))
        migrate(engine_of(store), alembic.command.downgrade, FIRST_RELEASE)
        gone = newest - set(inspect(engine_of(store)).get_table_names())
        assert {"retired_topic", "series", "webhook", "webhook_delivery"} <= gone


@pytest.mark.parametrize("revision", [newest_scheme(), "9999", "base", "-1"])
def test_only_an_older_revision_is_gone_back_to(empty_url: str, revision: str) -> None:
    """The message names those that there are; nothing changes."""
    with opened(empty_url):
        pass
    with pytest.raises(
        DatabaseDown, match=rf"{revision} is none of the older ones that this Braid knows: .*0028, 0027"
    ):
        downgrade(empty_url, revision)


def test_a_database_in_use_does_not_go_back(old_url: str) -> None:
    """While a manager leads, nothing changes; once it has left, it does."""
    with opened(old_url) as store:
        with store.write() as session:
            row = session.get_one(Leadership, 1)
            row.leader, row.until = "one", store.now(session) + 60.0
        with pytest.raises(DatabaseDown, match=r"the manager one leads on .*; stop every manager first"):
            downgrade(old_url, FIRST_RELEASE)
        with store.write() as session:
            session.get_one(Leadership, 1).until = 0.0
    downgrade(old_url, FIRST_RELEASE)


def test_the_command_says_what_to_do_next(braid: Braid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no service, and refuses in one line."""
    monkeypatch.setenv("BRAID_ROOT", str(tmp_path))
    Store(sqlite_url(tmp_path / "braid.db")).close()
    done = braid("downgrade", FIRST_RELEASE)
    assert (0, True) == (done.exit_code, done.stdout.endswith("revision 0027; start the release that made them\n"))
    again = braid("downgrade", FIRST_RELEASE)
    assert (1, 1, True) == (again.exit_code, again.stderr.count("\n"), "is none of the older ones" in again.stderr)


def test_machines_that_were_added_are_rentals_of_a_class_that_nobody_set(empty_url: str) -> None:
    """They are added ones again after a downgrade."""
    with opened(empty_url) as store:
        migrate(engine_of(store), alembic.command.downgrade, "0033")
        with store.write() as session:
            session.execute(text("INSERT INTO machine (name, draining, added) VALUES ('added-1', false, 7.0)"))
            session.execute(text("INSERT INTO machine (name, draining) VALUES ('north', false)"))
        migrate(engine_of(store), alembic.command.upgrade, "head")
        with store.read() as session:
            assert [(1, "added-1", "added", 7.0, None)] == [
                tuple(row)
                for row in session.execute(text("SELECT number, machine, machine_class, ordered, ended FROM rental"))
            ]
        migrate(engine_of(store), alembic.command.downgrade, "0033")
        with store.read() as session:
            assert [("added-1", 7.0), ("north", None)] == [
                tuple(row) for row in session.execute(text("SELECT name, added FROM machine ORDER BY name"))
            ]
