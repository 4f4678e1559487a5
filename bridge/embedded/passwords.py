"""The hashes of passwords as mosquitto keeps them, so that one file serves both brokers.

A hash is `$7$`, the iterations, a salt, and PBKDF2 with HMAC-SHA512. Mosquitto's tool is not used, because it reads
plain passwords from a file.
"""

import base64
import hashlib
import hmac
import re
import secrets

_ITERATIONS = 101
"""As in mosquitto's own tool. Passwords are long and random here, so guessing is useless however fast it is. After a
reload, mosquitto computes a hash for every connected client."""
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
    """True if a text is such a hash.

    >>> is_hash(hashed("a secret")), is_hash("a secret")
    (True, False)
    """
    return _HASH.fullmatch(text) is not None


def matches(digest: str, password: bytes) -> bool:
    """True if a hash belongs to a password."""
    parts = _HASH.fullmatch(digest)
    if parts is None:
        return False
    iterations, salt, key = parts.groups()
    found = hashlib.pbkdf2_hmac("sha512", password, base64.b64decode(salt), int(iterations))
    return hmac.compare_digest(found, base64.b64decode(key))
