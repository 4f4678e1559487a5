"""Migrations: they lead from an empty database to the tables of the models, and back."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from manager.store.database import MIGRATIONS, DatabaseDown, Store, sqlite_url
from manager.store.tables import Leadership, OperationRow, TenantRow

FIRST = {
    "id": 1,
    "leader": "",
    "term": 0,
    "until": 0.0,
    "version": 0,
    "next_instance": 1,
    "next_job": 1,
    "service": "",
}


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = Store(url)
    try:
        yield store
    finally:
        store.close()


def engine_of(store: Store) -> Engine:
    return store._engine


def migrate(engine: Engine, command: Any, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command(config, revision)


def differences(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        found: list[Any] = compare_metadata(context, Leadership.metadata)
        return found


def test_the_migrations_make_the_tables_of_the_models(empty_url: str) -> None:
    """A migrated database does not differ from the models."""
    with opened(empty_url) as store:
        assert differences(engine_of(store)) == []


def test_a_differing_table_is_noticed(empty_url: str) -> None:
    """The comparison finds an extra column, a missing column and a missing index."""
    with opened(empty_url) as store:
        engine = engine_of(store)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE tenant ADD COLUMN more INTEGER"))
            connection.execute(text("ALTER TABLE job DROP COLUMN host"))
            connection.execute(text("DROP INDEX ix_dataflow_usage"))
        assert {"remove_column", "add_column", "add_index"} == {each[0] for each in differences(engine)}


def test_opening_again_changes_nothing(empty_url: str) -> None:
    """A database that is up to date keeps its content."""
    with opened(empty_url) as store, store.write() as session:
        session.add(TenantRow(name="ann", dataflows=1, tasks=2, submits_per_minute=3, created=4.5))
        session.get_one(Leadership, 1).version = 7
    with opened(empty_url) as store, store.read() as session:
        row = session.get_one(TenantRow, "ann")
        assert (row.dataflows, row.tasks, row.submits_per_minute, row.created) == (1, 2, 3, 4.5)
        assert session.get_one(Leadership, 1).version == 7


def test_down_and_up_again_leaves_the_first_row(empty_url: str) -> None:
    """A downgrade removes every table, and an upgrade makes all of them with the row of the leadership."""
    with opened(empty_url) as store:
        engine = engine_of(store)
        migrate(engine, alembic.command.downgrade, "base")
        assert inspect(engine).get_table_names() == ["alembic_version"]
        migrate(engine, alembic.command.upgrade, "head")
        assert differences(engine) == []
        with store.read() as session:
            assert session.get_one(Leadership, 1).model_dump() == FIRST


def test_managers_may_start_at_once(empty_url: str) -> None:
    """Several managers that open an empty database at the same time can all use it."""
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(Store, [empty_url] * 4))
    for store in stores:
        with store.read() as session:
            assert session.get_one(Leadership, 1).model_dump() == FIRST
        store.close()


def test_an_empty_database_in_use_is_awaited(tmp_path: Path) -> None:
    """On SQLite another manager may be migrating it; one that takes too long is reported."""
    path = tmp_path / "braid.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer, ThreadPoolExecutor(1) as thread:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseDown, match="database is locked"):
            Store(f"{sqlite_url(path)}?timeout=0.05")
        waiting = thread.submit(Store, sqlite_url(path))
        wait([waiting], timeout=0.2)
        writer.execute("ROLLBACK")
    with closing(waiting.result()) as store, store.read() as session:
        assert session.get_one(Leadership, 1).model_dump() == FIRST


def test_a_database_of_a_newer_braid_is_refused(empty_url: str) -> None:
    """An unknown revision is reported with the remedy, and nothing is changed."""
    with opened(empty_url) as store, engine_of(store).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseDown, match=r"cannot be brought up to date: .*'9999'; a newer Braid may have made it"):
        Store(empty_url)


def test_ids_are_never_used_again(empty_url: str) -> None:
    """A row after the newest was deleted has a new id, and ids may exceed 32 bits."""
    with opened(empty_url) as store:
        with store.write() as session:
            session.execute(text(SOURCE.format(name="a")))
            first = session.scalar(text("SELECT max(id) FROM source"))
            session.execute(text("DELETE FROM source"))
            session.execute(text(SOURCE.format(name="b")))
            assert session.scalar(text("SELECT max(id) FROM source")) > first
            session.get_one(Leadership, 1).next_instance = 2**40
            session.add(OperationRow(id=2**40, at=0.0, kind="submit", who="ann", subject="d-1", seconds=0.0))
        with store.read() as session:
            assert session.get_one(Leadership, 1).next_instance == 2**40 == session.get_one(OperationRow, 2**40).id


SOURCE = (
    "INSERT INTO source (name, owner, connection, fields, visibility, readers, registered)"
    " VALUES ('{name}', 'ann', '{{}}', '{{}}', 'private', '[]', 0)"
)
