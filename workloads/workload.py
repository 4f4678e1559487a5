"""Workloads: dataflows and the sources that they read, and their loader by name.

A workload is a built-in one, made by `workloads.opmw` or `workloads.riotbench` with or without a seed, or a folder. A
folder holds `workload.json`, `{"version": 1, "about": {...}, "sources": [{"name", "schema", "per_second"}, ...]}`, and
a document for each dataflow in `dataflows/*.json`. The events of its sources are generated from their schemas.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from dags import Kind, Schema

Document: TypeAlias = Mapping[str, Any]
"""A dataflow as a tenant writes it."""
Event: TypeAlias = Mapping[str, Any]
Events: TypeAlias = Callable[[int], Iterator[Event]]
"""Endless events, the same for the same seed."""
Rounds: TypeAlias = Callable[[int], Iterator[Mapping[str, Event]]]
"""Endless rounds, the same for the same seed, each with an event of every source."""


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


_VERSION = 1
"""The version of the format of `workload.json`."""
BUILT_IN: Mapping[str, str] = {
    "opmw": "workloads.opmw.builtin_workload:opmw",
    "opmw-join": "workloads.opmw.builtin_workload:opmw_join",
    "riotbench": "workloads.riotbench.builtin_workload:riotbench",
}
"""The functions that make the built-in workloads; each takes a seed."""
_FIRST_TIME = 1_700_000_000_000
"""The time of the first generated event, in milliseconds since the epoch."""
_WORDS = ("north", "east", "south", "west")


class WrongWorkload(ValueError):
    """A name or a folder that is no workload; the message says where, why, and what to do."""


def load_workload(name: str) -> Workload:
    """Load a built-in workload, `opmw`, `opmw-join` or `riotbench`, each also with `:SEED`, or that in a folder."""
    built_in, _, seed = name.partition(":")
    if built_in in BUILT_IN and not seed.strip("0123456789"):
        module, _, function = BUILT_IN[built_in].partition(":")
        made: Callable[..., Workload] = getattr(import_module(module), function)
        return made(seed=int(seed)) if seed else made()
    if not Path(name).is_dir():
        known = ", ".join(f"{known_name}, {known_name}:SEED" for known_name in BUILT_IN)
        raise WrongWorkload(f"{name}: there is no such workload; choose from {known}, or a folder with a workload.json")
    return _in_folder(Path(name))


def generated_events(schema: Schema, seed: int) -> Iterator[Event]:
    """Endless events of a schema; numbers do a random walk, so that windows and filters have work."""
    draw = random.Random(f"events {seed}")  # noqa: S311 - generated events are no secret
    level = dict.fromkeys(schema.names(), 50.0)
    number = 0
    while True:
        event: dict[str, Any] = {}
        for name in schema.names():
            level[name] += draw.gauss(0.0, 1.0) + (50.0 - level[name]) / 50.0
            event[name] = _VALUES[schema.fields[name]](draw, number, level[name])
        yield event
        number += 1


_VALUES: Mapping[Kind, Callable[[random.Random, int, float], Any]] = {
    Kind.BOOLEAN: lambda draw, _number, _level: draw.random() < 0.5,  # noqa: PLR2004 - as often as not
    Kind.INTEGER: lambda _draw, number, _level: number,
    Kind.FLOAT: lambda _draw, _number, level: round(level, 3),
    Kind.STRING: lambda draw, _number, _level: draw.choice(_WORDS),
    Kind.TIMESTAMP: lambda _draw, number, _level: _FIRST_TIME + 1_000 * number,
    Kind.JSON: lambda _draw, number, level: {"number": number, "level": round(level, 3)},
}


def _in_folder(folder: Path) -> Workload:
    place = folder / "workload.json"
    content = _read(place)
    try:
        version = content["version"]
        sources = tuple(_source(source) for source in content["sources"])
        about = dict(content.get("about", {}))
    except KeyError as error:
        raise WrongWorkload(f"{place}: {error} is missing; it needs a version and sources") from None
    except (TypeError, AttributeError):
        raise WrongWorkload(f"{place}: is not the description of a workload; it needs a version and sources") from None
    except ValueError as error:
        raise WrongWorkload(f"{place}: {error}; correct it there") from None
    if version != _VERSION:
        raise WrongWorkload(f"{place}: has version {version}, but version {_VERSION} is needed; write it again")
    dataflows: dict[str, Document] = {}
    for path in sorted((folder / "dataflows").glob("*.json")):
        document = _read(path)
        if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
            raise WrongWorkload(f"{path}: is no document of a dataflow; run braid check on it")
        dataflows[path.stem] = {**document, "name": path.stem}
    if not dataflows:
        raise WrongWorkload(f"{folder / 'dataflows'}: has no documents; put one for each dataflow there, as *.json")
    return Workload(name=str(folder), about=about, sources=sources, dataflows=dataflows)


def _source(content: Mapping[str, Any]) -> WorkloadSource:
    schema = Schema.of({name: Kind(kind) for name, kind in content["schema"].items()})
    per_second = float(content["per_second"])
    if not per_second > 0:
        raise ValueError(f"the source {content['name']!r} has {per_second:g} events per second; it needs more than 0")
    return WorkloadSource(
        name=content["name"], schema=schema, events=partial(generated_events, schema), per_second=per_second
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise WrongWorkload(f"{path}: {error.strerror}; choose a folder that holds a workload") from None
    except ValueError as error:
        raise WrongWorkload(f"{path}: is not JSON: {error}; correct it there") from None
