"""`braid logs`: the log files below a root, and what happened to a dataflow."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manager.exit_codes import ExitCode
from tests.braid_client.samples import DETAIL, OPERATION
from tests.braid_client.scripted_service import lines, ok, page, refusal
from tests.manager.braid_runner import Braid

_HOST = """\
2026-03-01 12:00:01,000 braid.host INFO runs [job=7]
Traceback (most recent call last):
  of job 7
2026-03-01 12:00:03,000 braid.host INFO runs too [job=71]
"""
_KEEPER = "2026-03-01 12:00:02,000 braid.keeper INFO keeps\n"
_OBJECTS = '{"at": "2026-03-01T12:00:04.000+00:00", "level": "info", "logger": "l", "message": "m", "job": "7"}\n'
BRAID = (sys.executable, "-c", "from manager.command import app; app()")


@pytest.fixture
def root(tmp_path: Path, braid: Braid) -> Path:  # noqa: ARG001 - its time zone is UTC
    """A root with the logs of a host, of the keeper, and of a service that logs objects."""
    for name, text in (("local.log", _HOST), ("keeper/log", _KEEPER), ("service/log", _OBJECTS)):
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


def test_logs_are_one_in_the_order_of_their_times(braid: Braid, root: Path) -> None:
    """Each line with where it is from; what follows a line, such as a traceback, stays with it."""
    shown = braid("logs", "--root", str(root)).stdout.splitlines()
    assert ["local", "local", "local", "keeper", "local", "service"] == [line.partition(" | ")[0] for line in shown]
    assert ["local | 2026-03-01 12:00:03,000 braid.host INFO runs too [job=71]"] == [
        line for line in braid("logs", "--root", str(root), "--last", "2").stdout.splitlines() if "local" in line
    ]


def test_logs_of_a_job_are_those_that_name_it(braid: Braid, root: Path) -> None:
    """With the lines that follow, and in both forms of logs."""
    shown = braid("logs", "--root", str(root), "--job", "7").stdout.splitlines()
    assert [*(f"local | {line}" for line in _HOST.splitlines()[:3]), f"service | {_OBJECTS.strip()}"] == shown


def test_a_log_can_be_shown_alone_and_for_programs(braid: Braid, root: Path) -> None:
    """By the name of its host, or of what logs it."""
    assert {"log": "keeper", "line": _KEEPER.strip()} == braid.printed_json(
        "logs", "--root", str(root), "--host", "keeper"
    )


def test_where_there_is_no_log_the_message_says_what_to_do(braid: Braid) -> None:
    """A tenant on another machine asks for a dataflow."""
    result = braid("logs", "--root", "nowhere")
    assert (ExitCode.PROBLEMS, True) == (result.exit_code, "braid logs DATAFLOW" in result.stderr)


def test_logs_are_followed(root: Path) -> None:
    """New lines, and logs that begin later; half a line is shown once it is whole."""
    words = [*BRAID, "logs", "--root", str(root), "--follow", "--last", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert process.stdout.readline().startswith("service | ")
        with (root / "local.log").open("a") as file:
            file.write("2026-03-01 12:00:05,000 half")
            file.flush()
            (root / "new.log").write_text("2026-03-01 12:00:06,000 first\n")
            assert "new | 2026-03-01 12:00:06,000 first\n" == process.stdout.readline()
            file.write(" and half\n")
        assert "local | 2026-03-01 12:00:05,000 half and half\n" == process.stdout.readline()
        process.kill()


def test_a_dataflow_has_a_journal(braid: Braid) -> None:
    """What was done to it, the oldest first, and its state; followed by its own events, until they end."""
    older = OPERATION | {"id": 8, "kind": "replace", "note": "", "started": 1, "reused": 2}
    known = [ok(DETAIL), page(OPERATION, older)]
    shown = braid("logs", "Schools", answers=known).stdout.splitlines()
    assert ["GET /v1/dataflows/Schools", "GET /v1/operations?subject=d1&limit=100"] == braid.requests()
    assert "2026-01-02 03:04:05 replace by school: tasks: 1 started, 2 reused" == shown[0]
    assert shown[1].startswith("2026-01-02 03:04:05 submit by school")
    assert shown[2].endswith(" Schools is running")
    events: list[tuple[str, dict[str, Any]]] = [
        ("operation", OPERATION | {"subject": "d2"}),
        ("operation", OPERATION),
        ("dataflow", {"dataflow": "d1", "tenant": "school", "state": "degraded", "reason": "job 1 failed"}),
        ("job", {"job": "1"}),
    ]
    stream = [line for number, (kind, told) in enumerate(events, 1) for line in _event(number, kind, told)]
    followed = braid("logs", "Schools", "-f", answers=[*known, lines(*stream), refusal(403, "forbidden")])
    news = [line.partition(" ")[2].partition(" ")[2] for line in followed.stdout.splitlines()[3:]]
    assert ["submit by school: tasks: 1 started, 2 reused", "is degraded: job 1 failed"] == news


def _event(number: int, kind: str, told: dict[str, Any]) -> list[str]:
    data = json.dumps({"id": number, "kind": kind, "told": told})
    return [f"id: {number}", f"event: {kind}", f"data: {data}", ""]


def test_files_and_dataflows_are_not_mixed(braid: Braid) -> None:
    """Nothing is asked then."""
    assert (ExitCode.PROBLEMS, []) == (braid("logs", "d1", "--job", "7").exit_code, braid.requests())
