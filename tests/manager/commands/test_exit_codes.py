"""What commands end with, and what they say when something is not done."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from manager.command import app
from manager.commands.exit_codes import ExitCode
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
def test_each_way_to_end_has_its_code(answer: Any, code: ExitCode, named: str, braid: Braid) -> None:
    """Scripts tell by the code what happened, and by the JSON document what exactly."""
    result = braid("jobs", answers=[answer])
    assert code == result.exit_code
    assert (code is ExitCode.WELL) == (result.stderr == "")
    told = json.loads(braid("jobs", "--json", answers=[answer]).stdout)
    assert named == (told["problem"]["code"] if isinstance(told, dict) else "")


def test_a_refused_document_is_told_problem_by_problem(braid: Braid) -> None:
    """Every problem is a line on standard error with its place and its remedy, and is in the JSON document too."""
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
    assert braid.said("submit", "x.json", answers=answer)["problem"] == {
        "code": "invalid-dataflow",
        "detail": "It is invalid-dataflow; mend it",
        "status": 422,
        "title": "No",
        "errors": [wrong, whole],
    }


def test_without_an_api_key_nobody_is_asked(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says where a key can be named."""
    monkeypatch.delenv("BRAID_KEY")
    result = braid("jobs", answers=page())
    assert (ExitCode.NOT_ALLOWED, []) == (result.exit_code, braid.asked())
    assert result.stderr.startswith(
        "no API key for http://braid.example: name one in BRAID_KEY, or as key in braid.toml"
    )
    assert braid.said("jobs")["problem"]["code"] == "no-key"


def test_wrong_settings_are_told_in_one_line_each(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be used keeps the command from asking."""
    monkeypatch.setenv("BRAID_URL", "ftp://x")
    result = braid("jobs")
    assert result.exit_code == ExitCode.PROBLEMS
    assert result.stderr == (
        "BRAID_URL: the service's URL is http://host:port or https://host:port, without a user; correct it there\n"
    )
    assert braid.said("jobs")["problem"]["code"] == "wrong-settings"


def test_a_file_that_cannot_be_read_is_told(braid: Braid) -> None:
    """The message names the file and the remedy."""
    result = braid("submit", "none.json")
    assert (ExitCode.PROBLEMS, []) == (result.exit_code, braid.asked())
    assert result.stderr == "none.json: No such file or directory; name a file that can be read\n"


def test_a_tenant_that_is_not_there_has_no_quota_to_change(braid: Braid) -> None:
    """The message says where the names are found."""
    result = braid("tenants", "quota", "none", "--tasks", "1", answers=page())
    assert (ExitCode.NOT_FOUND, "There is no tenant 'none'; list them: braid tenants list\n") == (
        result.exit_code,
        result.stderr,
    )


@pytest.mark.parametrize("words", ["submit", "list --state none", "sources", "jobs --none", "nothing", "keys revoke"])
def test_a_wrong_call_is_told_apart(words: str, braid: Braid) -> None:
    """What is missing, unknown or no choice is a wrong call, and nobody is asked."""
    result = braid(*words.split())
    assert (ExitCode.WRONG_CALL, []) == (result.exit_code, braid.asked())


def test_the_help_lists_every_exit_code(braid: Braid) -> None:
    """`braid --help` ends with the table."""
    shown = " ".join(braid("--help").stdout.split())
    assert [code for code in ExitCode if f"{code.value}: {code.meaning}" not in shown] == []


def test_a_traceback_would_show_no_variables() -> None:
    """Where the program fails, what it held, secrets among it, is not printed."""
    assert app.pretty_exceptions_show_locals is False
