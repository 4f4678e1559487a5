"""Carriages in a backup: hosts are at home after a restore, and copies of the old service do not count."""

from pathlib import Path

from manager.backup import back_up, restore
from manager.store.database import sqlite_url
from tests.manager.carriages.machines import commit, committed_of, turn
from tests.manager.managers import Manager


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
