"""Plans of scenarios: made as a service makes them for the tenant who owns the sources, with the installed types."""

import json
from collections.abc import Sequence

from dags import Dataflow, InvalidDocument, Problem, Source, canonicalise
from engine import installed_catalogue
from planning.pipelines.assembly import Assembled
from planning.pipelines.module import read_module
from planning.pipelines.pipeline import Surroundings, read_pipeline
from planning.pipelines.planned import PlannedPipeline, plan_pipeline
from workloads.pipelines.scenario import PipelineScenario
from workloads.workload import Document

_OWNER = "city"


def surroundings_of(scenario: PipelineScenario) -> Surroundings:
    """What its pipeline is planned against. Its modules are an operator's, who vouches for their code."""
    catalogue = installed_catalogue()
    return Surroundings(
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=catalogue,
        sources={name: Source(name=name, owner=_OWNER, schema=schema) for name, schema in scenario.schemas.items()},
        modules=[read_module(json.dumps(each), catalogue) for each in scenario.modules],
    )


def planned_scenario(pipeline: Document, around: Surroundings, *, reasons: bool = True) -> PlannedPipeline:
    """The best plan of a pipeline that passes all checks; refused with or without reasons."""

    def check(made: Assembled) -> Sequence[Problem]:
        try:
            canonical_form(made.document, around)
        except InvalidDocument as refused:
            return refused.problems
        return ()

    return plan_pipeline(read_pipeline(json.dumps(pipeline), around), check, reasons=reasons)


def canonical_form(document: Document, around: Surroundings) -> Dataflow:
    """A plain document in canonical form."""
    return canonicalise(
        json.dumps(document),
        dataflow=around.dataflow,
        tenant=around.tenant,
        catalogue=around.catalogue,
        sources=around.sources,
    )
