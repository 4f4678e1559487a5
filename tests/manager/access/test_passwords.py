"""Hashes of passwords, in the form of mosquitto's own tool."""

import base64
import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.embedded import hashed
from manager.tenants.broker_access import password_list
from tests import needs


def holds(digest: str, password: str) -> bool:
    """Return true if a hash in mosquitto's form is that of a password."""
    _, seven, iterations, salt, key = digest.split("$")
    assert "7" == seven
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(salt), int(iterations), 64)
    return made == base64.b64decode(key)


@given(st.text(max_size=40))
def test_a_hash_matches_only_its_password(password: str) -> None:
    """Hashing again with its salt gives the same hash for that password only."""
    digest = hashed(password)
    assert holds(digest, password)
    assert not holds(digest, f"{password}x")


def test_equal_passwords_have_different_hashes() -> None:
    """Each hash has a salt of its own, so that equal passwords do not show."""
    assert 100 == len({hashed("secret") for _ in range(100)})


def test_a_hash_has_the_form_of_mosquitto_s_tool(tmp_path: Path) -> None:
    """The iterations and the lengths are the same."""
    needs.mosquitto_passwd()
    path = tmp_path / "passwords"
    path.write_text("a:secret\n")
    subprocess.run(["mosquitto_passwd", "-U", str(path)], check=True, capture_output=True)  # noqa: S603, S607 - as installed
    theirs = path.read_text().strip().removeprefix("a:")
    assert holds(theirs, "secret")
    assert [len(part) for part in theirs.split("$")] == [len(part) for part in hashed("secret").split("$")]
    assert theirs.split("$")[:3] == hashed("secret").split("$")[:3]


def test_a_password_list_is_ordered_by_user() -> None:
    """It has one line per user, independent of the order of the input."""
    one, two = hashed("one"), hashed("two")
    assert f"a:{one}\nb:{two}\n" == password_list({"b": two, "a": one})
    assert "" == password_list({})


@pytest.mark.parametrize("user", ["", "a:b", "#a", "a\nb", " a", "a "])
def test_an_ambiguous_user_is_refused(user: str) -> None:
    """A name that mosquitto would read as something else is an error."""
    with pytest.raises(ValueError, match="cannot name a user of the broker"):
        password_list({user: hashed("secret")})


@pytest.mark.parametrize("change", ["plain secret", "{}\nb:x", "{} ", "x{}", ""])
def test_a_plain_password_is_refused_and_not_shown(change: str) -> None:
    """The error does not contain it."""
    with pytest.raises(ValueError, match="is no hash of a password") as refused:
        password_list({"a": change.format(hashed("secret"))})
    assert "the entry for the user 'a' is no hash of a password; make it with hashed()" == str(refused.value)
