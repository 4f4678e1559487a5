"""The command line: how commands are found, loaded and ended, and what its pages and JSON say."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import typer
import typer.main
from typer.testing import CliRunner

from manager import command
from manager.command import COMMANDS, Command, app, loaded, summary
from manager.exit_codes import ExitCode
from manager.settings import SECRET_SETTINGS, ClientSettings, Settings
from tests.braid_client.scripted_service import ok, page, refusal
from tests.documentation.pages import page as documented
from tests.manager.braid_runner import Braid
from workloads.service import free_port


def called(function: object, *words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Call a command that a package adds; return its exit code, output and error output."""
    module = ModuleType("added_commands")
    setattr(module, "added", function)  # noqa: B010 - a module of the test's own has no type for it
    monkeypatch.setitem(sys.modules, "added_commands", module)
    one = Command(name="added", target="added_commands:added", panel="")
    app = typer.Typer()
    app.command("added", add_help_option=False, context_settings=command.PASS_ARGUMENTS)(command.lazy(one))
    app.command("other")(lambda: None)
    result = CliRunner().invoke(app, ["added", *words])
    return result.exit_code, result.stdout, result.stderr


def add(count: int, *, loud: bool = False) -> None:
    typer.echo(f"{count}{'!' if loud else ''}")


def test_a_command_gets_its_own_arguments_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order."""
    assert called(add, "--loud", "3", monkeypatch=monkeypatch) == (0, "3!\n", "")
    assert called(add, "3", "--loud", monkeypatch=monkeypatch) == (0, "3!\n", "")


def test_the_exit_code_of_a_command_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is not in the table."""

    def end() -> None:
        raise typer.Exit(77)

    assert called(end, monkeypatch=monkeypatch)[0] == 77


def test_an_interrupted_command_ends_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is not an error."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert called(interrupted, monkeypatch=monkeypatch)[0] == ExitCode.INTERRUPTED


def test_wrong_usage_names_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to get its help."""
    code, _, errors = called(add, "three", monkeypatch=monkeypatch)
    assert (ExitCode.WRONG_CALL, True) == (code, " added --help' for help." in errors)


def test_a_command_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names it and the remedy, without a traceback."""
    one = Command(name="added", target="no_such_package:added", panel="")
    app = typer.Typer()
    app.command("added", context_settings=command.PASS_ARGUMENTS)(command.lazy(one))
    app.command("other")(lambda: None)
    monkeypatch.delitem(sys.modules, "no_such_package", raising=False)
    result = CliRunner().invoke(app, ["added"])
    assert (ExitCode.FAILED, "") == (result.exit_code, result.stdout)
    assert result.stderr == (
        "braid added cannot be loaded: No module named 'no_such_package'; reinstall the package that provides it\n"
    )


HEAVY = {"pyspark", "pyarrow", "fastapi", "sqlalchemy"}
CALL = """
import sys
from manager.command import app
try:
    app(sys.argv[1:], prog_name="braid")
except SystemExit:
    pass
sys.stderr.write("\\n" + " ".join(sys.modules))
"""


