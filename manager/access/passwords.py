"""The hashes of passwords as mosquitto keeps them: `$7$`, the iterations, a salt, and PBKDF2 with HMAC-SHA512.

They are made here rather than by mosquitto's tool, which wants the plain passwords in a file.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping

_ITERATIONS = 101
"""As mosquitto's own tool. Passwords here are long and random, so that guessing is no use however fast it is, and
mosquitto hashes anew for every client that is connected whenever it reads its files again."""
_SALT_BYTES = 12
"""Mosquitto 2.0 reads no other length."""
_HASH = re.compile(r"\$7\$[1-9][0-9]{0,8}\$[A-Za-z0-9+/]{16}\$[A-Za-z0-9+/]{86}==")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f:]|^\s|\s$|^#|^$")


def hashed(password: str) -> str:
    """The hash of a password, with a salt of its own; the service keeps it, and not the password."""
    salt = secrets.token_bytes(_SALT_BYTES)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def password_list(hashes: Mapping[str, str]) -> str:
    """The text of mosquitto's `password_file`; equal hashes by user give equal text."""
    for user, digest in hashes.items():
        if _UNFIT.search(user):
            raise ValueError(
                f"{user!a} cannot name a user of the broker: name one without colons, control characters, spaces "
                "around it, and # in front"
            )
        if not _HASH.fullmatch(digest):
            # What it is instead may be a password, so it is not shown.
            raise ValueError(f"what is kept for the user {user!r} is no hash of a password; make it with hashed()")
    return "".join(f"{user}:{digest}\n" for user, digest in sorted(hashes.items()))
