"""Edits of running dataflows for tests, each written as the line before and the line after."""

import json
from collections.abc import Iterable

from dags.canonical import canonicalise
from manager.documents.edited import compared
from merge.reconfiguration.alteration import Edit, below, changed_ids, histories
from tests.catalogue import CATALOGUE, SOURCES
from tests.merge.floor import Floor
from tests.notation import document, flow


def edit(  # noqa: PLR0913 - what runs, both lines, and what is said of their tasks
    floor: Floor,
    dataflow: str,
    before: str,
    after: str,
    *,
    unfit: Iterable[str] = (),
    apart: Iterable[str] = (),
    name: str = "r",
) -> Edit:
    """The edit of a running dataflow, which gets the id `DATAFLOW.2`."""
    places = floor.running.dataflow(dataflow).places
    tasks = {task: floor.running.tasks[instance] for task, instance in places.items()}
    written = document(after)
    difference = compared(json.dumps(document(before)), json.dumps(written))
    assert difference.problem is None
    following = f"{dataflow}.2"
    affected = below(difference.streams, changed_ids(tasks, flow(after, following)) | difference.rerouted)
    by = canonicalise(
        json.dumps(written),
        dataflow=following,
        tenant="ann",
        catalogue=CATALOGUE,
        sources=SOURCES,
        histories=histories(tasks, affected, name),
    )
    return Edit(dataflow, by, affected, frozenset(unfit), frozenset(apart))
