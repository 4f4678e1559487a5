"""The rule of quarantine: when a tenant whose tasks are stopped comes into it, and how long it lasts."""

STOPS_WITHIN = 3_600.0
"""Seconds within which a second stop of a tenant's tasks puts it in quarantine: one may be an oversight."""
QUARANTINE = 3_600.0
"""Seconds that it lasts after the last stop."""


def until_after_stop(last: float | None, until: float | None, now: float) -> float | None:
    """The end of a tenant's quarantine after another stop; `last` was the one before, `until` the end so far.

    >>> until_after_stop(None, None, 100.0), until_after_stop(100.0, None, 200.0), until_after_stop(100.0, None, 9e3)
    (None, 3800.0, None)
    """
    return now + QUARANTINE if last is not None and now - last < STOPS_WITHIN else until
