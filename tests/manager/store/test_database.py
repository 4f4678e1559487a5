"""The database: one writer, all or nothing, clear errors, private files, and migrations there and back."""

import os
import socket
import sqlite3
import stat
import threading
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
from sqlmodel import select

from bridge.files import is_open_to_others, make_private_file, make_private_folder
from manager.backup import back_up, restore
from manager.problem import DatabaseAway
from manager.settings import write_key
from manager.store.database import MIGRATIONS, DatabaseDown, Store, sqlite_url
from manager.store.tables import CredentialRow, Leadership, OperationRow, TenantRow
from tests.manager.databases import Server


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    made = Store(empty_url)
    yield made
    made.close()


def tenant(name: str) -> TenantRow:
    return TenantRow(name=name, dataflows=1, tasks=1, submits_per_minute=1, created=0.0)


class Broken(Exception):
    """The error that interrupts a change."""


def test_a_failed_change_leaves_nothing(store: Store) -> None:
    """A change that fails after rows were written leaves none of them, and the next change succeeds."""

    def change() -> None:
        with store.write() as session:
            session.add(tenant("ann"))
            session.get_one(Leadership, 1).version = 5
            session.flush()
            raise Broken

    with pytest.raises(Broken):
        change()
    with store.write() as session:
        assert session.get(TenantRow, "ann") is None
        assert session.get_one(Leadership, 1).version == 0
        session.add(tenant("bob"))
    with store.read() as session:
        assert session.get(TenantRow, "bob") is not None


def test_a_writer_waits_for_the_one_before_it(store: Store) -> None:
    """A second change sees the result of the first, so no count is lost."""
    inside, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with store.write() as session:
            row = session.get_one(Leadership, 1)
            inside.set()
            assert go_on.wait(30)
            row.version += 1

    def second() -> int:
        assert inside.wait(30)
        # The first goes on only once this one is about to wait.
        threading.Timer(0.2, go_on.set).start()
        with store.write() as session:
            row = session.get_one(Leadership, 1)
            row.version += 1
            return row.version

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.submit(first), threads.submit(second)
        one.result(60)
        assert other.result(60) == 2


def test_many_writers_lose_nothing(store: Store) -> None:
    """If many threads add to one number by reading and writing it, the sum is complete."""

    def add(_: int) -> None:
        for _ in range(10):
            with store.write() as session:
                session.get_one(Leadership, 1).version += 1

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(add, range(20)))
    with store.read() as session:
        assert session.get_one(Leadership, 1).version == 200


def test_a_reader_sees_one_state(store: Store) -> None:
    """A commit during a read is not seen by that reader, but by the next one."""
    with store.read() as reader:
        assert reader.get_one(Leadership, 1).version == 0
        with store.write() as session:
            session.get_one(Leadership, 1).version = 3
            session.add(tenant("ann"))
        assert reader.scalars(select(TenantRow)).all() == []
    with store.read() as reader:
        assert reader.get_one(Leadership, 1).version == 3
        assert [row.name for row in reader.scalars(select(TenantRow))] == ["ann"]


def test_many_readers_do_not_block_a_writer(store: Store) -> None:
    """However many sessions are open, a writer gets one too."""
    with ThreadPoolExecutor(40) as threads:
        everybody = threading.Barrier(41)

        def read(_: int) -> int:
            with store.read() as session:
                session.get_one(Leadership, 1)
                everybody.wait(60)
                everybody.wait(60)
            return 1

        reading = [threads.submit(read, number) for number in range(40)]
        everybody.wait(60)
        with store.write() as session:
            session.add(tenant("ann"))
        everybody.wait(60)
        assert sum(each.result(60) for each in reading) == 40


def test_the_clock_is_that_of_the_database(store: Store) -> None:
    """It has seconds since 1970, and continues within a transaction."""
    with store.read() as session:
        first = store.now(session)
        assert first > 1_700_000_000
        while store.now(session) == first:
            pass


def test_text_of_any_script_is_stored(store: Store) -> None:
    """It is read as it was written."""
    with store.write() as session:
        session.add(CredentialRow(tenant="ann", hash="é→日本\U0001f600", created=0.0))
    with store.read() as session:
        assert session.get_one(CredentialRow, "ann").hash == "é→日本\U0001f600"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        pytest.param("no url", "the database's URL cannot be read; write it as", id="no URL at all"),
        pytest.param("postgresql://u:secret@host:port/n", "the database's URL cannot be read; write it as", id="port"),
        pytest.param("mysql://u:secret@host/n", "SQLite or PostgreSQL, not in mysql; write it as", id="another kind"),
        pytest.param("sqlite://", "a database in memory keeps nothing", id="memory"),
        pytest.param("sqlite:///:memory:", "a database in memory keeps nothing", id="memory by name"),
        pytest.param(
            "sqlite:////no/such/folder/braid.db",
            "the database sqlite:////no/such/folder/braid.db cannot be used: unable to open database file; see that",
            id="no folder",
        ),
    ],
)
def test_an_unusable_url_has_a_clear_error(url: str, why: str) -> None:
    """The error has the reason and the remedy, but no password."""
    with pytest.raises(DatabaseDown) as refused:
        Store(url)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_database_has_a_clear_error(tmp_path: Path) -> None:
    """The error names the file with the database's message, and the file is left as it was."""
    path = tmp_path / "notes.txt"
    path.write_text("These are notes. " * 100)
    with pytest.raises(DatabaseDown, match=r"notes\.txt cannot be used: file is not a database; see that"):
        Store(sqlite_url(path))
    assert path.read_text() == "These are notes. " * 100


