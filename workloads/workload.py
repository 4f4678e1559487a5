"""A workload: dataflows, and the sources whose events they take; made by `workloads.opmw` and `workloads.riotbench`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dags import Schema

Document: TypeAlias = Mapping[str, Any]
"""A dataflow as a tenant writes it."""
Event: TypeAlias = Mapping[str, Any]
Events: TypeAlias = Callable[[int], Iterator[Event]]
"""Endless events, the same ones for the same seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """A source that dataflows of a workload name."""

    name: str
    schema: Schema
    events: Events | None
    """What comes in; None where the workload's own dataflows publish it, on the topic of the source's name."""
    per_second: float
    """How many events of it come in a second, where nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Dataflows to submit and remove, with all that they need."""

    name: str
    """As traces name it: `opmw`, `opmw:7` with another seed than 1, or the path of a folder."""
    about: Mapping[str, Any]
    """How it was made: seed, calibration, counts; goes into each result's manifest."""
    sources: tuple[WorkloadSource, ...]
    dataflows: Mapping[str, Document]
    """By names that tell them apart, such as `opmw-03`; each document is named likewise."""
