"""`braid status`: what it says needs attention, to operators and to tenants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from manager.exit_codes import ExitCode
from tests.braid_client.samples import AT, DATAFLOW, DEAD_LETTER_GROUP, HOST, MACHINE, QUOTA, RECEIVED, SOURCE, TENANT
from tests.braid_client.scripted_service import ok, page
from tests.manager.braid_runner import Braid

NOW = datetime.now(UTC).isoformat()
LONG_AGO = (datetime.now(UTC) - timedelta(days=1)).isoformat()
OPERATORS = {"states": {"running": 2}, "troubled": [], "in_trouble": 0, "bridges": 0}
UNUSED = TENANT | {"uses": dict.fromkeys(QUOTA, 0)}


def answers(
    *, jobs: Any = None, degraded: Any = (), dead: Any = (), sources: Any = (), tenants: Any = (), **more: Any
) -> list[httpx.Response]:
    """What the service answers, in the order of the requests; hosts and machines are for operators alone."""
    dataflows = {"running": 3, **({"degraded": len(degraded)} if degraded else {})}
    overview = {"dataflows": dataflows, "tasks_submitted": 9, "tasks_running": 5, "jobs": jobs}
    pages = [*([degraded] if degraded else []), dead, sources, tenants]
    machines = [more.get("hosts", ()), more.get("machines", ())] if jobs is not None else []
    return [ok(overview), *(page(*items) for items in (*pages, *machines))]


def test_one_sentence_says_that_all_is_well(braid: Braid) -> None:
    """What happened long ago, and a quota that is hardly used, need no attention."""
    rejected = {"at": LONG_AGO, "reason": "f is no float", "event": "{}"}
    quiet = SOURCE | {"received": {**RECEIVED, "newest": [rejected]}}
    known = answers(dead=[DEAD_LETTER_GROUP | {"last": LONG_AGO}], sources=[quiet], tenants=[UNUSED])
    result = braid("status", answers=known)
    assert (ExitCode.WELL, "all is well: 3 dataflows running") == (result.exit_code, result.stdout.splitlines()[0])
    assert "5 tasks run for 9 that were submitted" in result.stdout
    assert not [path for path in braid.requests() if "hosts" in path or "machines" in path]


@pytest.mark.parametrize(
    ("known", "what", "remedy", "code"),
    [
        (
            {"degraded": [DATAFLOW | {"state": "degraded", "reason": "job 1 failed"}]},
            "Schools (d1) is degraded: job 1 failed",
            "braid show d1",
            ExitCode.UNWELL,
        ),
        (
            {
                "degraded": [
                    DATAFLOW | {"id": f"d{number}", "state": "degraded", "reason": "no host"} for number in (1, 2)
                ]
            },
            "2 dataflows are degraded: no host",
            "braid list --state degraded",
            ExitCode.UNWELL,
        ),
        (
            {
                "sources": [
                    SOURCE
                    | {
                        "received": {
                            **RECEIVED,
                            "newest": [],
                            "link": {"connected": False, "since": AT, "error": "refused", "error_at": AT},
                        }
                    }
                ]
            },
            "source city has no connection since 2026-01-02 03:04:05: refused",
            "braid sources show city",
            ExitCode.UNWELL,
        ),
        (
            {"dead": [DEAD_LETTER_GROUP | {"last": NOW, "newest": 3, "reason": "no number"}]},
            "12 dead letters",
            "braid dead-letters replay 3 --alike",
            ExitCode.WELL,
        ),
        (
            {
                "sources": [
                    SOURCE | {"received": {**RECEIVED, "newest": [{"at": NOW, "reason": "no float", "event": "{}"}]}}
                ]
            },
            "source city rejects events",
            "braid sources show city",
            ExitCode.WELL,
        ),
        (
            {"tenants": [UNUSED | {"uses": dict.fromkeys(QUOTA, 0) | {"tasks": 2}}]},
            "tenant school uses 2 of 2 tasks",
            "ask an operator for more",
            ExitCode.WELL,
        ),
        (
            {"tenants": [UNUSED | {"uses": dict.fromkeys(QUOTA, 0) | {"tasks": 2}}], "jobs": OPERATORS},
            "tenant school uses 2 of 2 tasks",
            "braid tenants quota school --tasks 4",
            ExitCode.WELL,
        ),
        (
            {"jobs": OPERATORS, "hosts": [HOST | {"alive": False}]},
            "host local is away",
            "start it again",
            ExitCode.UNWELL,
        ),
        (
            {"jobs": OPERATORS, "machines": [MACHINE | {"waits": "nobody has admitted it"}]},
            "machine north waits: nobody has admitted it",
            "braid machines admit north",
            ExitCode.WELL,
        ),
        (
            {
                "jobs": OPERATORS
                | {"troubled": [{"job": "7", "state": "failed", "trouble": "it died"}], "in_trouble": 1}
            },
            "job 7 is failed: it died",
            "braid logs --job 7",
            ExitCode.UNWELL,
        ),
    ],
)
def test_each_concern_comes_with_what_to_do(
    braid: Braid, known: dict[str, Any], what: str, remedy: str, code: ExitCode
) -> None:
    """An error has an exit code of its own, a warning has not."""
    result = braid("status", "--wide", answers=answers(**known))
    assert (code, True) == (result.exit_code, "1 thing needs attention" in result.stdout)
    assert [text for text in (what, remedy) if text not in result.stdout] == []
    document = braid.printed_json("status", answers=answers(**known))
    assert (code is ExitCode.WELL, 1) == (document["well"], len(document["attention"]))


def test_errors_come_before_warnings_and_no_more_than_a_screen(braid: Braid) -> None:
    """The rest is counted; the document for programs has all of it."""
    dead = [DEAD_LETTER_GROUP | {"last": NOW, "newest": number} for number in range(30)]
    known = {"dead": dead, "degraded": [DATAFLOW | {"state": "degraded", "reason": "it died"}]}
    lines = braid("status", answers=answers(**known)).stdout.splitlines()
    assert "31 things need attention; 3 dataflows running, 1 dataflow degraded" == lines[0]
    assert next(line for line in lines if "error" in line or "warning" in line).strip().startswith("error")
    assert "and 11 more; all of them: braid status --json" in lines
    assert 31 == len(braid.printed_json("status", answers=answers(**known))["attention"])
