"""`braid status`: the overview on one screen, with what needs attention."""

from typing import Any

from manager.exit_codes import ExitCode
from tests.braid_client.samples import AT, CONCERN
from tests.braid_client.scripted_service import ok
from tests.manager.braid_runner import Braid

WELL = {
    "well": True,
    "attention": [],
    "concerns": 0,
    "dataflows": {"running": 3},
    "tasks_submitted": 9,
    "tasks_running": 5,
    "jobs": None,
}
WARNING = {
    "urgency": "warning",
    "kind": "source",
    "subject": "city",
    "what": "Source city rejected 2 events, the last",
    "at": AT,
    "reason": "f is no float",
    "remedy": "braid sources show city",
    "limit": "",
}


def wrong(*concerns: dict[str, Any], more: int = 0) -> dict[str, Any]:
    """An overview with concerns."""
    is_well = all(concern["urgency"] == "warning" for concern in concerns)
    return WELL | {"well": is_well, "attention": list(concerns), "concerns": len(concerns) + more}


def test_one_sentence_says_that_all_is_well(braid: Braid) -> None:
    """It takes one request."""
    result = braid("status", answers=[ok(WELL)])
    assert (ExitCode.WELL, "all is well: 3 dataflows running") == (result.exit_code, result.stdout.splitlines()[0])
    assert "5 tasks run for 9 that were submitted" in result.stdout
    assert ["GET /v1/overview"] == braid.requests()


def test_each_concern_comes_with_what_to_do(braid: Braid) -> None:
    """With its time and its reason; an error has an exit code of its own, a warning has not."""
    result = braid("status", "--wide", answers=[ok(wrong(WARNING))])
    assert (ExitCode.WELL, True) == (result.exit_code, "1 thing needs attention" in result.stdout)
    assert "Source city rejected 2 events, the last at 2026-01-02 03:04:05: f is no float" in result.stdout
    assert "braid sources show city" in result.stdout
    result = braid("status", "--wide", answers=[ok(wrong(CONCERN, WARNING))])
    assert (ExitCode.UNWELL, True) == (result.exit_code, "Job j1 is died: disk full" in result.stdout)
    document = braid.printed_json("status", answers=[ok(wrong(CONCERN, WARNING))])
    assert (False, [CONCERN, WARNING]) == (document["well"], document["attention"])


def test_no_more_is_shown_than_a_screen(braid: Braid) -> None:
    """The rest is counted; the document for programs has what the service lists."""
    lines = braid("status", answers=[ok(wrong(CONCERN, *[WARNING] * 29, more=7))]).stdout.splitlines()
    assert "37 things need attention; 3 dataflows running" == lines[0]
    assert next(line for line in lines if "error" in line or "warning" in line).strip().startswith("error")
    assert "and 17 more; braid status --json lists up to 100" in lines
