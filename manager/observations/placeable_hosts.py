"""The hosts that jobs can be placed on, with their cores, tags, task types and roots."""

from collections.abc import Iterable
from dataclasses import replace

from manager.observations.reports import HostSeen
from merge import Host


def placeable(seen: Iterable[HostSeen], here: Host | None) -> tuple[Host, ...]:
    """The live hosts, ordered by name, and the local one even while it is starting.

    Hosts that are away are listed as such if their root is known: what their jobs run is bound to it.

    `here` describes the local host; the cores that it reports itself take precedence. A host that reports no cores is
    taken to have as many as `here`.
    """
    found = {host.host: host for host in seen if host.alive or host.root}
    cores = here.cores if here is not None else 1.0
    hosts = {
        name: Host(
            name=name,
            cores=cores if host.cores is None else host.cores,
            tags=host.tags,
            image=host.image,
            types=host.types,
            root=host.root,
            away=not host.alive,
            machine=host.machine,
        )
        for name, host in found.items()
    }
    if here is not None:
        reported = hosts.get(here.name, here)
        hosts[here.name] = replace(
            here, cores=reported.cores, types=reported.types, root=reported.root, machine=reported.machine
        )
    return tuple(host for _, host in sorted(hosts.items()))
