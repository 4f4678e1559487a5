"""Hashes of passwords, as mosquitto's own tool writes them."""

import base64
import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.embedded import hashed
from manager.access import password_list
from tests import needs


def holds(digest: str, password: str) -> bool:
    """Whether a hash in mosquitto's form is of a password."""
    _, seven, iterations, salt, key = digest.split("$")
    assert "7" == seven
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), base64.b64decode(salt), int(iterations), 64)
    return made == base64.b64decode(key)


@given(st.text(max_size=40))
def test_a_hash_holds_its_password_only(password: str) -> None:
    """Hashing again with the salt that the hash names gives the same for that password, and not for another."""
    digest = hashed(password)
    assert holds(digest, password)
    assert not holds(digest, f"{password}x")


def test_equal_passwords_have_hashes_of_their_own() -> None:
    """Each hash has a salt of its own, so that nobody sees who has the same password."""
    assert 100 == len({hashed("secret") for _ in range(100)})


@pytest.mark.mosquitto
def test_a_hash_is_made_as_mosquitto_makes_it(tmp_path: Path) -> None:
    """The form of a hash, its iterations and its lengths are those of mosquitto's tool."""
    needs.mosquitto()
    path = tmp_path / "passwords"
    path.write_text("a:secret\n")
    subprocess.run(["mosquitto_passwd", "-U", str(path)], check=True, capture_output=True)  # noqa: S603, S607 - as installed
    theirs = path.read_text().strip().removeprefix("a:")
    assert holds(theirs, "secret")
    assert [len(part) for part in theirs.split("$")] == [len(part) for part in hashed("secret").split("$")]
    assert theirs.split("$")[:3] == hashed("secret").split("$")[:3]


def test_a_list_of_passwords_is_by_user() -> None:
    """One line for each user, in order, whatever order they come in."""
    one, two = hashed("one"), hashed("two")
    assert f"a:{one}\nb:{two}\n" == password_list({"b": two, "a": one})
    assert "" == password_list({})


@pytest.mark.parametrize("user", ["", "a:b", "#a", "a\nb", " a", "a "])
def test_a_user_that_is_another_line_is_refused(user: str) -> None:
    """A name that mosquitto would read as something else is refused."""
    with pytest.raises(ValueError, match="cannot name a user of the broker"):
        password_list({user: hashed("secret")})


@pytest.mark.parametrize("change", ["plain secret", "{}\nb:x", "{} ", "x{}", ""])
def test_what_is_no_hash_is_refused_and_not_shown(change: str) -> None:
    """A plain password among the hashes is refused, and does not stand in the message."""
    with pytest.raises(ValueError, match="is no hash of a password") as refused:
        password_list({"a": change.format(hashed("secret"))})
    assert "the entry for the user 'a' is no hash of a password; make it with hashed()" == str(refused.value)
