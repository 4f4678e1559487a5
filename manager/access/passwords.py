"""The list of users and of their passwords' hashes, as brokers read it."""

import re
from collections.abc import Mapping

from bridge.embedded import is_hash

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f:]|^\s|\s$|^#|^$")


def password_list(hashes: Mapping[str, str]) -> str:
    """The text of a broker's file of passwords; equal hashes by user give equal text."""
    for user, digest in hashes.items():
        if _UNFIT.search(user):
            raise ValueError(
                f"{user!a} cannot name a user of the broker: name one without colons, control characters, spaces "
                "around it, and # in front"
            )
        if not is_hash(digest):
            # What it is instead may be a password, so it is not shown.
            raise ValueError(f"what is kept for the user {user!r} is no hash of a password; make it with hashed()")
    return "".join(f"{user}:{digest}\n" for user, digest in sorted(hashes.items()))
