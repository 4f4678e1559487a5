"""RIoTBench's applications are those that were published."""

import json

import pytest

from dags import Source, canonicalise
from engine import installed_catalogue
from workloads.riotbench import applications
from workloads.riotbench.applications import Document, predicted_rows
from workloads.riotbench.datasets import DATA_SETS, FITNESS, GRID, TAXI, URBAN, DataSet

SOURCES = {
    data.source(of): Source(name=data.source(of), owner="ann", schema=schema)
    for data in DATA_SETS.values()
    for of, schema in applications.SCHEMAS.items()
}


def documents(data: DataSet) -> list[Document]:
    """All that there are for a set; models are learned where there are fields to learn from."""
    made = [applications.etl(data), applications.stats(data), applications.stats_first(data)]
    if data.features:
        made += [
            applications.train(data),
            applications.train_alone(data),
            applications.pred(data),
            predicted_rows(data),
        ]
    return made


SIZES = [
    (11, 11),
    # Two plots more, each with a stream that it emits.
    (9 + 2, 10 + 2),
    # Two publishers more.
    (9 + 2, 10 + 2),
    (8, 8),
    # Rows that are parsed, written, and reported to be there, in place of a timer.
    (8 + 3, 8 + 3),
    # A publisher more.
    (10 + 1, 12 + 1),
    # No download and no publishers, and an output each.
    (9, 10),
]
"""Tasks and streams, but for a task for each result where the benchmark's take several."""


@pytest.mark.parametrize("data", [URBAN, TAXI, GRID, FITNESS], ids=lambda data: data.name)
def test_an_application_has_its_published_size(data: DataSet) -> None:
    """It passes the checks for each data set, and no two of its tasks are equal."""
    found = []
    for document in documents(data):
        flow = canonicalise(
            json.dumps(document), dataflow="d", tenant="ann", catalogue=installed_catalogue(), sources=SOURCES
        )
        found.append((len(flow.tasks), sum(len(task.inputs) for task in flow.tasks)))
    assert SIZES[: len(found)] == found


def test_a_data_set_observes_what_was_published() -> None:
    """So many fields, each with its bounds; of the taxi's nine, one is no number and so not observed here."""
    expected = {"urban": (5, 5), "taxi": (9 - 1, 5), "grid": (1, 1), "fitness": (11, 11)}
    assert expected == {name: (len(data.observed), len(data.ranges)) for name, data in DATA_SETS.items()}
    assert {"energyconsumed": (1.828, 36.658)} == GRID.ranges
