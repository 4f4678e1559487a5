"""Dataflows drawn with realistic overlap, for measuring.

Twelve tasks each: a source, a chain of pre-processing that many share, and analytics that few do. How popular a prefix
is follows a power law, as in published workflow repositories, where a third of all tasks are shared.
"""

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dags import Catalogue, Kind, Schema, Source, Visibility
from engine.tasks import TYPES

CATALOGUE = Catalogue.of(TYPES)
_FIELDS = ("temperature", "humidity", "light", "dust", "air")
SOURCE_SCHEMA = Schema.of(dict.fromkeys(_FIELDS, Kind.FLOAT), place=Kind.STRING, at=Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is drawn from."""

    sources: int
    hub: str | None = None
    """A popular source that every dataflow reads besides its own."""


def registered(shape: Shape) -> dict[str, Source]:
    """The sources of a shape."""
    names = [f"s{i}" for i in range(shape.sources)] + ([shape.hub] if shape.hub else [])
    return {name: Source(name=name, owner="city", schema=SOURCE_SCHEMA, visibility=Visibility.PUBLIC) for name in names}


def document(draw: random.Random, shape: Shape, number: int) -> str:
    """One dataflow of twelve tasks: two chains behind one pre-processing prefix."""
    source = f"s{min(int(draw.paretovariate(0.7)) - 1, shape.sources - 1)}"
    field = _FIELDS[min(int(draw.paretovariate(1.2)) - 1, len(_FIELDS) - 1)]
    low = min(int(draw.paretovariate(0.8)) - 1, 50)
    tasks: list[dict[str, Any]] = [
        {"id": "source", "type": "source", "config": {"source": source}},
        {"id": "clean", "type": "range_filter", "config": {"field": field, "min": low, "max": 1000}},
        {"id": "cut", "type": "range_filter", "config": {"field": field, "min": low + 1, "max": 900}},
        {"id": "trim", "type": "range_filter", "config": {"field": "dust", "min": draw.randrange(8), "max": 800.5}},
        {"id": "fence", "type": "range_filter", "config": {"field": "light", "min": draw.randrange(12), "max": 700}},
        {"id": "mean", "type": "block_window_average", "config": {"field": field, "by": ["place"], "window": 5}},
        {"id": "bound", "type": "range_filter", "config": {"field": field, "min": draw.random(), "max": 9e9}},
        {"id": "slow", "type": "block_window_average", "config": {"field": field, "window": draw.randrange(2, 99)}},
        {"id": "tally", "type": "count", "config": {"by": ["place"]}},
        {"id": "means", "type": "output"},
        {"id": "alarms", "type": "output"},
        {"id": "tallies", "type": "output"},
    ]
    chains = [
        ("source", "clean", "cut", "trim", "fence"),
        ("fence", "mean", "means"),
        ("fence", "bound", "slow", "alarms"),
        ("bound", "tally", "tallies"),
    ]
    streams = [{"from": a, "to": b} for chain in chains for a, b in pairwise(chain)]
    if shape.hub:
        tasks[0] = {"id": "hub", "type": "source", "config": {"source": shape.hub}}
        tasks[9] = {"id": "own", "type": "source", "config": {"source": f"s{number % shape.sources}"}}
        streams = [
            {"from": {"source": "hub"}.get(s["from"], s["from"]), "to": {"means": "tally"}.get(s["to"], s["to"])}
            for s in streams
        ]
        streams.append({"from": "own", "to": "tally"})
    return json.dumps({"version": 1, "name": f"drawn {number}", "tasks": tasks, "streams": streams})


def long_document(length: int) -> str:
    """A document of so many tasks: a bundle of chains, the longest that is allowed."""
    chains, tasks_each = length // 100, 100
    tasks: list[dict[str, Any]] = []
    streams = []
    for chain in range(chains):
        names = [f"t{chain}-{i}" for i in range(tasks_each)]
        tasks.append({"id": names[0], "type": "source", "config": {"source": "s0"}})
        tasks += [
            {"id": name, "type": "range_filter", "config": {"field": "dust", "min": chain, "max": 1000 + i}}
            for i, name in enumerate(names[1:-1])
        ]
        tasks.append({"id": names[-1], "type": "output"})
        streams += [{"from": a, "to": b} for a, b in pairwise(names)]
    return json.dumps({"version": 1, "name": "long", "tasks": tasks, "streams": streams})
