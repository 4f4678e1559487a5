"""Loading a workload by its name: a built-in one, with a seed or without, or a folder.

A folder holds `workload.json`, `{"version": 1, "about": {...}, "sources": [{"name", "schema", "per_second"}, ...]}`,
and a document for each dataflow in `dataflows/*.json`. The events of its sources are made up from their schemas.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dags import Kind, Schema
from workloads.workload import Document, Event, Workload, WorkloadSource

_VERSION = 1
"""Of the form of `workload.json`."""
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "opmw": "workloads.opmw.builtin_workload:opmw",
        "opmw-join": "workloads.opmw.builtin_workload:opmw_join",
        "riotbench": "workloads.riotbench.builtin_workload:riotbench",
    }
)
"""The functions that make them, which take a seed."""
_BEGUN = 1_700_000_000_000
"""The first moment of made-up events, in milliseconds since the epoch."""
_WORDS = ("north", "east", "south", "west")


class WrongWorkload(ValueError):
    """There is no workload of a name, or a folder holds none; says where, why, and what to do."""


def load_workload(name: str) -> Workload:
    """The workload of a name: `opmw`, `opmw-join` or `riotbench`, each perhaps with `:SEED` behind it, or a folder."""
    built_in, _, seed = name.partition(":")
    if built_in in BUILT_IN and not seed.strip("0123456789"):
        module, _, function = BUILT_IN[built_in].partition(":")
        made: Callable[..., Workload] = getattr(import_module(module), function)
        return made(seed=int(seed)) if seed else made()
    if not Path(name).is_dir():
        known = ", ".join(f"{each}, {each}:SEED" for each in BUILT_IN)
        raise WrongWorkload(f"{name}: there is no such workload; known are {known}, and folders with a workload.json")
    return _in_folder(Path(name))


def made_up_events(schema: Schema, seed: int) -> Iterator[Event]:
    """Endless events of a schema; numbers walk about, so that windows and filters have something to do."""
    draw = random.Random(f"events {seed}")  # noqa: S311 - made-up events are no secret
    level = dict.fromkeys(schema.names(), 50.0)
    number = 0
    while True:
        event: dict[str, Any] = {}
        for name in schema.names():
            level[name] += draw.gauss(0.0, 1.0) + (50.0 - level[name]) / 50.0
            event[name] = _VALUES[schema.fields[name]](draw, number, level[name])
        yield event
        number += 1


_VALUES: Mapping[Kind, Callable[[random.Random, int, float], Any]] = MappingProxyType(
    {
        Kind.BOOLEAN: lambda draw, _number, _level: draw.random() < 0.5,  # noqa: PLR2004 - as often as not
        Kind.INTEGER: lambda _draw, number, _level: number,
        Kind.FLOAT: lambda _draw, _number, level: round(level, 3),
        Kind.STRING: lambda draw, _number, _level: draw.choice(_WORDS),
        Kind.TIMESTAMP: lambda _draw, number, _level: _BEGUN + 1_000 * number,
        Kind.JSON: lambda _draw, number, level: {"number": number, "level": round(level, 3)},
    }
)


def _in_folder(folder: Path) -> Workload:
    place = folder / "workload.json"
    told = _read(place)
    try:
        version = told["version"]
        sources = tuple(_source(each) for each in told["sources"])
        about = dict(told.get("about", {}))
    except (KeyError, TypeError, AttributeError) as error:
        raise WrongWorkload(f"{place}: misses {error}; it needs a version and sources") from None
    except ValueError as error:
        raise WrongWorkload(f"{place}: {error}; correct it there") from None
    if version != _VERSION:
        raise WrongWorkload(f"{place}: has version {version}, and version {_VERSION} is read here; write it anew")
    dataflows: dict[str, Document] = {}
    for path in sorted((folder / "dataflows").glob("*.json")):
        document = _read(path)
        if not isinstance(document, dict) or not isinstance(document.get("tasks"), list):
            raise WrongWorkload(f"{path}: is no document of a dataflow; see what braid check says of it")
        dataflows[path.stem] = {**document, "name": path.stem}
    if not dataflows:
        raise WrongWorkload(f"{folder / 'dataflows'}: holds no document; put one for each dataflow there, as *.json")
    return Workload(name=str(folder), about=about, sources=sources, dataflows=dataflows)


def _source(told: Mapping[str, Any]) -> WorkloadSource:
    schema = Schema.of({name: Kind(kind) for name, kind in told["schema"].items()})
    per_second = float(told["per_second"])
    if not per_second > 0:
        raise ValueError(f"the source {told['name']!r} has {per_second:g} events per second; it needs more than none")
    return WorkloadSource(
        name=told["name"], schema=schema, events=partial(made_up_events, schema), per_second=per_second
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise WrongWorkload(f"{path}: {error.strerror}; name a folder that holds a workload") from None
    except ValueError as error:
        raise WrongWorkload(f"{path}: is not JSON: {error}; correct it there") from None
