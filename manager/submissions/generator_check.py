"""Generators: tasks that make their events themselves. Documents may have them; what runs begins at a source."""

import json

from dags import Dataflow, Problem
from dags.problems import pointer, quoted
from manager.problem import InvalidDataflow


def check_no_generators(dataflow: Dataflow, raw: bytes) -> None:
    """Refuse a dataflow, of whose document these are the bytes, that begins at such tasks."""
    found = {id_ for id_, place in dataflow.places.items() if dataflow.tasks[place].type.is_generator}
    if not found:
        return
    raise InvalidDataflow(
        Problem(
            pointer=pointer("tasks", at, "type"),
            code="generator-not-run",
            message=f"tasks of type {quoted(task['type'])} make their events themselves, which nothing here runs",
            remedy="register a source of kind 'timer' or 'rate', and begin with a task of type 'source' that reads it",
        )
        for at, task in enumerate(json.loads(raw)["tasks"])
        if task["id"] in found
    )
