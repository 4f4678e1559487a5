"""The hosts that jobs can be placed on, with what they offer."""

from collections.abc import Iterable

from manager.observations.reports import HostSeen
from merge import Host


def placeable(seen: Iterable[HostSeen], here: Host | None) -> tuple[Host, ...]:
    """Those that are there, by name, and the one that is run here, also while it is starting.

    `here` says what the latter is to offer; how many cores it has, it tells itself. One that does not tell, because it
    runs an older Braid, is taken to have as many.
    """
    found = {host.host: host for host in seen if host.alive}
    cores = here.cores if here is not None else 1.0
    hosts = {name: Host(name=name, cores=host.cores or cores, tags=host.tags) for name, host in found.items()}
    if here is not None:
        told = hosts.get(here.name)
        hosts[here.name] = Host(name=here.name, cores=told.cores if told else here.cores, tags=here.tags)
    return tuple(host for _, host in sorted(hosts.items()))
