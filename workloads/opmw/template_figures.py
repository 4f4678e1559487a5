"""What templates are like, in the terms in which the published repository is described."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from dags import Catalogue, Dataflow
from workloads.opmw.document_encoder import SourcesBy, encode, registered, sources_of
from workloads.opmw.repository import is_chain, links
from workloads.opmw.sharing_counts import canonical, counted, is_step
from workloads.opmw.templates import Template


def dataflows_of(templates: Sequence[Template], catalogue: Catalogue, sources: SourcesBy) -> list[Dataflow]:
    """The canonical dataflows of templates in an encoding, with an output for each output variable."""
    documents = {each.name: encode(each, name=each.name, sources=sources) for each in templates}
    names = tuple({source for document in documents.values() for source in sources_of(document)})
    return canonical(documents.items(), catalogue, registered(names))


def shape(templates: Sequence[Template]) -> dict[str, Any]:
    """How large the templates are, and how their steps are joined."""
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
    """What dataflows share when all run, whose sources are told apart by data type."""
    return {"with equivalent steps": sum(map(_repeats, by_type)), "by type": counted(by_type).told()}


def sharing_otherwise(templates: Sequence[Template], catalogue: Catalogue) -> dict[str, Any]:
    """What they share in the other encodings."""
    by_variable = counted(dataflows_of(templates, catalogue, SourcesBy.VARIABLE))
    alone = counted(dataflows_of(templates, catalogue, SourcesBy.NONE))
    return {"by variable": by_variable.told(), "one source": alone.told()}


def _repeats(dataflow: Dataflow) -> bool:
    places = [place for place in dataflow.places.values() if is_step(dataflow.tasks[place].type)]
    return len(set(places)) < len(places)
