"""Hosts and roots: what can run jobs, which hosts share cores or files, and where streams are read.

The jobs of one root read a stream between jobs from one spool, which tells its producer how far it has the stream. Two
roots would be two spools, and the producer would drop what the slower one still misses. So all jobs that such a stream
is forwarded to are on one root. Raw streams are received anew on each root that reads them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import networkx as nx

from merge.grouping.problem import Image
from merge.jobs import Assignment, Jobs
from merge.tasks import Instance, RunningTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A Spark application that runs jobs; it advertises what it offers."""

    name: str
    cores: float
    tags: frozenset[str] = frozenset()
    types: frozenset[str] | None = None
    """The task types that it can run; a name that ends in `*` covers a namespace. None if it is not known."""
    root: str = ""
    """The id of the root that its files are in; hosts with equal ones share their files."""
    away: bool = False
    """Whether it is not there: no job is opened on it, but what its jobs run keeps its root."""
    machine: str = ""
    """The machine that carries it, with whose other hosts it shares cores; empty if it has its cores to itself."""
    image: str = ""
    """The image that it says it was made from; empty if it names none."""
    registered: Image | None = None
    """That image as operators registered it; None if nobody did."""

    @property
    def shares_cores_with(self) -> str:
        """The same for all hosts whose cores are those of one machine."""
        return self.machine or self.name

    def has(self, type_name: str) -> bool:
        """Whether it can run a task type, as far as is known.

        >>> Host(name="h", cores=1.0, types=frozenset({"acme:*"})).has("acme:clean")
        True
        """
        if self.types is None or type_name in self.types:
            return True
        return any(name.endswith("*") and type_name.startswith(name[:-1]) for name in self.types)


def as_registered(hosts: Iterable[Host], images: Mapping[str, Image]) -> tuple[Host, ...]:
    """The hosts, each with its image as it is registered, and the tags of that beside its own.

    >>> gpu = Image(name="gpu", tags=frozenset({"cuda"}), cores=4.0)
    >>> hosts = [Host(name=name, cores=1.0, image=name) for name in ("gpu", "cpu")]
    >>> [host.tags for host in as_registered(hosts, {"gpu": gpu})]
    [frozenset({'cuda'}), frozenset()]
    """
    return tuple(
        replace(host, tags=host.tags | image.tags, registered=image)
        if (image := images.get(host.image)) is not None
        else host
        for host in hosts
    )


def machine_cores(hosts: Iterable[Host]) -> dict[str, float]:
    """The cores that the jobs of each host may take: those of all hosts of its machine.

    >>> machine_cores(Host(name=name, cores=1.0, machine="m") for name in "ab")
    {'a': 2.0, 'b': 2.0}
    """
    hosts = tuple(hosts)
    there: dict[str, float] = {}
    for host in hosts:
        there[host.shares_cores_with] = there.get(host.shares_cores_with, 0.0) + host.cores
    # Equal parts of whole cores do not add up to them exactly.
    return {host.name: round(there[host.shares_cores_with], 6) for host in hosts}


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
        return tuple(sorted(name for name, own in self._of_host.items() if own == root))

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

    def keeps(self, running: Mapping[Instance, RunningTask], before: Jobs, by: Assignment) -> bool:
        """Whether an assignment tears no stream that was whole, and has no jobs wait in a circle over roots."""
        if not self.several:
            return True
        after = before.apply(by)
        whole = self.torn(running, after) <= self.torn(running, before)
        return whole and nx.is_directed_acyclic_graph(after.streams_between())
