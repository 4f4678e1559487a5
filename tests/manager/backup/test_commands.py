"""`braid backup` and `braid restore`: output and exit codes; and carriages in a backup."""

from pathlib import Path

import pytest

from manager.backup import back_up, restore
from manager.settings import read_settings
from manager.store.database import Store, sqlite_url
from tests.manager.braid_runner import Braid
from tests.manager.machines.carriages import commit, committed_of, turn
from tests.manager.managers import Manager


@pytest.fixture
def root(braid: Braid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a service, set in the environment."""
    made = tmp_path / "root"
    made.mkdir()
    Store(sqlite_url(made / "braid.db")).close()
    monkeypatch.setenv("BRAID_ROOT", str(made))
    assert braid.requests() == []
    return made


def test_a_backup_is_made_and_restored(braid: Braid, root: Path, tmp_path: Path) -> None:
    """Without a running service or a key. The output says what it holds, and the next step."""
    result = braid("backup", "backup.tar")
    assert (0, "backup.tar holds 0 dataflows and 0 jobs; keep it where others cannot read it\n") == (
        result.exit_code,
        result.stdout,
    )
    result = braid("restore", "backup.tar", "--root", "other")
    assert (0, True) == (result.exit_code, "start it with `braid serve`" in result.stdout)
    assert (tmp_path / "other" / "braid.db").exists()
    assert read_settings().root == root


def test_a_backup_is_described_as_json(braid: Braid, root: Path) -> None:
    """Both commands print the same document, without the list of files."""
    (root / "key").write_text("braid_key")
    made = braid.printed_json("backup", "backup.tar", "--with-key", "--with-spools")
    assert (True, True, 0, 0) == (made["key"], made["spools"], made["jobs"], made["counts"]["tenant"])
    assert "files" not in made
    assert made == braid.printed_json("restore", "backup.tar", "--root", "other")


def test_a_refusal_is_one_line(braid: Braid, root: Path) -> None:
    """With exit code 1, and nothing done."""
    assert 0 == braid("backup", "backup.tar").exit_code
    again = braid("backup", "backup.tar")
    assert (1, "backup.tar is there already; choose another name, or remove it first\n") == (
        again.exit_code,
        again.stderr,
    )
    onto = braid("restore", "backup.tar")
    assert (1, f"{root} is not empty; name another root, or move away what is in it\n") == (onto.exit_code, onto.stderr)
    Path("damaged.tar").write_bytes(Path("backup.tar").read_bytes()[:2_000])
    damaged = braid("restore", "damaged.tar", "--root", "other")
    assert (1, True) == (damaged.exit_code, damaged.stderr.startswith("damaged.tar is damaged: "))
    assert not Path("other").exists()


def test_a_missing_database_is_reported_without_its_password(
    braid: Braid, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a line with the database and the remedy."""
    monkeypatch.setenv("BRAID_DATABASE", "sqlite:////nowhere/braid.db")
    refused = braid("backup", "backup.tar")
    assert (1, "there is no database at /nowhere/braid.db; name the root of a service\n") == (
        refused.exit_code,
        refused.stderr,
    )
    assert root.is_dir()


def test_restored_hosts_are_at_home_without_copies(empty_url: str, tmp_path: Path) -> None:
    """Each begins in a term of its own, so machines of the old service are refused; places and drains are kept."""
    before = Manager(empty_url).lead()
    old = committed_of(before)
    peered = turn("h", "b", term=4, version=9, heir="c", peers=("c",), kept_by=frozenset({"c"}), root="r")
    commit(old, peered, tokens={"b": 2**31})
    commit(old, turn("gone", "a"))
    old.forget("a", ending={"gone"}, who="operator")
    old.drain("b", draining=True, who="operator")
    (tmp_path / "root").mkdir()
    back_up(tmp_path / "root", empty_url, tmp_path / "backup.tar")
    commit(old, turn("h", "c", term=900, version=1_000))
    other = sqlite_url(tmp_path / "other" / "braid.db")
    restore(tmp_path / "backup.tar", tmp_path / "other", other)
    after = Manager(other, "two").lead()
    fleet = committed_of(after).fleet()
    home = fleet.carriages["h"]
    assert (home.machine, home.heir, home.peers, home.roots, home.root) == ("h", "", (), (), "")
    assert not home.kept_by
    assert home.term > 900
    assert (fleet.ended["gone"].machine, fleet.ended["gone"].term > 900) == ("", True)
    assert (dict(fleet.tokens), fleet.draining) == ({"b": 2**31}, frozenset({"b"}))
    for each in (before, after):
        each.close()
