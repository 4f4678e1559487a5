"""Roots: which hosts share files, and on which roots the streams between jobs are read.

The jobs of one root read a stream between jobs from one spool, which tells its producer how far it has the stream. Two
roots would be two spools, and the producer would drop what the slower one still misses. So all jobs that such a stream
is forwarded to are on one root. Raw streams are received anew on each root that reads them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import networkx as nx

from merge.jobs import Jobs
from merge.placement.hosts import Host
from merge.task import Instance, RunningTask

Stream: TypeAlias = tuple[Instance, str]
"""An instance, and the port that a stream leaves by."""


class Roots:
    """The roots of hosts; a host that is not among them is on the only root, or else on one without a name."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        hosts = tuple(hosts)
        self._there = [host for host in hosts if not host.away]
        self._of_host = {host.name: host.root for host in hosts}
        known = set(self._of_host.values())
        self.several = len(known) > 1
        self._else = "" if self.several else next(iter(known), "")

    def of(self, host: str) -> str:
        """The root of a host."""
        return self._of_host.get(host, self._else)

    def there(self, root: str | None = None) -> list[Host]:
        """The hosts of a root that are there; of any if it is None."""
        return self._there if root is None else [host for host in self._there if host.root == root]

    def hosts_of(self, root: str) -> tuple[str, ...]:
        """The names of the hosts that share a root."""
        return tuple(sorted(name for name, each in self._of_host.items() if each == root))

    def readers(self, stream: Stream, running: Mapping[Instance, RunningTask], jobs: Jobs) -> set[str]:
        """The roots on which other jobs read a stream that its job forwards; none of a raw stream."""
        instance, port = stream
        if not running[instance].inputs:
            return set()
        leaving = jobs.leaving.get(instance, ())
        return {self.of(jobs.jobs[bridge.to].host) for bridge in leaving if bridge.port == port}

    def torn(self, running: Mapping[Instance, RunningTask], jobs: Jobs) -> frozenset[Stream]:
        """The streams that jobs on several roots are sent."""
        forwarded = {(bridge.parent, bridge.port) for bridge in jobs.bridges}
        return frozenset(stream for stream in forwarded if len(self.readers(stream, running, jobs)) > 1)

    def keeps(self, running: Mapping[Instance, RunningTask], before: Jobs, after: Jobs) -> bool:
        """Whether other jobs tear no stream that was whole, and do not wait for each other in a circle over roots."""
        whole = self.torn(running, after) <= self.torn(running, before)
        return whole and nx.is_directed_acyclic_graph(after.streams_between())
