"""The bound on the files and connections that a process may have open."""

import resource

_MOST = 65_536
"""Enough for any process here; some systems allow a billion, and programs that look at each of them."""


def allow_many_descriptors() -> None:
    """Raise the bound of this process as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
