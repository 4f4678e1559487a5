"""The hashes of passwords as mosquitto keeps them, so that one file serves both brokers.

`$7$`, the iterations, a salt, and PBKDF2 with HMAC-SHA512. They are made here rather than by mosquitto's tool, which
wants the plain passwords in a file.
"""

import base64
import hashlib
import hmac
import re
import secrets

_ITERATIONS = 101
"""As mosquitto's own tool. Passwords here are long and random, so that guessing is no use however fast it is, and
mosquitto hashes anew for every client that is connected whenever it reads its files again."""
_SALT_BYTES = 12
"""Mosquitto 2.0 reads no other length."""
_HASH = re.compile(r"\$7\$([1-9][0-9]{0,8})\$([A-Za-z0-9+/]{16})\$([A-Za-z0-9+/]{86}==)")


def hashed(password: str) -> str:
    """The hash of a password, with a salt of its own.

    >>> matches(hashed("a secret"), b"a secret"), matches(hashed("a secret"), b"another")
    (True, False)
    """
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def is_hash(text: str) -> bool:
    """Whether a text is such a hash.

    >>> is_hash(hashed("a secret")), is_hash("a secret")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def matches(digest: str, password: bytes) -> bool:
    """Whether a hash is that of a password."""
    parts = _HASH.fullmatch(digest)
    if parts is None:
        return False
    iterations, salt, key = parts.groups()
    found = hashlib.pbkdf2_hmac("sha512", password, base64.b64decode(salt), int(iterations))
    return hmac.compare_digest(found, base64.b64decode(key))
