"""Looks at a root that a host changes meanwhile: awkward moments, and laws."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge.files import make_folder, no_steps, write_whole
from bridge.spools.log import Mark, write_mark
from engine.replicas.root_look import Files, FileVersion, RootFolders, RootLook, SeenFolder, Tree
from tests.engine.replicas.host_model import HostModel, faults

SPOOL = "spools/s"


def log(root: Path, *firsts: int) -> None:
    """Put files of one position each into the log."""
    make_folder(root / SPOOL / "log")
    for first in firsts:
        write_whole(root / SPOOL / "log" / f"{first:020d}-{first + 1:020d}", b"x")


def removed(root: Path, *firsts: int) -> None:
    """Remove files from the log."""
    for first in firsts:
        (root / SPOOL / "log" / f"{first:020d}-{first + 1:020d}").unlink()


def between(act: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *, folder: str = f"{SPOOL}/log") -> None:
    """Do something just before a folder is listed for the second time."""
    listed, times = RootFolders.seen, 0

    def seen(self: RootFolders, name: str) -> SeenFolder:
        nonlocal times
        times += name == folder
        if name == folder and times == 2:
            act()
        return listed(self, name)

    monkeypatch.setattr(RootFolders, "seen", seen)


def names(found: Tree | None, folder: str) -> list[str]:
    assert found is not None
    return sorted(found[folder])


def test_what_goes_during_a_look_stays_for_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that are pruned in a look are still needed by jobs as they were listed in it."""
    log(tmp_path, 0, 1)
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None
    before = names(known, f"{SPOOL}/log")
    between(lambda: removed(tmp_path, 0), monkeypatch)
    assert before == names(look.whole(known), f"{SPOOL}/log")
    assert before[1:] == names(look.whole(known), f"{SPOOL}/log")


def test_what_goes_before_it_was_sent_takes_another_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was noted, is gone and is not in the copy cannot be kept for now."""
    log(tmp_path, 0, 1)
    look = RootLook(tmp_path)
    between(lambda: removed(tmp_path, 0), monkeypatch)
    assert look.whole({}) is None
    assert look.whole({}) is not None


def test_what_comes_and_goes_during_a_look_takes_another_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with a hole is none, though each of its files is there."""
    log(tmp_path, 0)
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None

    def act() -> None:
        log(tmp_path, 1, 2)
        removed(tmp_path, 0, 1)

    between(act, monkeypatch)
    assert look.whole(known) is None
    assert [f"{2:020d}-{3:020d}"] == names(look.whole(known), f"{SPOOL}/log")


def test_a_log_that_was_filled_and_emptied_during_a_look_takes_another_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark tells that there were events beyond the files that stay for now."""
    log(tmp_path, 0)
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None

    def act() -> None:
        log(tmp_path, 1)
        write_mark(tmp_path / SPOOL, Mark(2, {}), no_steps)
        removed(tmp_path, 0, 1)

    between(act, monkeypatch)
    assert look.whole(known) is None
    found = look.whole(known)
    assert [] == names(found, f"{SPOOL}/log")
    assert ["high-water"] == names(found, SPOOL)


def test_a_part_removes_nothing_from_a_spool(tmp_path: Path) -> None:
    """Other jobs, which are not looked at, may need what was pruned."""
    log(tmp_path, 0, 1)
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None
    log(tmp_path, 2)
    removed(tmp_path, 0)
    found = look.part([SPOOL], known)
    assert [f"{first:020d}-{first + 1:020d}" for first in (0, 1, 2)] == names(found, f"{SPOOL}/log")


def test_a_part_whose_spool_was_emptied_takes_a_look_at_all(tmp_path: Path) -> None:
    """The mark of an emptied log does not fit the files that a copy still has."""
    log(tmp_path, 0)
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None
    log(tmp_path, 1)
    write_mark(tmp_path / SPOOL, Mark(2, {}), no_steps)
    removed(tmp_path, 0, 1)
    assert look.part([SPOOL], known) is None


def test_another_job_of_that_name_is_no_mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a job is removed and made anew during a look, its files are not those of both."""
    folder = tmp_path / "jobs/j"
    make_folder(folder / "plans")
    write_whole(folder / "lease", b"")
    write_whole(folder / "plans/00000001", b"old")
    look = RootLook(tmp_path)
    known = look.whole({})
    assert known is not None

    def act() -> None:
        folder.rename(tmp_path / "away")
        make_folder(folder / "plans")
        write_whole(folder / "lease", b"")

    between(act, monkeypatch, folder="jobs/j/plans")
    assert look.whole(known) is None
    assert [] == names(look.whole(known), "jobs/j/plans")


