"""`braid sources propose`: what it prints is a file that `braid sources register` takes."""

import json
from pathlib import Path

from braid_client.answers.sources import ProposalForm
from manager.exit_codes import ExitCode
from manager.rest.examples import BODIES
from tests.braid_client.samples import SOURCE
from tests.braid_client.scripted_service import ok
from tests.manager.braid_runner import Braid

PROPOSAL = BODIES["ProposalAnswer"]


def test_what_is_printed_can_be_registered(braid: Braid) -> None:
    """On standard output there is the form alone; what is not known stands on standard error."""
    result = braid("sources", "propose", "ann/pavement", "--seconds", "7", answers=ok(PROPOSAL))
    assert (0, {"topic": "ann/pavement", "seconds": 7}) == (result.exit_code, braid.sent())
    assert [
        "inferred from 80 events in 40 messages",
        "wheels: every number is whole; if others may come, it is a float",
    ] == result.stderr.splitlines()
    Path("source.json").write_text(result.stdout)
    braid("sources", "register", "source.json", answers=ok(SOURCE))
    assert {name: value for name, value in PROPOSAL["source"].items() if value is not None} == braid.sent()


def test_a_format_may_be_named(braid: Braid) -> None:
    """By its kind, or as an object."""
    for text, sent in (("csv", "csv"), ('{"kind": "csv", "separator": ";"}', {"kind": "csv", "separator": ";"})):
        braid("sources", "propose", "ann/pavement", "--format", text, answers=ok(PROPOSAL))
        form = ProposalForm.model_validate({"topic": "ann/pavement", "format": sent})
        assert form == ProposalForm.model_validate(braid.sent())
    for text in ("{", "none"):
        assert ExitCode.PROBLEMS == braid("sources", "propose", "ann/pavement", "--format", text).exit_code


def test_for_programs_the_whole_answer_is_printed(braid: Braid) -> None:
    """As of every command."""
    assert PROPOSAL == braid.printed_json("sources", "propose", "ann/pavement", answers=ok(PROPOSAL))


def test_a_silent_topic_is_reported(braid: Braid) -> None:
    """Nothing is printed that could be registered by mistake."""
    silent = PROPOSAL | {"messages": 0, "events": 0, "undecided": []}
    result = braid("sources", "propose", "ann/pavement", answers=ok(silent))
    assert (ExitCode.PROBLEMS, "") == (result.exit_code, result.stdout)
    assert "no message came on ann/pavement in 10 s" in result.stderr
    broken = silent | {"messages": 2, "unread": 2, "why_unread": "the message is not JSON: malformed"}
    result = braid("sources", "propose", "ann/pavement", "--json", answers=ok(broken))
    assert "no event that a source takes came on ann/pavement in 10 s: the message is not JSON" in result.stderr
    assert json.loads(result.stdout)["problem"]["code"] == "no-use"
