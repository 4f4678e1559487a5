"""Scenarios: dynamic dataflows with the modules and sources that they need, and the events of these sources.

A scenario's document is read and resolved as a service does for the tenant who owns the sources.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from adaptation.document_reader import read_dynamic
from adaptation.documents import DynamicDocument
from dags import Dataflow, Schema, Source
from dags.builder import Program
from dags.canonical import canonicalise
from engine import installed_catalogue
from planning.pipelines.module import read_module
from workloads.adaptive.dataflows import (
    GRID_SCHEMAS,
    LINE_SCHEMAS,
    ROAD_SCHEMAS,
    TWEET_SCHEMAS,
    demand_response,
    grid_rounds,
    line_rounds,
    linear_road,
    road_rounds,
    tweet_rounds,
    tweet_topics,
    word_count,
)
from workloads.workload import Document, Rounds

_PUBLISHED = Path(__file__).parent / "published"


class PublishedFunction(NamedTuple):
    """A function of a published source, and what it takes and gives."""

    source: str
    """The file, without its suffix."""
    takes: Mapping[str, str]
    gives: Mapping[str, str]
    cost: float
    """Milliseconds of CPU an event."""
    drops: Sequence[str] = ()


_FORECAST = {"predicted": "float", "predictions": "json"}
_METER = {"hour": "float", "temperature": "float", "persons": "float"}
_SPEED, _JAM = {"speed": "float"}, {"jam": "float"}
_LINE, _WORDS = {"line": "string"}, {"word": "json"}
_TEXT, _TOPIC = {"text": "string"}, {"found": "string", "score": "float"}
_FUNCTIONS: Mapping[str, Mapping[str, PublishedFunction]] = {
    "demand_response": {
        "typical": PublishedFunction("load", _METER, _FORECAST, 0.23),
        "hourly": PublishedFunction("load", _METER, _FORECAST, 0.06),
    },
    "linear_road": {
        "by_history": PublishedFunction("traffic", {**_SPEED, "hour": "float", "segment": "integer"}, _JAM, 0.03),
        "by_speed": PublishedFunction("traffic", _SPEED, _JAM, 0.005),
        "by_threshold": PublishedFunction("traffic", _SPEED, _JAM, 0.003),
        "forest": PublishedFunction("traffic", {"mean": "float", "min": "float"}, _FORECAST, 0.022),
    },
    "word_count": {
        "stemmed": PublishedFunction("words", _LINE, _WORDS, 0.03, drops=["line"]),
        "plain": PublishedFunction("words", _LINE, _WORDS, 0.005, drops=["line"]),
    },
    "tweet_topics": {
        "bayes": PublishedFunction("topics", _TEXT, _TOPIC, 0.02),
        "mixture": PublishedFunction("topics", _TEXT, _TOPIC, 0.25),
        "phrases": PublishedFunction("topics", _TEXT, _TOPIC, 0.36),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveScenario:
    """A dynamic dataflow and all that it needs; made by `adaptive_scenario`."""

    name: str
    document: Document
    modules: tuple[Mapping[str, Any], ...]
    """Their forms, as an operator publishes them."""
    schemas: Mapping[str, Schema]
    """By the names of the sources."""
    rounds: Rounds


_PARTS: Mapping[str, tuple[Callable[[], Program], Mapping[str, Schema], Rounds]] = {
    "demand_response": (demand_response, GRID_SCHEMAS, grid_rounds),
    "linear_road": (linear_road, ROAD_SCHEMAS, road_rounds),
    "word_count": (word_count, LINE_SCHEMAS, line_rounds),
    "tweet_topics": (tweet_topics, TWEET_SCHEMAS, tweet_rounds),
}
ADAPTIVE = tuple(_PARTS)
"""The names of all scenarios."""


def adaptive_scenario(name: str) -> AdaptiveScenario:
    """The scenario of a name.

    >>> adaptive_scenario("word_count").document["name"]
    'Word count'
    """
    program, schemas, rounds = _PARTS[name]
    return AdaptiveScenario(
        name=name,
        document=program().document(),
        modules=tuple(_form(entry, function) for entry, function in _FUNCTIONS[name].items()),
        schemas=schemas,
        rounds=rounds,
    )


def _form(entry: str, function: PublishedFunction) -> Mapping[str, Any]:
    return {
        "name": entry.replace("_", "-"),
        "version": 1,
        "shape": "one-to-one",
        "code": {
            "source": (_PUBLISHED / f"{function.source}.py").read_text(encoding="utf-8"),
            "entry": entry,
            "input": dict(function.takes),
            "output": {"fields": dict(function.gives), "drop": list(function.drops)},
        },
        "cost": function.cost,
    }


_OWNER = "city"


def dynamic_document(scenario: AdaptiveScenario) -> DynamicDocument:
    """The scenario's document, checked with its modules. Raises `InvalidDocument`."""
    catalogue = installed_catalogue()
    published = [read_module(json.dumps(form), catalogue) for form in scenario.modules]
    modules = {module.name: module for module in published}

    def implementation(name: str, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], list[str]] | None:
        module = modules.get(name)
        return None if module is None else (module.type, module.config(config, {}), module.form.host_tags)

    return read_dynamic(
        json.dumps(scenario.document),
        module=implementation,
        canonical=lambda plain: canonical_dataflow(plain, scenario),
    )


def canonical_dataflow(plain: bytes, scenario: AdaptiveScenario) -> Dataflow:
    """A plain document of a scenario in canonical form."""
    return canonicalise(
        plain,
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=installed_catalogue(),
        sources={name: Source(name=name, owner=_OWNER, schema=schema) for name, schema in scenario.schemas.items()},
    )
