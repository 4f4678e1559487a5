"""What is kept is its owner's only, whatever the mask of the process would leave to others."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.machine.private_files import is_open_to_others, make_private_file, make_private_folder
from manager.backup import back_up, restore
from manager.process.settings import write_key
from manager.store.database import Store, sqlite_url
from manager.store.tables import Leadership


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process whose files are open to everybody, as usual, or to nobody else."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """The rights of a folder's files, by their names."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir() if path.is_file()}


def test_a_database_and_the_files_beside_it_are_its_owners(tmp_path: Path) -> None:
    """Also its log and its index, and one that was open to others before."""
    made = tmp_path / "braid.db"
    for _ in range(2):
        store = Store(sqlite_url(made))
        with store.write() as session:
            session.get_one(Leadership, 1).version += 1
        assert dict.fromkeys(("braid.db", "braid.db-wal", "braid.db-shm"), "0o600") == modes(tmp_path)
        store.close()
        made.chmod(0o644)


def test_a_backup_and_what_is_restored_from_it_are_their_owners(tmp_path: Path) -> None:
    """The archive, the root that it is restored to, the database and the key in it."""
    root, archive, again = tmp_path / "root", tmp_path / "archive.tar", tmp_path / "far" / "again"
    make_private_folder(root)
    Store(sqlite_url(root / "braid.db")).close()
    write_key(root, "secret")
    back_up(root, sqlite_url(root / "braid.db"), archive, with_key=True)
    restore(archive, again, sqlite_url(again / "braid.db"))
    assert ["0o600"] == list(modes(tmp_path).values())
    assert {"braid.db": "0o600", "key": "0o600"} == {name: modes(again)[name] for name in ("braid.db", "key")}
    assert [False, False] == [is_open_to_others(each) for each in (root, again)]


def test_what_is_there_keeps_what_is_in_it(tmp_path: Path) -> None:
    """A file is closed to others without being touched; a folder that somebody else made stays as it was made."""
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
