"""RIoTBench's applications are those that were published."""

import json

import pytest

from dags import Source, canonicalise
from engine import installed_catalogue
from workloads import riotbench

SOURCES = {name: Source(name=name, owner="ann", schema=schema) for name, schema in riotbench.SCHEMAS.items()}


@pytest.mark.parametrize(
    ("document", "tasks", "streams"),
    [(riotbench.etl(["a"]), 11, 11), (riotbench.stats(), 9, 10), (riotbench.train(), 8, 8), (riotbench.pred(), 10, 12)],
    ids=["ETL", "STATS", "TRAIN", "PRED"],
)
def test_an_application_has_its_published_size(document: riotbench.Document, tasks: int, streams: int) -> None:
    """It passes the checks, and none of its tasks is another's equal."""
    flow = canonicalise(
        json.dumps(document), dataflow="d", tenant="ann", catalogue=installed_catalogue(), sources=SOURCES
    )
    assert (tasks, streams) == (len(flow.tasks), sum(len(task.inputs) for task in flow.tasks))
