"""Drafts of documents that do not run as they are written, and of what can hardly be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from manager.rest import examples
from tests.manager.rest.town import OWN, town

ALL = {"street", "plausible", "average", "averages"}


@pytest.mark.parametrize(
    ("document", "codes", "running", "starting"),
    [
        (examples.DOCUMENT | {"goals": []}, [], ALL, set()),
        (OWN | {"policy": {}}, [], {"street"}, ALL - {"street"}),
        (examples.DOCUMENT | {"goals": [], "points": [{"id": "x"}]}, ["unknown-field"], ALL, set()),
        (examples.DOCUMENT | {"policy": {"throughput": "x"}}, ["wrong-type"], ALL, set()),
        ([], ["not-an-object"], set(), set()),
    ],
)
def test_a_draft_is_answered_whatever_it_is(
    tmp_path: Path, document: Any, codes: list[str], running: set[str], starting: set[str]
) -> None:
    """Pipelines and dynamic dataflows as what they are made into; with problems, the tasks as they are written."""
    with town(tmp_path) as made:
        ann = made.service.administration.caller(made.keys["ann"])
        answer = made.service.dataflows.explain(ann, json.dumps(document).encode(), draft=True)
    assert codes == [problem.code for problem in answer.problems]
    assert (running, starting) == tuple(
        {task.id for task in answer.tasks if task.runs is runs} for runs in (True, False)
    )
