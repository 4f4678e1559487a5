"""Statistics of templates, in the terms of the published repository."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from dags import Catalogue, Dataflow
from workloads.opmw.document_encoder import SourcesBy, encode, registered, sources_of
from workloads.opmw.repository import is_chain, links
from workloads.opmw.sharing_counts import canonical, count_sharing, is_step
from workloads.opmw.templates import Template


def dataflows_of(templates: Sequence[Template], catalogue: Catalogue, sources: SourcesBy) -> list[Dataflow]:
    """The canonical dataflows of templates, with an output for each output variable."""
    documents = {each.name: encode(each, name=each.name, sources=sources) for each in templates}
    names = tuple({source for document in documents.values() for source in sources_of(document)})
    return canonical(documents.items(), catalogue, registered(names))


def shape(templates: Sequence[Template]) -> dict[str, Any]:
    """The sizes of templates and their links."""
    sizes = [len(each.steps) for each in templates]
    return {
        "templates": len(templates),
        "steps": {
            "min": min(sizes),
            "median": median(sizes),
            "mean": round(fmean(sizes), 2),
            "max": max(sizes),
            "total": sum(sizes),
        },
        "links": sum(map(links, templates)),
        "components": len({step.component for each in templates for step in each.steps}),
        "single-step": sizes.count(1),
        "chains": sum(map(is_chain, templates)),
    }


def sharing(by_type: Sequence[Dataflow]) -> dict[str, Any]:
    """The tasks that dataflows share; their sources are by data type."""
    return {"with equivalent steps": sum(map(_repeats, by_type)), "by type": count_sharing(by_type).as_json()}


def sharing_by_other_sources(templates: Sequence[Template], catalogue: Catalogue) -> dict[str, Any]:
    """The tasks that templates share with sources by variable, and with one source for all."""
    by_variable = count_sharing(dataflows_of(templates, catalogue, SourcesBy.VARIABLE))
    alone = count_sharing(dataflows_of(templates, catalogue, SourcesBy.NONE))
    return {"by variable": by_variable.as_json(), "one source": alone.as_json()}


def _repeats(dataflow: Dataflow) -> bool:
    places = [place for place in dataflow.places.values() if is_step(dataflow.tasks[place].type)]
    return len(set(places)) < len(places)
