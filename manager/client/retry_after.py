"""The Retry-After header, in seconds."""

from collections.abc import Mapping


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds until the service wants to be asked again; None if it does not say, or names a date as proxies do.

    >>> retry_after({"retry-after": "7"}), retry_after({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"})
    (7.0, None)
    """
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None
