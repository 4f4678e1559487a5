"""`braid diff`: a document against the one that runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from manager.exit_codes import ExitCode
from tests.braid_client.samples import DETAIL
from tests.braid_client.scripted_service import ok
from tests.manager.braid_runner import Braid

RUNS: dict[str, Any] = {
    "version": 1,
    "name": "Schools",
    "tasks": [
        {"id": "in", "type": "source", "config": {"source": "city"}},
        {"id": "sane", "type": "range_filter", "config": {"field": "f", "min": 0, "max": 20}},
        {"id": "out", "type": "output"},
    ],
    "streams": [{"from": "in", "to": "sane"}, {"from": "sane", "from_port": "low", "to": "out"}],
}
_OUT = {"id": "out", "type": "output"}


def edited(**parts: Any) -> dict[str, Any]:
    return RUNS | parts


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        (RUNS, []),
        (edited(tasks=RUNS["tasks"][::-1], streams=RUNS["streams"][::-1]), []),
        (edited(tasks=[*RUNS["tasks"][:2], {**_OUT, "module": None}]), []),
        (
            edited(
                tasks=[
                    RUNS["tasks"][0],
                    {**RUNS["tasks"][1], "config": {"field": "f", "min": False, "max": 20.0}},
                    _OUT,
                ]
            ),
            ["~ task sane: config.min 0 → false"],
        ),
        (edited(name="Other"), ['~ document: name "Schools" → "Other"']),
        (
            edited(tasks=[*RUNS["tasks"], {"id": "n", "type": "count", "config": {"by": ["f"]}}]),
            ['+ task n: count {"by": ["f"]}'],
        ),
        (edited(tasks=RUNS["tasks"][:2]), ["- task out"]),
        (
            edited(streams=[RUNS["streams"][0], {"from": "sane", "to": "out"}]),
            ["- stream sane.low → out", "+ stream sane → out"],
        ),
    ],
)
def test_differences_are_in_the_words_of_documents(braid: Braid, document: dict[str, Any], shown: list[str]) -> None:
    """Order makes none, nor a null, nor another way to write a number; the exit code says whether there are any."""
    Path("x.json").write_text(json.dumps(document))
    answer = ok(DETAIL | {"document": RUNS})
    result = braid("diff", "x.json", "d1", answers=answer)
    assert (ExitCode.DIFFERENT if shown else ExitCode.WELL, shown) == (result.exit_code, result.stdout.splitlines()[1:])
    assert len(shown) == len(braid.printed_json("diff", "x.json", "d1", answers=answer)["changes"])


def test_the_dataflow_is_found_by_the_name_in_the_document(braid: Braid) -> None:
    """An operator says whose it is."""
    Path("x.json").write_text(json.dumps(RUNS))
    assert (
        ExitCode.WELL == braid("diff", "x.json", "--tenant", "ann", answers=ok(DETAIL | {"document": RUNS})).exit_code
    )
    assert ["GET /v1/dataflows/ann%3ASchools"] == braid.requests()


@pytest.mark.parametrize("kind", ["dynamic", "pipeline"])
def test_what_was_submitted_counts_and_not_what_was_made_of_it(braid: Braid, kind: str) -> None:
    """For a document with alternates, or with open places."""
    Path("x.json").write_text(json.dumps(RUNS))
    answer = ok(DETAIL | {"document": edited(tasks=[]), kind: RUNS})
    assert ExitCode.WELL == braid("diff", "x.json", answers=answer).exit_code


def test_what_cannot_be_compared_is_refused_without_a_request(braid: Braid) -> None:
    """With what to do."""
    for text, problem in (("[]", "it is not a JSON object"), ("{}", "name the dataflow to compare it with")):
        Path("x.json").write_text(text)
        result = braid("diff", "x.json")
        assert (ExitCode.PROBLEMS, [], True) == (result.exit_code, braid.requests(), problem in result.stderr)
