"""The list of users and password hashes, in the form that brokers read."""

import re
from collections.abc import Mapping

from bridge.embedded import is_hash

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f:]|^\s|\s$|^#|^$")


def password_list(hashes: Mapping[str, str]) -> str:
    """Return the text of a broker's password file; equal hashes give equal text."""
    for user, digest in hashes.items():
        if _UNFIT.search(user):
            raise ValueError(
                f"{user!a} cannot name a user of the broker: name one without colons, control characters, spaces "
                "around it, and # in front"
            )
        if not is_hash(digest):
            # Not shown, because it may be a password.
            raise ValueError(f"the entry for the user {user!r} is no hash of a password; make it with hashed()")
    return "".join(f"{user}:{digest}\n" for user, digest in sorted(hashes.items()))
