"""What benchmarks submit to a service: dataflows whose tasks stand in a row, and the sources that they read."""

import json
import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from benchmarks import drawn_dataflows
from benchmarks.instruments import Figures
from braid_client.answers.sources import SourceForm


def row_document(name: str, source: str, tasks: Mapping[str, Figures], **more: Any) -> Figures:
    """A source, tasks in a row by their ids, and an output."""
    return {
        "version": 1,
        "name": name,
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            *({"id": task, **about} for task, about in tasks.items()),
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": above, "to": below} for above, below in pairwise(["in", *tasks, "out"])],
        **more,
    }


def topic_source(name: str, schema: Mapping[str, str], *, topic: str = "", **more: Any) -> SourceForm:
    """A source of what is published on a topic, by default that of its name."""
    connection = {"kind": "topic", "topic": topic or name}
    return SourceForm.model_validate({"name": name, "connection": connection, "schema": schema, **more})


def rate_source(name: str, per_second: float) -> SourceForm:
    """A source of generated events."""
    return SourceForm.model_validate({"name": name, "connection": {"kind": "rate", "per_second": per_second}})


def city_source(name: str) -> SourceForm:
    """A source of drawn dataflows, which belongs to the city and which everybody may read."""
    schema = {field: str(kind) for field, kind in drawn_dataflows.SOURCE_SCHEMA.fields.items()}
    return topic_source(name, schema, topic=f"city/{name}", owner="city", visibility="public")


def city_document(draw: random.Random, shape: drawn_dataflows.Shape, number: int) -> bytes:
    """A drawn dataflow that reads the sources of the city."""
    document = json.loads(drawn_dataflows.document(draw, shape, number))
    for task in document["tasks"]:
        if task["type"] == "source":
            task["config"]["source"] = f"city:{task['config']['source']}"
    return json.dumps(document).encode()
