"""The keeper: writes what differs, and has the broker read what it may not have read."""

import os
import stat
import threading
from pathlib import Path

import pytest

from bridge.embedded import hashed
from manager.access import AccessKeeper, OwnedTopic, UnfitName, access_list, grant, password_list
from manager.access.grants import Grant

ANN = grant(["ann"], [OwnedTopic(owner="ann", topic="raw/ann")])
BOTH = grant(["ann", "bob"], [OwnedTopic(owner="ann", topic="raw/ann")])
HASHES = {"tenant-ann": hashed("a"), "tenant-bob": hashed("b")}


class Told:
    """A broker that counts how often it was told, and what lay there then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[tuple[str, str]] = []
        self.away = False

    def __call__(self) -> None:
        if self.away:
            raise ConnectionError("away")
        self.read.append(((self.folder / "acl").read_text(), (self.folder / "passwords").read_text()))


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "made" / "access")


def test_a_broker_reads_what_is_kept(told: Told) -> None:
    """Each change is written, and only then the broker is told, once."""
    keeper = AccessKeeper(told.folder, told)
    for grants in (ANN, ANN, BOTH, ANN):
        keeper.keep(grants, HASHES)
    passwords = password_list(HASHES)
    assert [(access_list(each), passwords) for each in (ANN, BOTH, ANN)] == told.read


def test_what_is_the_same_is_not_written_again(told: Told) -> None:
    """Files that say already what they shall stay the same files."""
    AccessKeeper(told.folder, told).keep(ANN, HASHES)
    before = [(told.folder / name).stat().st_ino for name in ("acl", "passwords")]
    AccessKeeper(told.folder, told).keep(ANN, HASHES)
    assert before == [(told.folder / name).stat().st_ino for name in ("acl", "passwords")]


def test_a_new_process_tells_the_broker(told: Told) -> None:
    """Who wrote the files before may have died before it told the broker, so the next one does."""
    AccessKeeper(told.folder, lambda: None).keep(ANN, HASHES)
    AccessKeeper(told.folder, told).keep(ANN, HASHES)
    assert 1 == len(told.read)


def test_a_broker_that_could_not_be_told_is_told_again(told: Told) -> None:
    """The trouble is not hidden, and the next call tells the broker although nothing has changed since."""
    keeper = AccessKeeper(told.folder, told)
    keeper.keep(ANN, HASHES)
    told.away = True
    with pytest.raises(ConnectionError, match="away"):
        keeper.keep(BOTH, HASHES)
    told.away = False
    keeper.keep(BOTH, HASHES)
    assert [access_list(ANN), access_list(BOTH)] == [acl for acl, _ in told.read]


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o755, 0o600), (0o700, 0o600), (0o2750, 0o640), (0o2700, 0o640)]
)
def test_others_read_only_where_the_folder_says_so(told: Told, folder_mode: int, file_mode: int, umask: int) -> None:
    """Files are their owner's alone, but their group's too where the folder hands on its group."""
    told.folder.mkdir(parents=True)
    told.folder.chmod(folder_mode)
    before = os.umask(umask)
    try:
        AccessKeeper(told.folder, told).keep(ANN, HASHES)
    finally:
        os.umask(before)
    for name in ("acl", "passwords"):
        assert file_mode == stat.S_IMODE((told.folder / name).stat().st_mode)


def test_a_file_that_was_opened_to_others_is_closed(told: Told) -> None:
    """A file that says what it shall, but to too many, is written anew."""
    AccessKeeper(told.folder, told).keep(ANN, HASHES)
    (told.folder / "passwords").chmod(0o644)
    AccessKeeper(told.folder, told).keep(ANN, HASHES)
    assert 0o600 == stat.S_IMODE((told.folder / "passwords").stat().st_mode)


def test_what_a_crash_left_open_is_not_written_to(told: Told) -> None:
    """A temporary file that others may read, from whenever, gets no content."""
    (told.folder / "tmp").mkdir(parents=True)
    left = told.folder / "tmp" / "passwords"
    left.write_text("half")
    left.chmod(0o644)
    with left.open() as others:
        AccessKeeper(told.folder, told).keep(ANN, HASHES)
        assert "half" == others.read()
    assert 0o600 == stat.S_IMODE((told.folder / "passwords").stat().st_mode)


def test_unfit_grants_change_nothing(told: Told) -> None:
    """Where a hash or a name is refused, both files stay, and the broker is not told."""
    keeper = AccessKeeper(told.folder, told)
    keeper.keep(ANN, HASHES)
    with pytest.raises(ValueError, match="no hash"):
        keeper.keep(BOTH, {**HASHES, "tenant-bob": "plain"})
    with pytest.raises(UnfitName):
        keeper.keep({"b": Grant(tenant="b", writes=("#",))}, HASHES)
    assert [(access_list(ANN), password_list(HASHES))] == told.read
    assert access_list(ANN) == (told.folder / "acl").read_text()


def test_threads_keep_in_turn(told: Told) -> None:
    """However many threads keep at once, the broker reads one whole pair of files at a time, the last one last."""
    keeper = AccessKeeper(told.folder, told)
    wanted = [grant([f"t{n}"], []) for n in range(8)]
    hashes = [{f"tenant-t{n}": hashed("x")} for n in range(8)]
    threads = [threading.Thread(target=keeper.keep, args=pair) for pair in zip(wanted, hashes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(access_list(one), password_list(other)) for one, other in zip(wanted, hashes, strict=True)]
    assert sorted(pairs) == sorted(told.read)
    assert told.read[-1] == ((told.folder / "acl").read_text(), (told.folder / "passwords").read_text())
