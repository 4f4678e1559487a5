"""Dataflows of adaptive scenarios, read and resolved as a service does for the tenant who owns the sources."""

import json
from collections.abc import Mapping
from typing import Any

from adaptation.documents.dynamic_document import DynamicDocument, Selection
from adaptation.documents.dynamic_reader import read_dynamic
from adaptation.documents.resolution import resolve
from dags import Dataflow, Source, canonicalise
from engine import installed_catalogue
from planning.pipelines.module import read_module
from workloads.adaptive.scenario import AdaptiveScenario

_OWNER = "city"


def dynamic_document(scenario: AdaptiveScenario) -> DynamicDocument:
    """The scenario's document, checked with its modules. Raises `InvalidDocument`."""
    catalogue = installed_catalogue()
    modules = {each.name: each for each in (read_module(json.dumps(form), catalogue) for form in scenario.modules)}

    def implementation(name: str, config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], list[str]] | None:
        found = modules.get(name)
        return None if found is None else (found.type, found.config(config, {}), found.form.host_tags)

    return read_dynamic(
        json.dumps(scenario.document),
        module=implementation,
        canonical=lambda plain: _canonical(plain, scenario),
    )


def scenario_dataflow(scenario: AdaptiveScenario, dynamic: DynamicDocument, choice: Selection) -> Dataflow:
    """What the scenario runs as with a selection."""
    return _canonical(json.dumps(resolve(dynamic, choice)).encode(), scenario)


def _canonical(plain: bytes, scenario: AdaptiveScenario) -> Dataflow:
    return canonicalise(
        plain,
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=installed_catalogue(),
        sources={name: Source(name=name, owner=_OWNER, schema=schema) for name, schema in scenario.schemas.items()},
    )
