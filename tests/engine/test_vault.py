"""The vault: a secret is found only by its owner and name, and only with the key."""

import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.outside import VAULT_FOLDER, VAULT_KEY, NoSecret, Vault

NAMES = st.one_of(
    st.sampled_from(["", ".", "..", "tmp", "=.", "a/b", "changed"]), st.text(st.characters(codec="utf-8"), max_size=15)
)


@settings(max_examples=10)
@given(kept=st.dictionaries(st.tuples(NAMES, NAMES), st.text(st.characters(codec="utf-8"), min_size=1), max_size=6))
def test_every_secret_is_found_again(
    kept: dict[tuple[str, str], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With any names of owners and secrets. Each is listed with its owner."""
    root = tmp_path_factory.mktemp("root")
    for (owner, name), secret in kept.items():
        Vault(root).put(owner, name, secret)
    vault = Vault(root)
    assert kept == {(owner, name): vault.reveal(owner, name) for owner, name in kept}
    assert sorted(kept) == sorted((owner, name) for owner in vault.owners() for name in vault.names(owner))


def test_files_and_key_are_for_their_owner_only(tmp_path: Path) -> None:
    """And no file but the key reveals a secret without it."""
    vault = Vault(tmp_path)
    vault.put("ann", "lake", "sesame")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        assert b"sesame" not in path.read_bytes()
    for path in (tmp_path / VAULT_KEY, tmp_path / VAULT_FOLDER / "=ann" / "=lake"):
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_replaced_and_removed(tmp_path: Path) -> None:
    """The version changes each time, so that a process with an old secret reads it again."""
    vault = Vault(tmp_path)
    versions = [vault.version]
    vault.put("ann", "lake", "one")
    versions.append(vault.version)
    vault.put("ann", "lake", "two")
    versions.append(vault.version)
    assert "two" == vault.reveal("ann", "lake")
    assert (True, False) == (vault.remove("ann", "lake"), vault.remove("ann", "lake"))
    versions.append(vault.version)
    assert 4 == len(set(versions))
    with pytest.raises(NoSecret, match="'ann' has no secret 'lake'; put it with `braid secrets put lake`"):
        vault.reveal("ann", "lake")


def test_a_secret_belongs_to_its_owner(tmp_path: Path) -> None:
    """Moving its file does not help, nor does another key. The message contains a remedy."""
    vault = Vault(tmp_path)
    vault.put("ann", "lake", "sesame")
    vault.put("bob", "lake", "his own")
    folder = tmp_path / VAULT_FOLDER
    (folder / "=bob" / "=lake").write_bytes((folder / "=ann" / "=lake").read_bytes())
    with pytest.raises(NoSecret, match="put it again with `braid secrets put lake`"):
        vault.reveal("bob", "lake")
    for content, reason in ((None, "is missing; restore it"), (b"short", "is not a key"), (None, "is missing")):
        (tmp_path / VAULT_KEY).unlink(missing_ok=True)
        if content is not None:
            (tmp_path / VAULT_KEY).write_bytes(content)
        with pytest.raises(NoSecret, match=reason):
            vault.reveal("ann", "lake")
    vault.put("bob", "lake", "anew")
    assert "anew" == vault.reveal("bob", "lake")
    with pytest.raises(NoSecret, match="cannot be read with the key"):
        vault.reveal("ann", "lake")
