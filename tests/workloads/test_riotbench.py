"""RIoTBench's applications are those that were published."""

import json

import pytest

from dags import Source, canonicalise
from engine import installed_catalogue
from workloads.riotbench import applications as riotbench

SOURCES = {name: Source(name=name, owner="ann", schema=schema) for name, schema in riotbench.SCHEMAS.items()}


@pytest.mark.parametrize(
    ("document", "tasks", "streams"),
    [
        (riotbench.etl(["a"]), 11, 11),
        # Two plots more, each with a stream that it emits.
        (riotbench.stats(), 9 + 2, 10 + 2),
        (riotbench.train(), 8, 8),
        # A publisher more.
        (riotbench.pred(), 10 + 1, 12 + 1),
    ],
    ids=["ETL", "STATS", "TRAIN", "PRED"],
)
def test_an_application_has_its_published_size(document: riotbench.Document, tasks: int, streams: int) -> None:
    """But for a task for each result where one took several; it passes the checks, and no two tasks are equal."""
    flow = canonicalise(
        json.dumps(document), dataflow="d", tenant="ann", catalogue=installed_catalogue(), sources=SOURCES
    )
    assert (tasks, streams) == (len(flow.tasks), sum(len(task.inputs) for task in flow.tasks))
