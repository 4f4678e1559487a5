"""Plans of scenarios: planned as a service would for the tenant who owns the sources, with the installed task types."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dags import Dataflow, InvalidDocument, Problem, Source, canonicalise
from engine import installed_catalogue
from planning.pipelines.assembly import Assembled
from planning.pipelines.module import Module, read_module
from planning.pipelines.pipeline import Surroundings, read_pipeline
from planning.pipelines.planned import PlannedPipeline, plan_pipeline
from workloads.pipelines.scenario import PipelineScenario
from workloads.workload import Document

_OWNER = "city"


def planned_scenario(scenario: PipelineScenario) -> PlannedPipeline:
    """The best plan of its pipeline."""
    around = Surroundings(
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=installed_catalogue(),
        sources=_sources(scenario),
        modules=modules_of(scenario),
    )

    def check(made: Assembled) -> Sequence[Problem]:
        try:
            canonical_form(scenario, made.document)
        except InvalidDocument as refused:
            return refused.problems
        return ()

    return plan_pipeline(read_pipeline(json.dumps(scenario.pipeline), around), check)


def modules_of(scenario: PipelineScenario) -> tuple[Module, ...]:
    """Its modules, as an operator published them, who vouches for their code."""
    read = (read_module(json.dumps(each), installed_catalogue()) for each in scenario.modules)
    return tuple(replace(each, is_vouched=True) for each in read)


def canonical_form(scenario: PipelineScenario, document: Document) -> Dataflow:
    """A document over the sources of a scenario in canonical form."""
    return canonicalise(
        json.dumps(document),
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=installed_catalogue(),
        sources=_sources(scenario),
    )


def _sources(scenario: PipelineScenario) -> Mapping[str, Source]:
    return {name: Source(name=name, owner=_OWNER, schema=schema) for name, schema in scenario.schemas.items()}
