"""API keys: what is made can be read and checked, and nothing else can."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from manager.tenants.use_cases import matches, new_key, parse_key


def test_a_key_is_read_and_matches() -> None:
    """The text of a new key holds its id and a secret that matches its hash, and no other key's."""
    key, other = new_key(), new_key()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert (key.id, True, False) == (parsed[0], matches(parsed[1], key.hash), matches(parsed[1], other.hash))


def test_a_secret_has_256_bits_and_is_not_kept() -> None:
    """Its secret is 32 bytes, and what is kept of it does not hold it."""
    key = new_key()
    parsed = parse_key(key.text)
    assert parsed is not None
    assert (32, False) == (len(base64.urlsafe_b64decode(parsed[1] + "=")), parsed[1] in key.hash)


@given(st.text() | st.from_regex(r"braid_[0-9a-f]{14,18}_[\w-]{40,46}\n?"))
def test_any_text_is_a_key_or_none(text: str) -> None:
    """Whatever is sent is read as an id and a secret that make it up, or as no key."""
    parsed = parse_key(text)
    assert parsed is None or text == f"braid_{parsed[0]}_{parsed[1]}"


@given(st.text(), st.text())
def test_only_the_secret_matches(secret: str, hashed: str) -> None:
    """No text is taken for a hash of another, however odd."""
    assert not matches(secret, hashed)
