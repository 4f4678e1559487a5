"""A workload: dataflows and the sources that they read; made by `workloads.opmw` and `workloads.riotbench`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dags import Schema

Document: TypeAlias = Mapping[str, Any]
"""A dataflow as a tenant writes it."""
Event: TypeAlias = Mapping[str, Any]
Events: TypeAlias = Callable[[int], Iterator[Event]]
"""Endless events, the same for the same seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """A source that dataflows of a workload read."""

    name: str
    schema: Schema
    events: Events | None
    """The events; None if the workload's own dataflows publish them, on the topic of the source's name."""
    per_second: float
    """Events per second by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Dataflows to submit and remove, with their sources."""

    name: str
    """The name in traces: `opmw`, `opmw:7` with another seed than 1, or the path of a folder."""
    about: Mapping[str, Any]
    """Its origin: seed, calibration, counts; part of each result's manifest."""
    sources: tuple[WorkloadSource, ...]
    dataflows: Mapping[str, Document]
    """By unique names such as `opmw-03`, which the documents have too."""
