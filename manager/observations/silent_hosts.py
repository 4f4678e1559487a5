"""Silent hosts: a host that has not been heard for a while is taken to be away.

A host announces its end by a last will at the broker, but a broker that was killed delivers none.
"""

from dataclasses import replace

from manager.observations.reports import HostSeen

HOST_SILENT_AFTER = 30.0
"""Seconds of silence after which a host counts as away; a live one reports every five."""


def away_if_silent(host: HostSeen, *, heard_at: float, connected_at: float | None, now: float) -> HostSeen:
    """The host, marked as not alive if it was silent for too long while the broker was connected."""
    if not host.alive or connected_at is None:
        return host
    silence = now - max(heard_at, connected_at)
    return replace(host, alive=False) if silence > HOST_SILENT_AFTER else host