def imported(*words: str) -> set[str]:
    """The modules that a call imports."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", CALL, *words],
        env={"BRAID_URL": "http://127.0.0.1:1", "BRAID_KEY": "x", "PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "submit --help",
        "submit /dev/null",
        "list",
        "tenants --help",
        "serve --help",
        "doctor --help",
        "send city /dev/null",
        "sources propose city/raw",
    ],
)
def test_client_commands_do_not_import_the_service(words: str) -> None:
    """Nor does the help: no Spark, Arrow, web server or database."""
    assert HEAVY & imported(*words.split()) == set()


def test_help_does_not_import_the_client() -> None:
    """It needs the command line alone."""
    assert {"braid_client", "httpx", "pydantic", "dags"} & imported("--help") == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_sentence_in_the_help(command: object) -> None:
    """Read without importing the command."""
    assert summary(getattr(command, "target")).endswith(".")  # noqa: B009 - parametrize gives an object


def test_a_command_of_a_broken_package_has_no_sentence() -> None:
    """The other commands are listed all the same."""
    assert [summary("none.such:run"), summary("manager.none:run")] == ["", ""]


PAGE = documented("docs/commands.md")
SETTINGS = documented("docs/settings.md").table("All of them")
GROUPS = {command.name: group for command in COMMANDS if isinstance(group := loaded(command), typer.Typer)}


def names(group: typer.Typer) -> list[str]:
    """The commands of a group, in order."""
    return list(getattr(typer.main.get_command(group), "commands"))  # noqa: B009 - the type of a group is not stable


def commands_of(name: str, command: object) -> Iterator[str]:
    """A command in words, or those of a group, which may have groups in it."""
    nested = getattr(command, "commands", None)
    if nested is None:
        yield name
        return
    for other, under in nested.items():
        yield from commands_of(f"{name} {other}", under)


def test_every_exit_code_is_documented() -> None:
    """With name and meaning, in order."""
    known = [(str(code.value), f"`{code.name}`", code.meaning) for code in ExitCode]
    assert known == [tuple(row) for row in PAGE.table("Exit codes").rows[1:]]


def test_every_command_is_documented() -> None:
    """Also those in groups, in the order of the help."""
    groups = {name: typer.main.get_command(group) for name, group in GROUPS.items()}
    expected = [words for name in names(app) for words in commands_of(name, groups.get(name))]
    documented = [re.sub(r"( [A-Z]+)+$", "", cell.removeprefix("braid ")) for cell in PAGE.table("Commands").column()]
    assert expected == documented


def test_every_setting_is_documented() -> None:
    """With its variable, its readers, and a mark if it is secret."""
    service, client = Settings.model_fields.keys(), ClientSettings.model_fields.keys()
    expected = [
        (
            f"`{name}`",
            f"`BRAID_{name.upper()}`",
            "both" if name in service and name in client else "service" if name in service else "client",
            name in SECRET_SETTINGS,
        )
        for name in dict.fromkeys([*service, *client])
    ]
    rows = SETTINGS.rows[1:]
    assert expected == [(name, variable, reader, what.endswith("; secret")) for name, variable, reader, what, _ in rows]


@pytest.mark.parametrize("name", ["listen", "port", "host", "pace"])
def test_documented_defaults_are_those_of_the_code(name: str) -> None:
    """For defaults that are plain values."""
    defaults = {row[0].strip("`"): row[4].strip("`") for row in SETTINGS.rows[1:]}
    assert str(Settings.model_fields[name].default) == defaults[name]


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


def test_problems_of_options_name_the_option(braid: Braid) -> None:
    """Not the place in the request, which the caller has not written."""
    missing = {
        "pointer": "/query/tenant",
        "code": "missing",
        "message": "an operator acts for none",
        "remedy": "say it",
    }
    result = braid("secrets", "list", answers=refusal(422, "invalid-request", errors=[missing]))
    assert "--tenant: an operator acts for none; say it\n" == result.stderr


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


BRAID = (sys.executable, "-c", "from manager.command import app; app()")
PATIENCE = 120.0


def calls() -> Iterator[str]:
    """The words of each command."""
    for name in getattr(typer.main.get_command(app), "commands"):  # noqa: B009 - the type of a group is not stable
        group = getattr(typer.main.get_command(GROUPS[name]), "commands") if name in GROUPS else [""]  # noqa: B009
        yield from (f"{name} {nested}".strip() for nested in group)


def braid(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [*BRAID, *words],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def _environment(folder: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("BRAID_")},
        "HOME": str(folder),
        "COLUMNS": "200",
    }


def test_every_command_takes_json(tmp_path: Path) -> None:
    """Except the one that always prints JSON."""
    program = "\n".join(
        (
            "from typer.testing import CliRunner",
            "from manager.command import app",
            f"for call in {list(calls())!r}:",
            "    if '--json' not in CliRunner().invoke(app, [*call.split(), '--help']).stdout:",
            "        print(call)",
        )
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env=_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert ["schema"] == done.stdout.split()


def test_serve_logs_objects_and_protects_its_files(tmp_path: Path) -> None:
    """Each line is an object, and lifecycle events have names. Only the owner can read secret files."""
    root = tmp_path / "root"
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*BRAID, "serve", "--json", "--root", str(root), "--host", "none", "--port", str(free_port())],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        umask=0,
    )
    try:
        assert process.stdout is not None
        logged: list[dict[str, Any]] = []
        for line in process.stdout:
            logged.append(json.loads(line))
            if logged[-1].get("event") == "ready":
                secret = {path for path in root.rglob("*") if path.is_file() and _is_secret(path)}
                assert {"braid.db", "key", "broker.url"} <= {path.name for path in secret}
                assert [] == [path for path in [root, *secret] if stat.S_IMODE(path.stat().st_mode) & 0o077]
                process.terminate()
        assert 0 == process.wait(PATIENCE)
        assert logged == [json.loads(line) for line in (root / "service" / "log").read_text().splitlines()]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in logged)
    events = [line["event"] for line in logged if "event" in line]
    assert ["serves", "leads", "key", "ready", "ends", "ended"] == events
    assert not any((root / "key").read_text().strip() in line["message"] for line in logged)


def _is_secret(path: Path) -> bool:
    """The file holds a secret, by its name."""
    return any(word in path.name for word in ("braid.db", "key", "password", "broker.url", "acl"))


@pytest.mark.parametrize(
    ("words", "event", "code"),
    [
        (("serve", "--json", "--root", "root", "--listen", "192.0.2.1", "--host", "none"), "failed", "cannot-serve"),
        (("serve", "--json", "--port", "0"), None, "wrong-settings"),
        (("host", "north", "--root", "root", "--broker", "http://here", "--json"), "failed", "no-broker"),
    ],
)
def test_a_failed_start_is_reported_as_json(
    tmp_path: Path, words: tuple[str, ...], event: str | None, code: str
) -> None:
    """The last line holds the problem; the exit code is that of a wrong setting."""
    done = braid(*words, folder=tmp_path)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (1, event, code) == (done.returncode, last.get("event"), last["problem"]["code"])
    assert last["problem"]["detail"]
