"""Private files: only their owner can read them, for any umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.files import is_open_to_others, make_private_file, make_private_folder
from manager.backup import back_up, restore
from manager.settings import write_key
from manager.store.database import Store, sqlite_url
from manager.store.tables import Leadership


@pytest.fixture(autouse=True, params=[0o000, 0o022, 0o077], ids=oct)
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process with a usual umask, or one that permits nothing to others."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the permissions of a folder's files, by name."""
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir() if path.is_file()}


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
