"""Hosts: what can run jobs, with what each offers, and with which others it shares cores."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from merge.grouping.images import Image


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
        return any(each.endswith("*") and type_name.startswith(each[:-1]) for each in self.types)


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
