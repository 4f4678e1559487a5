"""The access keeper: it writes files that differ, and lets the broker reload them."""

import os
import stat
import threading
from pathlib import Path

import pytest

from bridge.embedded import hashed
from manager.tenants.broker_access import AccessKeeper, Grant, OwnedTopic, UnfitName, access_list, grant, password_list

ANN = grant(["ann"], [OwnedTopic(owner="ann", topic="raw/ann")])
BOTH = grant(["ann", "bob"], [OwnedTopic(owner="ann", topic="raw/ann")])
HASHES = {"tenant-ann": hashed("a"), "tenant-bob": hashed("b")}


class ReloadCounter:
    """A broker that counts its reloads, and keeps the files that it read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[tuple[str, str]] = []
        self.away = False

    def __call__(self) -> None:
        if self.away:
            raise ConnectionError("away")
        self.read.append(((self.folder / "acl").read_text(), (self.folder / "passwords").read_text()))


@pytest.fixture
def broker(tmp_path: Path) -> ReloadCounter:
    return ReloadCounter(tmp_path / "made" / "access")


def test_the_broker_reloads_after_each_change(broker: ReloadCounter) -> None:
    """Each change is written first, and then reloaded once."""
    keeper = AccessKeeper(broker.folder, broker)
    for grants in (ANN, ANN, BOTH, ANN):
        keeper.keep(grants, HASHES)
    passwords = password_list(HASHES)
    assert [(access_list(each), passwords) for each in (ANN, BOTH, ANN)] == broker.read


def test_unchanged_files_are_not_written_again(broker: ReloadCounter) -> None:
    """They stay the same files."""
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    before = [(broker.folder / name).stat().st_ino for name in ("acl", "passwords")]
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert before == [(broker.folder / name).stat().st_ino for name in ("acl", "passwords")]


def test_a_new_process_reloads_the_broker(broker: ReloadCounter) -> None:
    """The process that wrote the files may have died before the reload."""
    AccessKeeper(broker.folder, lambda: None).keep(ANN, HASHES)
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert 1 == len(broker.read)


def test_a_failed_reload_is_repeated(broker: ReloadCounter) -> None:
    """The error is raised, and the next call reloads even if nothing has changed since."""
    keeper = AccessKeeper(broker.folder, broker)
    keeper.keep(ANN, HASHES)
    broker.away = True
    with pytest.raises(ConnectionError, match="away"):
        keeper.keep(BOTH, HASHES)
    broker.away = False
    keeper.keep(BOTH, HASHES)
    assert [access_list(ANN), access_list(BOTH)] == [acl for acl, _ in broker.read]


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize(
    ("folder_mode", "file_mode"), [(0o755, 0o600), (0o700, 0o600), (0o2750, 0o640), (0o2700, 0o640)]
)
def test_a_group_can_read_only_with_the_set_group_id_bit(
    broker: ReloadCounter, folder_mode: int, file_mode: int, umask: int
) -> None:
    """Otherwise only the owner can read the files."""
    broker.folder.mkdir(parents=True)
    broker.folder.chmod(folder_mode)
    before = os.umask(umask)
    try:
        AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    finally:
        os.umask(before)
    for name in ("acl", "passwords"):
        assert file_mode == stat.S_IMODE((broker.folder / name).stat().st_mode)


def test_a_file_with_wrong_permissions_is_written_again(broker: ReloadCounter) -> None:
    """That is so even if its content is right."""
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    (broker.folder / "passwords").chmod(0o644)
    AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
    assert 0o600 == stat.S_IMODE((broker.folder / "passwords").stat().st_mode)


def test_a_leftover_temporary_file_is_not_written_to(broker: ReloadCounter) -> None:
    """Others may be able to read it."""
    (broker.folder / "tmp").mkdir(parents=True)
    left = broker.folder / "tmp" / "passwords"
    left.write_text("half")
    left.chmod(0o644)
    with left.open() as others:
        AccessKeeper(broker.folder, broker).keep(ANN, HASHES)
        assert "half" == others.read()
    assert 0o600 == stat.S_IMODE((broker.folder / "passwords").stat().st_mode)


def test_unfit_grants_change_nothing(broker: ReloadCounter) -> None:
    """If a hash or a name is refused, both files stay, and the broker is not reloaded."""
    keeper = AccessKeeper(broker.folder, broker)
    keeper.keep(ANN, HASHES)
    with pytest.raises(ValueError, match="no hash"):
        keeper.keep(BOTH, {**HASHES, "tenant-bob": "plain"})
    with pytest.raises(UnfitName):
        keeper.keep({"b": Grant(tenant="b", writes=("#",))}, HASHES)
    assert [(access_list(ANN), password_list(HASHES))] == broker.read
    assert access_list(ANN) == (broker.folder / "acl").read_text()


def test_threads_keep_in_turn(broker: ReloadCounter) -> None:
    """However many threads call it, the broker reads one complete pair of files at a time, and the last pair last."""
    keeper = AccessKeeper(broker.folder, broker)
    wanted = [grant([f"t{n}"], []) for n in range(8)]
    hashes = [{f"tenant-t{n}": hashed("x")} for n in range(8)]
    threads = [threading.Thread(target=keeper.keep, args=pair) for pair in zip(wanted, hashes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pairs = [(access_list(one), password_list(other)) for one, other in zip(wanted, hashes, strict=True)]
    assert sorted(pairs) == sorted(broker.read)
    assert broker.read[-1] == ((broker.folder / "acl").read_text(), (broker.folder / "passwords").read_text())
