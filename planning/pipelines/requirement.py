"""Requirements of code: packages, each pinned to one version."""

import re

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_PINNED = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*==\s*([A-Za-z0-9.!+_-]+)")


class NotPinned(ValueError):
    """A requirement does not say which version it wants."""


def pinned(text: str) -> tuple[str, str]:
    """The name and the version of a requirement, in their normal forms. Raises `NotPinned`.

    >>> pinned("My_Package == 1.00")
    ('my-package', '1.0')
    """
    found = _PINNED.fullmatch(text.strip())
    try:
        if found is None:
            raise NotPinned(text)
        return str(canonicalize_name(found[1])), str(Version(found[2]))
    except InvalidVersion:
        raise NotPinned(text) from None
