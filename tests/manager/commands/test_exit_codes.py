"""The exit codes and error messages of commands."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from manager.command import app
from manager.exit_codes import ExitCode
from tests.manager.client.scripted_service import ok, page, refusal
from tests.manager.commands.braid_runner import Braid

ENDINGS: list[tuple[Any, ExitCode, str]] = [
    (page(), ExitCode.WELL, ""),
    (refusal(400, "no"), ExitCode.PROBLEMS, "no"),
    (refusal(422, "invalid-request"), ExitCode.PROBLEMS, "invalid-request"),
    (httpx.ConnectError("refused"), ExitCode.UNREACHABLE, "unreachable"),
    (refusal(401, "unauthenticated"), ExitCode.NOT_ALLOWED, "unauthenticated"),
    (refusal(403, "forbidden"), ExitCode.NOT_ALLOWED, "forbidden"),
    (refusal(404, "not-found"), ExitCode.NOT_FOUND, "not-found"),
    (refusal(409, "conflict"), ExitCode.CONFLICT, "conflict"),
    (refusal(429, "quota-exceeded"), ExitCode.LATER, "quota-exceeded"),
    (refusal(503, "not-ready"), ExitCode.LATER, "not-ready"),
    (refusal(500, "unexpected"), ExitCode.FAILED, "unexpected"),
    (ok({"items": 1}), ExitCode.FAILED, "not-understood"),
]


@pytest.mark.parametrize(("answer", "code", "named"), ENDINGS)
def test_each_outcome_has_its_exit_code(answer: Any, code: ExitCode, named: str, braid: Braid) -> None:
    """With --json the document names the problem too."""
    result = braid("jobs", answers=[answer])
    assert code == result.exit_code
    assert (code is ExitCode.WELL) == (result.stderr == "")
    document = json.loads(braid("jobs", "--json", answers=[answer]).stdout)
    assert named == (document["problem"]["code"] if isinstance(document, dict) else "")


def test_each_problem_of_a_refused_document_is_reported(braid: Braid) -> None:
    """As a line on standard error with place and remedy, and in the JSON document."""
    Path("x.json").write_text("{}")
    wrong = {"pointer": "/tasks/0/type", "code": "unknown-type", "message": "unknown type 'x'", "remedy": "mend it"}
    whole = {"pointer": "", "code": "empty", "message": "it is empty", "remedy": "fill it"}
    answer = refusal(422, "invalid-dataflow", errors=[wrong, whole])
    result = braid("submit", "x.json", answers=answer)
    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr.splitlines() == [
        "/tasks/0/type: unknown type 'x'; mend it",
        "(document): it is empty; fill it",
    ]
    assert braid.printed_json("submit", "x.json", answers=answer)["problem"] == {
        "code": "invalid-dataflow",
        "detail": "It is invalid-dataflow; mend it",
        "status": 422,
        "title": "No",
        "errors": [wrong, whole],
    }


def test_without_an_api_key_there_is_no_request(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where to set a key."""
    monkeypatch.delenv("BRAID_KEY")
    result = braid("jobs", answers=page())
    assert (ExitCode.NOT_ALLOWED, []) == (result.exit_code, braid.requests())
    assert result.stderr.startswith("no API key for http://braid.example: set BRAID_KEY, or key in braid.toml")
    assert braid.printed_json("jobs")["problem"]["code"] == "no-key"


def test_each_wrong_setting_is_reported_in_a_line(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a request."""
    monkeypatch.setenv("BRAID_URL", "ftp://x")
    result = braid("jobs")
    assert result.exit_code == ExitCode.PROBLEMS
    assert result.stderr == (
        "BRAID_URL: the service's URL is http://host:port or https://host:port, without a user; correct it there\n"
    )
    assert braid.printed_json("jobs")["problem"]["code"] == "wrong-settings"


def test_an_unreadable_file_is_reported(braid: Braid) -> None:
    """The message names the file and the remedy."""
    result = braid("submit", "none.json")
    assert (ExitCode.PROBLEMS, []) == (result.exit_code, braid.requests())
    assert result.stderr == "none.json: No such file or directory; name a readable file\n"


def test_the_quota_of_an_unknown_tenant_cannot_be_changed(braid: Braid) -> None:
    """The message says how to list the tenants."""
    result = braid("tenants", "quota", "none", "--tasks", "1", answers=page())
    assert (ExitCode.NOT_FOUND, "There is no tenant 'none'; list them: braid tenants list\n") == (
        result.exit_code,
        result.stderr,
    )


@pytest.mark.parametrize("words", ["submit", "list --state none", "sources", "jobs --none", "nothing", "keys revoke"])
def test_wrong_usage_has_its_own_exit_code(words: str, braid: Braid) -> None:
    """For missing and unknown words and values; without a request."""
    result = braid(*words.split())
    assert (ExitCode.WRONG_CALL, []) == (result.exit_code, braid.requests())


def test_the_help_lists_every_exit_code(braid: Braid) -> None:
    """At its end, with its meaning."""
    shown = " ".join(braid("--help").stdout.split())
    assert [code for code in ExitCode if f"{code.value}: {code.meaning}" not in shown] == []


def test_a_traceback_shows_no_local_variables() -> None:
    """They could hold secrets."""
    assert app.pretty_exceptions_show_locals is False
