"""API keys and tokens of sessions: how they are made, read and checked. Pure, but for the chance in a new one."""

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

_ID_BYTES = 8
_SECRET_BYTES = 32
"""256 bits."""
# The id is hexadecimal, so the first underscore behind it ends it; the secret may hold underscores.
_FORM = re.compile(r"braid_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class NewKey(NamedTuple):
    """An API key when it is made; the text is shown once and kept nowhere."""

    id: str
    """Finds it; no secret."""
    text: str
    """What the caller sends."""
    hash: str
    """What is kept of the secret."""


def new_key() -> NewKey:
    """Make an API key."""
    id = secrets.token_hex(_ID_BYTES)  # noqa: A001 - the word that callers know it by
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(id=id, text=f"braid_{id}_{secret}", hash=hash_secret(secret))


def parse_key(text: str) -> tuple[str, str] | None:
    """The id and the secret of what a caller sent; None if it is no API key.

    >>> parse_key("braid_00112233aabbccdd_" + "s" * 43) == ("00112233aabbccdd", "s" * 43)
    True
    >>> parse_key("braid_00112233aabbccdd_short"), parse_key("")
    (None, None)
    """
    found = _FORM.fullmatch(text)
    return (found[1], found[2]) if found else None


def matches(secret: str, hash: str) -> bool:  # noqa: A002 - the field's name
    """Compare a secret with a hash, in a time that reveals nothing about it.

    >>> key = new_key()
    >>> [matches(secret, key.hash) for secret in (parse_key(key.text)[1], "another")]
    [True, False]
    """
    return hmac.compare_digest(hash_secret(secret).encode(), hash.encode())


def new_token() -> str:
    """The token that stands for a key in a session; as hard to guess."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def hash_secret(secret: str) -> str:
    """The hash that is kept of a secret."""
    # Slow, salted hashes are for passwords, which can be guessed. Nobody guesses 256 random bits, however fast the
    # hash, and each request pays for it.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