def test_an_unreachable_server_has_a_clear_error() -> None:
    """The error names the server without the password."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://braid:secret@127.0.0.1:{taken.getsockname()[1]}/braid"
        with pytest.raises(DatabaseDown) as refused:
            Store(url)
    message = str(refused.value)
    assert "braid:***@127.0.0.1" in message
    assert "Can't create a connection to host 127.0.0.1" in message
    assert "secret" not in message


@pytest.mark.postgresql
def test_a_refusal_of_postgresql_is_quoted(postgresql: Server) -> None:
    """A wrong password, a missing database and an unknown option are reported in the server's words."""
    right = postgresql.url()
    cases = {
        right.replace(postgresql.password, "secret"): 'password authentication failed for user "braid"',
        postgresql.url("nowhere"): 'database "nowhere" does not exist',
        f"{right}?sslmode=secret": "unexpected keyword argument 'sslmode'",
    }
    for url, why in cases.items():
        with pytest.raises(DatabaseDown) as refused:
            Store(url)
        message = str(refused.value)
        assert why in message
        assert "secret" not in message
        assert postgresql.password not in message


@pytest.mark.postgresql
def test_a_writer_does_not_wait_forever(postgresql: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction of a suspended manager is ended, and the waiting one continues."""
    monkeypatch.setattr("manager.store.database._IDLE", 1.0)
    url = postgresql.new_database().replace("postgresql://", "postgres://")
    stuck, other = Store(url), Store(url)

    def stand_still() -> None:
        with stuck.write() as session:
            session.get_one(Leadership, 1).version = 1
            session.flush()
            with other.write() as patient:
                assert patient.get_one(Leadership, 1).version == 0
                patient.add(tenant("ann"))

    with pytest.raises(DatabaseAway):
        stand_still()
    with stuck.read() as session:
        assert session.get(TenantRow, "ann") is not None
        assert session.get_one(Leadership, 1).version == 0
    stuck.close()
    other.close()


def test_a_connection_that_is_reset_at_a_commit_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's driver raises the socket's own error then; nothing is written, and the next one is."""
    store = Store(sqlite_url(tmp_path / "braid.db"))

    def reset(_: object) -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    def write(name: str) -> None:
        with store.write() as session:
            session.add(tenant(name))

    with monkeypatch.context() as broken:
        broken.setattr(engine_of(store).dialect, "do_commit", reset)
        with pytest.raises(DatabaseAway):
            write("ann")
    write("bob")
    with store.read() as session:
        assert ["bob"] == [row.name for row in session.exec(select(TenantRow))]
    store.close()


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process with a usual umask, or one that permits nothing to others."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the permissions of a folder's files, by name."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir() if path.is_file()}


@pytest.mark.usefixtures("mask")
def test_a_database_with_its_files_is_private(tmp_path: Path) -> None:
    """So are its log and its index, and a file that was open to others before."""
    made = tmp_path / "braid.db"
    for _ in range(2):
        store = Store(sqlite_url(made))
        with store.write() as session:
            session.get_one(Leadership, 1).version += 1
        assert dict.fromkeys(("braid.db", "braid.db-wal", "braid.db-shm"), "0o600") == modes(tmp_path)
        store.close()
        made.chmod(0o644)


@pytest.mark.usefixtures("mask")
def test_a_backup_and_its_restoration_are_private(tmp_path: Path) -> None:
    """That covers the archive, the restored root, the database and the key."""
    root, archive, again = tmp_path / "root", tmp_path / "archive.tar", tmp_path / "far" / "again"
    make_private_folder(root)
    Store(sqlite_url(root / "braid.db")).close()
    write_key(root, "secret")
    back_up(root, sqlite_url(root / "braid.db"), archive, with_key=True)
    restore(archive, again, sqlite_url(again / "braid.db"))
    assert ["0o600"] == list(modes(tmp_path).values())
    assert {"braid.db": "0o600", "key": "0o600"} == {name: modes(again)[name] for name in ("braid.db", "key")}
    assert [False, False] == [is_open_to_others(each) for each in (root, again)]


@pytest.mark.usefixtures("mask")
def test_existing_files_keep_their_content(tmp_path: Path) -> None:
    """A file is made private without other changes; a folder made by others stays as it is."""
    kept = tmp_path / "kept"
    kept.write_text("words")
    kept.chmod(0o666)
    make_private_file(kept)
    assert ("words", False) == (kept.read_text(), is_open_to_others(kept))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    make_private_folder(shared)
    assert is_open_to_others(shared)


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
    remedy = r"of a newer Braid, .* revision 9999; start that one, or .*: `braid downgrade \d{4}`"
    with pytest.raises(DatabaseDown, match=remedy):
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