def test_a_plan_that_cannot_be_read_takes_a_look_at_all(tmp_path: Path) -> None:
    """Nobody knows which spools it reads."""
    make_folder(tmp_path / "jobs/j/plans")
    write_whole(tmp_path / "jobs/j/plans/00000001", b"damaged")
    look = RootLook(tmp_path)
    assert look.part(["jobs/j"], {}) is None
    assert ["00000001"] == names(look.whole({}), "jobs/j/plans")


def test_quiet_folders_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose time is long past is taken as it was seen; one that changed just now is not."""
    log(tmp_path, 0)
    look = RootLook(tmp_path)
    look.whole({})
    listings: list[str] = []
    listed = RootFolders._listed

    def counted(self: RootFolders, folder: str, path: str, before: Files) -> tuple[Files, list[str]]:
        listings.append(folder)
        return listed(self, folder, path, before)

    monkeypatch.setattr(RootFolders, "_listed", counted)
    look.whole({})
    assert f"{SPOOL}/log" in listings
    monkeypatch.setattr("engine.replicas.root_look._COARSE", -1)
    look.whole({})
    listings.clear()
    look.whole({})
    assert [] == listings


QUIET = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Kept:
    """A copy as an owner builds it by looks, in memory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree: Tree = {}
        self.files: dict[str, bytes] = {}

    def take(self, found: Tree) -> bool:
        """Take what was found; False if some of it is gone already."""
        files: dict[str, bytes] = {}
        for folder, names in found.items():
            for name, version in names.items():
                path = f"{folder}/{name}"
                if self.tree.get(folder, {}).get(name) == version:
                    files[path] = self.files[path]
                    continue
                try:
                    found_now = (self.root / path).stat()
                except FileNotFoundError:
                    return False
                if FileVersion(found_now.st_size, found_now.st_mtime_ns, found_now.st_ino) != version:
                    return False
                files[path] = (self.root / path).read_bytes()
        self.tree, self.files = found, files
        return True


@QUIET
@given(
    seed=st.integers(0, 2**32),
    before=st.integers(0, 200),
    busy=st.sampled_from((0, 0, 1)),
    burst=st.sampled_from((10, 30, 60, 120)),
)
def test_a_host_could_go_on_from_every_look(
    tmp_path_factory: pytest.TempPathFactory, seed: int, before: int, busy: int, burst: int
) -> None:
    """Whatever the host does between any two listings of a look, what is found is what a crash might have left."""
    root = tmp_path_factory.mktemp("root")
    look, kept, listings = RootLook(root), Kept(root), 0
    with pytest.MonkeyPatch.context() as patch:
        # No power fails here.
        patch.setattr(os, "fsync", lambda _handle: None)
        model = HostModel(root, seed)
        for _ in range(before):
            model.step()
        listed = RootFolders.seen

        def seen(self: RootFolders, folder: str) -> SeenFolder:
            # A look stalls once, or is not disturbed at all.
            nonlocal listings
            listings -= 1
            for _ in range(burst if listings == 0 else model.chance.choice((0, 0, 0, busy)) if listings > 0 else 0):
                model.step()
            return listed(self, folder)

        patch.setattr(RootFolders, "seen", seen)
        for stalls in (False, True) * 12:
            # A look soon after another finds most files known, so it holds together though much goes meanwhile.
            listings = model.chance.randint(1, 65) if stalls else 0
            found = look.whole(kept.tree)
            if found is not None and kept.take(found):
                assert [] == list(faults(kept.files))
            for _ in range(0 if stalls else model.chance.choice((0, 5, 20))):
                model.step()
        listings = busy = 0
        found = look.whole(kept.tree)
        assert found is not None
        assert kept.take(found)
        assert [] == list(faults(kept.files))
    on_disk = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert on_disk == set(kept.files)
