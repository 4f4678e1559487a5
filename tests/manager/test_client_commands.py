"""The commands that ask the service: the requests and the output of each."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from rich.console import Console

from manager import cli
from manager.cli import table
from manager.exit_codes import ExitCode
from manager.machines import commands as machine_commands
from manager.outputs import commands as output_commands
from manager.rest import examples
from tests.braid_client.samples import (
    AT,
    AUDIT,
    CONSOLE_LINK,
    CREDENTIALS,
    DATAFLOW,
    DEAD_LETTER,
    DEAD_LETTER_GROUP,
    DETAIL,
    EXPLAINED,
    FIGURES,
    HOST,
    IMAGE,
    JOB,
    KEY_ANSWER,
    LOGIN,
    MACHINE,
    MACHINE_CLASS,
    MODULE,
    MODULE_DETAIL,
    OPERATION,
    PLACEMENT,
    QUOTA,
    RECEIVED,
    RECONFIGURATION,
    REMOVAL,
    RENTAL,
    REPLANNED,
    SECRET,
    SOURCE,
    SUBMITTED,
    TENANT,
    WEBHOOK,
    WHEEL,
)
from tests.braid_client.scripted_service import KEY, event, lines, ok, page, refusal
from tests.manager.braid_runner import Braid

DOCUMENT = '{"name": "x"}'
TENANTS, ADMITTED = page(TENANT), ok(TENANT)

DONE = RECONFIGURATION | {"state": "done", "switched": "2026-03-01T12:00:01Z", "ended": "2026-03-01T12:00:25Z"}
QUEUED = RECONFIGURATION | {
    "state": "waiting",
    "queue": {"place": 3, "behind": ["5"], "behind_others": 2, "behind_moves": True},
}
_HOOKED = WEBHOOK | {"secret": "s" * 64}
_LINK = {"connected": False, "since": AT, "error": "no broker answers", "error_at": AT}
_LINKED = SOURCE | {"received": {**RECEIVED, "link": _LINK}}
_UNREAD = SOURCE | {"dataflows": 0, "received": None}
_DECLARED = {"source": SOURCE, "going_on": 1, "dependent": [{"dataflow": "d1", "why": ["no field g"]}]}
_GAVE_UP = DETAIL | {
    "given_up": [
        {
            "module": "a@1",
            "at": "2026-01-01T00:00:00Z",
            "reason": "task p does nothing but fail",
            "outcome": "p holds b@1",
            "reconfiguration": "7",
        }
    ],
    "unplanned": "no plan",
}
_TRIED = examples.BODIES["TrialAnswer"]
CALLS: list[tuple[str, list[httpx.Response], list[str], Any, list[str]]] = [
    # words, the service's answers, the requests, the JSON document, parts of the text
    (
        "submit x.json",
        [ok(SUBMITTED)],
        ["POST /v1/dataflows"],
        SUBMITTED,
        ["d1 “Schools” of school, revision 1, is running", "reuses 1 task, starts 1", "braid/1/out/school/d1/out"],
    ),
    (
        "submit x.json x.json --tenant a",
        [ok({"dataflows": [SUBMITTED, SUBMITTED]})],
        ["POST /v1/dataflows/bundle?tenant=a"],
        {"dataflows": [SUBMITTED, SUBMITTED]},
        ["d1"],
    ),
    (
        "explain x.json x.json",
        [ok({"documents": [EXPLAINED, EXPLAINED], "started": 2})],
        ["POST /v1/explain/bundle"],
        {"documents": [EXPLAINED, EXPLAINED], "started": 2},
        ["x.json:", "together they start 2 tasks"],
    ),
    (
        "try flow.json --events events.jsonl --events t=events.jsonl --newest 5",
        [ok(_TRIED)],
        ["POST /v1/try"],
        _TRIED,
        ["plausible", "→ in", "street rejected 1 at out: the field 'temperature' should be of kind float"],
    ),
    (
        "sources schema city fields.json --dry-run",
        [ok(_DECLARED)],
        ["PUT /v1/sources/city/schema?dry_run=true"],
        _DECLARED,
        ["city would declare f float", "1 dataflow keeps the schema before", "d1 depends on it: no field g"],
    ),
    (
        "show d2",
        [ok(_GAVE_UP)],
        ["GET /v1/dataflows/d2"],
        _GAVE_UP,
        ["a@1 was given up at", "task p does nothing but fail; p holds b@1", "not planned again: no plan"],
    ),
    (
        "show d1 --tasks",
        [ok(FIGURES)],
        ["GET /v1/dataflows/d1/tasks"],
        FIGURES,
        ["running", "43.5/41", "0.012", "5", "2", "48120", "3"],
    ),
    ("submit x.json --tenant a", [ok(SUBMITTED)], ["POST /v1/dataflows?tenant=a"], SUBMITTED, ["d1"]),
    ("replace d1 x.json", [ok(SUBMITTED)], ["PUT /v1/dataflows/d1"], SUBMITTED, ["since 2026-01-02 03:04:05"]),
    ("replace d1 x.json --if-match 1a", [ok(SUBMITTED)], ["PUT /v1/dataflows/d1"], SUBMITTED, ["d1"]),
    ("remove d1", [ok(DATAFLOW)], ["DELETE /v1/dataflows/d1?stop=now"], DATAFLOW, ["d1 is running"]),
    (
        "remove d1 --dry-run",
        [ok(REMOVAL)],
        ["GET /v1/dataflows/d1/removal"],
        REMOVAL,
        ["removing d1 would stop 1 task; 1 would keep running for others", "output", "no longer forwarded: a.out"],
    ),
    ("remove d1 --drain", [ok(DATAFLOW)], ["DELETE /v1/dataflows/d1?stop=drain"], DATAFLOW, ["d1"]),
    (
        "list --state removed --name x --source city --tenant a --search y",
        [page(DATAFLOW)],
        ["GET /v1/dataflows?tenant=a&state=removed&name=x&source=city&search=y&limit=100"],
        [DATAFLOW],
        ["d1", "Schools", "2026-01-02 03:04:05"],
    ),
    ("list", [page()], ["GET /v1/dataflows?limit=100"], [], ["no dataflows"]),
    (
        "images list",
        [page(IMAGE)],
        ["GET /v1/images?limit=100"],
        [IMAGE],
        ["gpu-large", "gpu", "8", "90", "2.4", "north"],
    ),
    (
        "placement explain d1",
        [ok(PLACEMENT)],
        ["GET /v1/dataflows/d1/placement"],
        PLACEMENT,
        [
            "north",
            "its host offers gpu",
            "costs 0.080 cores",
            "cost 0.070, and the next cheapest 0.075, and none less than 0.065",
            "gpu-huge",
        ],
    ),
    (
        "placement explain d1 --task a",
        [ok(PLACEMENT)],
        ["GET /v1/dataflows/d1/placement?task=a"],
        PLACEMENT,
        ["one more host that offers gpu would save 0.400 cores", "job 7", "it lacks gpu", "0.010"],
    ),
    (
        "machines classes list",
        [page(MACHINE_CLASS)],
        ["GET /v1/machine-classes?limit=100"],
        [MACHINE_CLASS],
        ["large", "8", "1.25", "2.4", "84", "near-the-sensors", "command", "added-1"],
    ),
    (
        "machines rentals",
        [page(RENTAL)],
        ["GET /v1/rentals?limit=100"],
        [RENTAL],
        ["added-1", "large", "1.25", "2026-01-02 03:05:29", "4.8"],
    ),
    (
        "machines classes set large --cores 8 --memory-gb 32 --price 2.4 --image gpu-large --most 4 --command rent",
        [ok(MACHINE_CLASS)],
        ["PUT /v1/machine-classes/large"],
        MACHINE_CLASS,
        ["large is set: 0 to 4 machines with 8 cores, at 2.4 an hour"],
    ),
    (
        "machines classes remove large",
        [ok(MACHINE_CLASS)],
        ["DELETE /v1/machine-classes/large"],
        MACHINE_CLASS,
        ["large is removed"],
    ),
    ("images list", [page()], ["GET /v1/images?limit=100"], [], ["no images"]),
    (
        "images add gpu-large --tag gpu --cores 8 --start 90 --price 2.4 --most 4",
        [ok(IMAGE)],
        ["PUT /v1/images/gpu-large"],
        IMAGE,
        ["gpu-large is registered: it offers gpu, and has 8 cores a host"],
    ),
    (
        "images remove gpu-large",
        [ok(IMAGE)],
        ["DELETE /v1/images/gpu-large"],
        IMAGE,
        ["gpu-large is removed; 1 host of it left"],
    ),
    ("show d1", [ok(DETAIL)], ["GET /v1/dataflows/d1"], DETAIL, ["count", "output", "out"]),
    (
        "reconfigure d1 --set a.window=20 --set a.names.x=y --type b=count --fresh b --no-wait",
        [ok(RECONFIGURATION)],
        ["POST /v1/dataflows/d1/reconfigurations"],
        RECONFIGURATION,
        ["reconfiguration 7 is switching", "in place", "kept"],
    ),
    (
        "reconfigure d1 x.json",
        [ok(RECONFIGURATION), ok(RECONFIGURATION | {"state": "switched", "switched": "2026-03-01T12:00:01Z"})],
        ["POST /v1/dataflows/d1/reconfigurations", "GET /v1/dataflows/d1/reconfigurations/7"],
        RECONFIGURATION | {"state": "switched", "switched": "2026-03-01T12:00:01Z"},
        ["reconfiguration 7 has switched after 1 s; events from before may still be under way"],
    ),
    (
        "reconfigure d1 x.json --until done",
        [ok(RECONFIGURATION), ok(RECONFIGURATION | {"state": "switched"}), ok(DONE)],
        ["POST /v1/dataflows/d1/reconfigurations", *["GET /v1/dataflows/d1/reconfigurations/7"] * 2],
        DONE,
        ["reconfiguration 7 is done: it switched after 1 s, and the events from before were gone after 25 s"],
    ),
    (
        "reconfigure d1 x.json --no-wait",
        [httpx.Response(202, json=QUEUED)],
        ["POST /v1/dataflows/d1/reconfigurations"],
        QUEUED,
        ["7 waits for reconfiguration 5, 2 reconfigurations of others, tasks that are being moved, at place 3"],
    ),
    (
        "reconfigure d1 x.json --dry-run",
        [ok(RECONFIGURATION | {"id": "", "state": "preview"})],
        ["POST /v1/dataflows/d1/reconfigurations?dry_run=true"],
        RECONFIGURATION | {"id": "", "state": "preview"},
        ["it would take effect in 1 job, within 1 s"],
    ),
    (
        "reconfigure d1 --undo --no-wait",
        [page(RECONFIGURATION), ok(RECONFIGURATION | {"id": "8", "undoes": "7"})],
        ["GET /v1/dataflows/d1/reconfigurations?limit=100", "POST /v1/dataflows/d1/reconfigurations/7/undo"],
        RECONFIGURATION | {"id": "8", "undoes": "7"},
        ["reconfiguration 8 is switching"],
    ),
    (
        "reconfigure d1 --cancel --id 6",
        [ok(RECONFIGURATION | {"state": "abandoned", "outcome": "given up, because school cancelled it"})],
        ["DELETE /v1/dataflows/d1/reconfigurations/6"],
        RECONFIGURATION | {"state": "abandoned", "outcome": "given up, because school cancelled it"},
        ["is abandoned: given up, because school cancelled it"],
    ),
    (
        "reconfigure d1 --history",
        [page(RECONFIGURATION)],
        ["GET /v1/dataflows/d1/reconfigurations?limit=100"],
        [RECONFIGURATION],
        ["7", "switching", "asked for", "switched", "over"],
    ),
    (
        "explain x.json",
        [ok(EXPLAINED)],
        ["POST /v1/explain"],
        EXPLAINED,
        [
            "reuses 1 of 2 tasks",
            "work saved by sharing: about 62 % (task costs: 1 measured, 1 assumed)",
            "cores saved by sharing: about 0.125 (task costs: 1 measured)",
            "cores saved by packing: about 0.25",
            "runs as one: b, c",
        ],
    ),
    (
        "explain x.json --start earliest --tenant a",
        [ok(EXPLAINED | {"start": "earliest"})],
        ["POST /v1/explain?tenant=a&start=earliest"],
        EXPLAINED | {"start": "earliest"},
        ["starts b"],
    ),
    (
        "dead-letters list --dataflow d1",
        [page(DEAD_LETTER)],
        ["GET /v1/dead-letters?dataflow=d1&limit=100"],
        [DEAD_LETTER],
        ["no number"],
    ),
    (
        "dead-letters groups --dataflow d1",
        [page(DEAD_LETTER_GROUP)],
        ["GET /v1/dead-letters/groups?dataflow=d1&limit=100"],
        [DEAD_LETTER_GROUP],
        ["no number", "12"],
    ),
    (
        "dead-letters replay 3 --alike",
        [ok({"dead_letters": 12, "events": 20, "left": 0, "why_left": None})],
        ["POST /v1/dead-letters/3/replay?alike=true"],
        {"dead_letters": 12, "events": 20, "left": 0, "why_left": None},
        ["replayed 12 dead letters with 20 events"],
    ),
    (
        "dead-letters discard 3 --alike",
        [ok({"dead_letters": 12})],
        ["DELETE /v1/dead-letters/3?alike=true"],
        {"dead_letters": 12},
        ["discarded 12 dead letters"],
    ),
    (
        "dead-letters replay 3",
        [ok({"dead_letters": 1, "events": 2, "left": 0, "why_left": None})],
        ["POST /v1/dead-letters/3/replay"],
        {"dead_letters": 1, "events": 2, "left": 0, "why_left": None},
        ["replayed 1 dead letter with 2 events"],
    ),
    (
        "dead-letters replay --dataflow d1",
        [ok({"dead_letters": 5, "events": 9, "left": 3, "why_left": "its job is busy"})],
        ["POST /v1/dead-letters/replay?dataflow=d1"],
        {"dead_letters": 5, "events": 9, "left": 3, "why_left": "its job is busy"},
        ["replayed 5 dead letters with 9 events; 3 left: its job is busy"],
    ),
    (
        "dead-letters discard 3",
        [ok({"dead_letters": 1})],
        ["DELETE /v1/dead-letters/3"],
        {"dead_letters": 1},
        ["discarded 1 dead letter"],
    ),
    (
        "dead-letters discard --dataflow d1",
        [ok({"dead_letters": 5})],
        ["DELETE /v1/dead-letters?dataflow=d1"],
        {"dead_letters": 5},
        ["discarded 5 dead letters"],
    ),
    ("sources list", [page(SOURCE)], ["GET /v1/sources?limit=100"], [SOURCE], ["city", "f float", "health", "topic"]),
    (
        "sources show city",
        [ok(SOURCE)],
        ["GET /v1/sources/city"],
        SOURCE,
        ["city of school, named", "2 events accepted and 1 rejected since", "f is no float", '{"f": "hot"}'],
    ),
    (
        "sources show city",
        [ok(_LINKED)],
        ["GET /v1/sources/city"],
        _LINKED,
        ["not connected since", "no broker answers"],
    ),
    ("sources show city", [ok(_UNREAD)], ["GET /v1/sources/city"], _UNREAD, ["nothing is received"]),
    ("sources register x.json", [ok(SOURCE)], ["POST /v1/sources"], SOURCE, ["city of school is registered"]),
    (
        "sources visibility city named --reader a --reader b",
        [ok({"dataflows": 2})],
        ["PUT /v1/sources/city/visibility"],
        {"dataflows": 2},
        ["city is named; 2 dataflows removed"],
    ),
    (
        "sources webhook city --scheme hex --header X-Sum",
        [ok(_HOOKED)],
        ["POST /v1/sources/city/webhook"],
        _HOOKED,
        ["url     http://service.example/v1/hooks/token", "secret  ssss"],
    ),
    (
        "sources rotate-webhook city --former-hours 1",
        [ok(_HOOKED | {"former_until": AT})],
        ["POST /v1/sources/city/webhook/rotate"],
        _HOOKED | {"former_until": AT},
        ["the secret before counts until 2026-01-02"],
    ),
    (
        "sources revoke-webhook city",
        [ok(WEBHOOK)],
        ["DELETE /v1/sources/city/webhook"],
        WEBHOOK,
        ["the webhook of school:city is revoked"],
    ),
    ("sources revoke city", [ok({"dataflows": 2})], ["DELETE /v1/sources/city"], {"dataflows": 2}, ["city is revoked"]),
    (
        "modules publish x.json",
        [ok(MODULE_DETAIL)],
        ["POST /v1/modules"],
        MODULE_DETAIL,
        ["clean@2 is published, for school alone"],
    ),
    (
        "modules publish x.json",
        [ok(MODULE_DETAIL | {"owner": None})],
        ["POST /v1/modules"],
        MODULE_DETAIL | {"owner": None},
        ["clean@2 is published, for everybody"],
    ),
    (
        "modules list --name clean --shape filter --tag fast --current --tenant school",
        [page(MODULE)],
        ["GET /v1/modules?tenant=school&name=clean&shape=filter&tag=fast&deprecated=false&limit=100"],
        [MODULE],
        ["clean@2", "school", "filter", "code", "fast", "0.5", "no"],
    ),
    ("modules list --deprecated", [page()], ["GET /v1/modules?deprecated=true&limit=100"], [], ["no modules"]),
    ("modules show clean", [page(MODULE)], ["GET /v1/modules/clean?limit=100"], [MODULE], ["clean@2"]),
    (
        "modules show clean@2 --tenant school",
        [ok(MODULE_DETAIL | {"deprecated": AT})],
        ["GET /v1/modules/clean/2?tenant=school"],
        MODULE_DETAIL | {"deprecated": AT},
        [
            "clean@2 of school, published 2026-01-02 03:04:05, deprecated 2026-01-02 03:04:05",
            '{\n  "name": "clean"\n}',
        ],
    ),
    (
        "modules deprecate clean@2",
        [ok(MODULE | {"deprecated": AT})],
        ["POST /v1/modules/clean/2/deprecate"],
        MODULE | {"deprecated": AT},
        ["clean@2 is deprecated since 2026-01-02 03:04:05"],
    ),
    (
        "modules wheels --tenant school",
        [page(WHEEL)],
        ["GET /v1/wheels?tenant=school&limit=100"],
        [WHEEL],
        ["tiny", "1.0", "school", "1204"],
    ),
    (
        f"modules remove-wheel {'0' * 64}",
        [ok(WHEEL)],
        [f"DELETE /v1/wheels/{'0' * 64}"],
        WHEEL,
        ["tiny 1.0 is removed"],
    ),
    (
        "modules vouch clean@2 --tenant school",
        [ok(MODULE | {"vouched": True})],
        ["POST /v1/modules/clean/2/vouch?tenant=school"],
        MODULE | {"vouched": True},
        ["an operator vouches for clean@2 of school"],
    ),
    (
        "modules vouch clean@2 --tenant school --withdraw",
        [ok(MODULE)],
        ["DELETE /v1/modules/clean/2/vouch?tenant=school"],
        MODULE,
        ["no operator vouches for clean@2 of school"],
    ),
    (
        "jobs",
        [page(JOB)],
        ["GET /v1/jobs?limit=100"],
        [JOB],
        ["j1", "2, 1 in effect", "1 s", "0.25/0.5", "80.5", "6/1.5", "it died"],
    ),
    ("hosts", [page(HOST)], ["GET /v1/hosts?limit=100"], [HOST], ["local", "yes", "workers 0.50", "gpu"]),
    (
        "machines list",
        [page(MACHINE)],
        ["GET /v1/machines?limit=100"],
        [MACHINE],
        [
            "north",
            "hall-1",
            "1.25",
            "50%",
            "north at 1.25 (south) under-replicated",
            "west",
            "4096",
            "its disk is full",
        ],
    ),
    ("machines", [page(MACHINE)], ["GET /v1/machines?limit=100"], [MACHINE], ["north at 1.25 (south)"]),
    (
        "machines admit north --key KEY",
        [ok(MACHINE)],
        ["POST /v1/machines/north/admit?key=KEY"],
        MACHINE,
        ["north is admitted"],
    ),
    (
        "machines drain north",
        [ok(MACHINE | {"draining": True})],
        ["POST /v1/machines/north/drain"],
        MACHINE | {"draining": True},
        ["north drains and carries 1 host"],
    ),
    (
        "machines drain north --wait",
        [ok(MACHINE | {"draining": True}), page(MACHINE | {"draining": True, "hosts": []})],
        ["POST /v1/machines/north/drain", "GET /v1/machines?limit=100"],
        MACHINE | {"draining": True, "hosts": []},
        ["north carries no host, and may be stopped"],
    ),
    (
        "machines undrain north",
        [ok(MACHINE)],
        ["DELETE /v1/machines/north/drain"],
        MACHINE,
        ["north takes hosts again"],
    ),
    ("machines forget north", [ok(MACHINE)], ["DELETE /v1/machines/north"], MACHINE, ["north is forgotten"]),
    (
        "operations --kind submit --subject d1",
        [page(OPERATION)],
        ["GET /v1/operations?kind=submit&subject=d1&limit=100"],
        [OPERATION],
        ["school", "submit"],
    ),
    (
        "audit --by k1",
        [page(AUDIT)],
        ["GET /v1/audit?by=k1&limit=100"],
        [AUDIT],
        ["school", "put secret", "lake", "done"],
    ),
    (
        "tenants list",
        [page(TENANT)],
        ["GET /v1/tenants?limit=100"],
        [TENANT],
        ["0 of 1", "1 of 2", "budget: 12 of 13"],
    ),
    ("tenants admit school --tasks 2", [ADMITTED], ["POST /v1/tenants"], TENANT, ["braid keys make --tenant school"]),
    (
        "tenants quota school --tasks 9",
        [TENANTS, ADMITTED],
        ["GET /v1/tenants?limit=100", "PUT /v1/tenants/school/quota"],
        TENANT,
        ["school may use: dataflows 1, tasks 2, streams 3"],
    ),
    (
        "tenants publishing school --code",
        [ok(TENANT | {"publishes_code": True})],
        ["PUT /v1/tenants/school/publishing"],
        TENANT | {"publishes_code": True},
        ["school may publish code"],
    ),
    (
        "tenants publishing school --no-code",
        [ADMITTED],
        ["PUT /v1/tenants/school/publishing"],
        TENANT,
        ["school may not publish code"],
    ),
    (
        "tenants credentials school",
        [ok(LOGIN | {"made": None}), ok(CREDENTIALS)],
        ["GET /v1/tenants/school/credentials", "POST /v1/tenants/school/credentials"],
        CREDENTIALS,
        ["password hush (shown only this once)", "city/raw"],
    ),
    (
        "open --print",
        [ok(CONSOLE_LINK)],
        ["POST /v1/session/link"],
        {"url": "http://braid.example/#link=hush", "until": "2026-01-02T03:04:05+00:00"},
        ["http://braid.example/#link=hush"],
    ),
    ("keys list", [page(KEY_ANSWER)], ["GET /v1/keys?limit=100"], [KEY_ANSWER], ["k1", "school"]),
    (
        "keys make --tenant school --note x",
        [ok(KEY_ANSWER | {"key": "hush"})],
        ["POST /v1/keys"],
        KEY_ANSWER | {"key": "hush"},
        ["key k1 of tenant school, shown only this once:", "hush"],
    ),
    (
        "keys make --tenant school --read-only --days 30",
        [ok(KEY_ANSWER | {"key": "hush", "role": "read-only", "expires": "2099-03-01T12:00:00Z"})],
        ["POST /v1/keys"],
        KEY_ANSWER | {"key": "hush", "role": "read-only", "expires": "2099-03-01T12:00:00Z"},
        ["key k1 of tenant school, read-only, valid until 2099-03-01"],
    ),
    ("secrets list", [page(SECRET)], ["GET /v1/secrets?limit=100"], [SECRET], ["school", "lake"]),
    (
        "secrets remove lake",
        [ok(SECRET)],
        ["DELETE /v1/secrets/lake"],
        SECRET,
        ["the secret lake of school is removed"],
    ),
    ("keys revoke k1", [ok(KEY_ANSWER)], ["DELETE /v1/keys/k1"], KEY_ANSWER, ["key k1 is revoked"]),
]
EACH = pytest.mark.parametrize(
    ("words", "answers", "asked", "document", "shown"), CALLS, ids=[call[0] for call in CALLS]
)


@pytest.fixture(autouse=True)
def written(braid: Braid) -> None:  # noqa: ARG001 - in its folder
    Path("x.json").write_text(DOCUMENT)
    Path("fields.json").write_text('{"f": "float"}')
    Path("events.jsonl").write_text('{"t": 1}\n\n{"t": 2}\n')
    Path("flow.json").write_text(json.dumps({"tasks": [{"id": "s", "type": "source"}, {"id": "o", "type": "output"}]}))


def test_credentials_that_end_others_are_not_made_unasked(braid: Braid) -> None:
    """Clients would lose their connection; a script says that it means that."""
    result = braid("tenants", "credentials", "school", answers=ok(LOGIN))
    assert (ExitCode.PROBLEMS, ["GET /v1/tenants/school/credentials"]) == (result.exit_code, braid.requests())
    assert "the password of 2026-03-01 12:00:00 ends at once" in result.stderr
    assert ExitCode.WELL == braid("tenants", "credentials", "school", "--yes", answers=ok(CREDENTIALS)).exit_code
    assert ["POST /v1/tenants/school/credentials"] == braid.requests()


def test_a_secret_is_read_from_standard_input(braid: Braid) -> None:
    """Without the line's end. It is sent, and never shown."""
    called = braid("secrets", "put", "lake", "--tenant", "school", answers=ok(SECRET), typed="hush hush\n")
    assert ["PUT /v1/secrets/lake?tenant=school"] == braid.requests()
    assert {"secret": "hush hush"} == braid.sent()
    assert "the secret lake of school is stored\n" == called.output
    empty = braid("secrets", "put", "lake", typed="\n")
    assert (ExitCode.PROBLEMS, []) == (empty.exit_code, braid.requests())


@EACH
def test_each_command_sends_its_request_and_shows_the_answer(  # noqa: PLR0913 - a call has these parts
    *, braid: Braid, words: str, answers: list[httpx.Response], asked: list[str], document: Any, shown: list[str]
) -> None:
    """On standard output."""
    result = braid(*words.split(), "--wide", answers=answers)
    assert 0 == result.exit_code
    # What is waited for is said there.
    assert words.startswith(("reconfigure", "machines drain")) or not result.stderr
    assert asked == braid.requests()
    assert [text for text in shown if text not in result.stdout] == []
    assert document is not None


@EACH
def test_each_command_prints_one_json_document(  # noqa: PLR0913 - as above
    *, braid: Braid, words: str, answers: list[httpx.Response], asked: list[str], document: Any, shown: list[str]
) -> None:
    """With --json it is the service's answer, or the whole list."""
    assert document == braid.printed_json(*words.split(), answers=answers)
    assert asked == braid.requests()
    assert shown


@EACH
def test_lists_fit_a_hundred_characters(  # noqa: PLR0913 - as above
    *, braid: Braid, words: str, answers: list[httpx.Response], asked: list[str], document: Any, shown: list[str]
) -> None:
    """Even where the output is no screen."""
    printed = braid(*words.split(), answers=answers).stdout.splitlines()
    assert not isinstance(document, list) or max(map(len, printed)) <= 100
    assert asked == braid.requests()
    assert shown or not document


def test_a_drain_that_cannot_end_says_why(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends once it has waited for a while, with a line for each host that stays, and the remedy."""
    monkeypatch.setattr(machine_commands, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr(machine_commands, "_PATIENCE", 0.0)
    stuck = MACHINE | {"draining": True, "hosts": [{"name": "north", "stays": "nobody takes it; start a machine"}]}
    result = braid("machines", "drain", "north", "--wait", answers=[ok(stuck), page(stuck)])
    assert (ExitCode.CONFLICT, "") == (result.exit_code, result.stdout)
    assert "host north stays: nobody takes it; start a machine" in result.stderr


def test_a_drain_goes_on_while_a_host_can_leave(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """One host that stays for now does not end the wait for the others, and a machine may come meanwhile."""
    monkeypatch.setattr(machine_commands, "_LOOK_EVERY", 0.0)
    monkeypatch.setattr(machine_commands, "_PATIENCE", 0.0)
    stays, leaves = {"name": "north", "stays": "nobody takes it"}, {"name": "south", "heir": "west"}
    looks = [{"draining": True, "hosts": hosts} for hosts in ([stays, leaves], [stays], [leaves], [])]
    first, *later = [MACHINE | look for look in looks]
    result = braid("machines", "drain", "north", "--wait", answers=[ok(first), *map(page, later)])
    assert (0, "north carries no host, and may be stopped\n") == (result.exit_code, result.stdout)


def test_a_row_is_one_line_with_wide(braid: Braid) -> None:
    """Of any length and with every column; without, a long cell is folded, and nothing of it is cut."""
    answers = page(DATAFLOW | {"name": "x" * 500})
    wide, narrow = braid("list", "--wide", answers=answers).stdout, braid("list", answers=answers).stdout
    assert "x" * 500 in wide
    assert (500, True) == (narrow.count("x"), max(map(len, narrow.splitlines())) <= 100)
    assert (True, False) == ("revision" in wide, "revision" in narrow)


def test_results_are_printed_as_yaml(braid: Braid) -> None:
    """The same document as in JSON, which `---` parts from the next one; so is what was not done."""
    answers = page(DATAFLOW | {"name": "größe: 1"})
    written = braid("list", "--output", "yaml", answers=answers).stdout
    assert (True, True) == (written.startswith("---\n"), "name: 'größe: 1'" in written)
    assert braid.printed_json("list", answers=answers) == yaml.safe_load(written)
    assert (
        "forbidden"
        == yaml.safe_load(braid("jobs", "-o", "yaml", answers=refusal(403, "forbidden")).stdout)["problem"]["code"]
    )


def test_a_cell_is_wrapped_on_a_narrow_screen() -> None:
    """Ids stay complete."""
    screen = Console(file=io.StringIO(), width=12)
    screen.print(table("id", "name", rows=[("abcdefghijkl", "x")], empty=""))
    text = getattr(screen.file, "getvalue")()  # noqa: B009 - the type of a console's file is any file
    assert "abcdefghijkl" == "".join(re.findall(r"[a-l]", text.partition("─")[2]))


def test_a_document_is_sent_byte_for_byte(braid: Braid) -> None:
    """The service's problems point into the tenant's own text."""
    Path("x.json").write_text('{ "name":\n"ü" }')
    braid("submit", "x.json", answers=ok(SUBMITTED))
    assert '{ "name":\n"ü" }'.encode() == braid.service.asked[0].content


def test_options_become_one_patch_for_each_task(braid: Braid) -> None:
    """Dots lead into nested fields; a value is JSON, or else text."""
    options = ["a.window=20", "a.names.x=y", "a.names.z=[1]", "a.max=NaN", "b.where=x = 1"]
    words = [word for each in options for word in ("--set", each)]
    ends = ["--type", "b=count", "--fresh", "b", "--also", "d2", "--no-wait"]
    braid("reconfigure", "d1", *words, *ends, answers=ok(RECONFIGURATION))
    assert {
        "tasks": {
            "a": {"config": {"window": 20, "names": {"x": "y", "z": [1]}, "max": "NaN"}},
            "b": {"type": "count", "config": {"where": "x = 1"}},
        },
        "fresh": ["b"],
        "dataflows": ["d2"],
    } == braid.sent()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "give either changes, a document, --undo, --cancel or --history"),
        ("x.json --undo", "give either changes, a document, --undo, --cancel or --history"),
        ("--set a.x", "--set a.x: it has no field; write TASK.FIELD=VALUE"),
        ("--set a=1", "--set a=1: it has no field; write TASK.FIELD=VALUE"),
        ("--type a", "--type a: it has no type; write TASK=TYPE"),
        (
            "--set a.x=1 --set a.x.y=2",
            "--set a.x.y=2: x got a value before; set it as a whole, or only its fields",
        ),
        ("--set a.x.y=2 --set a.x=1", "--set a.x=1: a.x got a value before; set it once"),
        ("--cancel --dry-run", "--dry-run is for changes and --undo; leave it out"),
        ("--history --dry-run", "--dry-run is for changes and --undo; leave it out"),
        ("--set a.x=1 --id 7", "--id is for --undo and --cancel; give one of them too"),
        (
            "--undo --fresh a",
            "--fresh and --also are for changes; leave them out, or give --set, --type or a document",
        ),
    ],
)
def test_a_reconfiguration_that_options_contradict_is_not_sent(braid: Braid, words: str, message: str) -> None:
    """No option is left unnoticed, so `--cancel --dry-run` cancels nothing."""
    result = braid("reconfigure", "d1", *words.split(), answers=ok(RECONFIGURATION))
    assert (ExitCode.PROBLEMS, f"{message}\n", []) == (result.exit_code, result.stderr, braid.requests())


def test_an_undo_passes_over_what_was_abandoned(braid: Braid) -> None:
    """An abandoned reconfiguration changed nothing."""
    abandoned = RECONFIGURATION | {"id": "8", "state": "abandoned"}
    braid("reconfigure", "d1", "--undo", "--no-wait", answers=[page(abandoned, RECONFIGURATION), ok(RECONFIGURATION)])
    assert braid.requests()[-1] == "POST /v1/dataflows/d1/reconfigurations/7/undo"
    nothing = braid("reconfigure", "d1", "--undo", answers=page(abandoned))
    assert nothing.stderr == "no reconfiguration of d1 has taken effect; there is nothing to undo\n"


def test_an_undo_does_not_bring_back_what_failed(braid: Braid) -> None:
    """What went back by itself is made once more only by its id; an undo of one's own can be undone."""
    failed, back = (
        RECONFIGURATION | {"state": "reverted"},
        RECONFIGURATION | {"id": "8", "undoes": "7", "state": "done"},
    )
    nothing = braid("reconfigure", "d1", "--undo", answers=[page(back, failed), ok(failed)])
    assert (ExitCode.PROBLEMS, True) == (nothing.exit_code, "7 failed and went back by itself" in nothing.stderr)
    done = RECONFIGURATION | {"state": "done"}
    braid("reconfigure", "d1", "--undo", "--no-wait", answers=[page(back, done), ok(done), ok(RECONFIGURATION)])
    assert braid.requests()[-1] == "POST /v1/dataflows/d1/reconfigurations/8/undo"


@pytest.mark.parametrize("words", ["submit a.json", "replace d1 a.json"])
def test_a_command_waits_until_a_dataflow_runs(braid: Braid, words: str) -> None:
    """What it waits for is said once, on standard error; with --quiet the id alone is printed."""
    Path("a.json").write_text(DOCUMENT)
    starts = DATAFLOW | {"state": "deploying", "reason": "job 1 has not run version 1 of its plan yet"}
    submitted = ok(starts | {"reused": [], "started": []})
    seen = [
        ok(starts | {"tasks": [], "document": {}}),
        ok(DATAFLOW | {"tasks": [], "document": {}, "state": "running"}),
    ]
    result = braid(*words.split(), "--wait", "--quiet", answers=[submitted, *seen])
    assert (ExitCode.WELL, "d1\n") == (result.exit_code, result.stdout)
    assert "d1 starts: job 1 has not run version 1 of its plan yet\n" == result.stderr
    assert ["GET /v1/dataflows/d1", "GET /v1/dataflows/d1"] == braid.requests()[1:]


def test_a_command_waits_for_the_first_event(braid: Braid) -> None:
    """Which says more than that the dataflow runs."""
    Path("a.json").write_text(DOCUMENT)
    outputs: Any = DETAIL["outputs"]
    silent = [output | {"latency_seconds_p50": None} for output in outputs]
    runs = DATAFLOW | {"state": "running", "reused": [], "started": [], "outputs": silent}
    seen = [ok(DETAIL | {"outputs": silent}), ok(DETAIL)]
    result = braid("submit", "a.json", "--until", "event", "--quiet", answers=[ok(runs), *seen])
    assert (ExitCode.WELL, "d1\n") == (result.exit_code, result.stdout)
    assert "d1 runs; no event has left it yet\n" == result.stderr
    assert ["GET /v1/dataflows/d1"] * 2 == braid.requests()[1:]


def test_a_command_waits_until_a_move_is_over(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase is a line; another move that begins then is none of its business."""
    monkeypatch.setattr(cli, "_LOOK_EVERY", 0.0)
    move, whole = examples.BODIES["MoveAnswer"], examples.BODIES["FragmentationAnswer"]
    looks = [whole | {"move": one} for one in (move | {"phase": "switching"}, move | {"id": "another"})]
    result = braid("defragment", "--wait", answers=[ok(move), *map(ok, looks)])
    assert (ExitCode.WELL, True) == (result.exit_code, "it is over" in result.stdout)
    phases = [f"{move['id']} is {phase}" for phase in (move["phase"], "switching")]
    assert phases == result.stderr.splitlines()
    monkeypatch.setattr(cli, "WAIT_SECONDS", 0.0)
    assert ExitCode.LATER == braid("defragment", "--wait", answers=[ok(move)]).exit_code


def test_a_terminal_shows_progress_in_one_place() -> None:
    """A spinner with what is waited for, which is gone at the end; no line is left behind."""
    program = "from manager.cli import progress\nwith progress('first') as say:\n    say('second')\nprint('end')"
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", program],
            stderr=follower,
            stdout=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm"},
            check=True,
        )
        os.close(follower)
        shown = terminal.read(10_000)
    assert (b"end\n", True, True) == (done.stdout, b"second" in shown, shown.rstrip().endswith(b"\x1b[2K"))


def test_a_script_sees_that_a_dataflow_does_not_run(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that has waited for it until its time was over does not end as if it ran."""
    monkeypatch.setattr(cli, "WAIT_SECONDS", 0.0)
    Path("a.json").write_text(DOCUMENT)
    submitted = DATAFLOW | {"state": "degraded", "reason": "job 1 failed", "reused": [], "started": []}
    result = braid("submit", "a.json", "--wait", answers=[ok(submitted)])
    assert (ExitCode.LATER, True) == (result.exit_code, "is degraded: job 1 failed" in result.stdout)


def test_a_dataflow_is_waited_for_while_its_host_begins(braid: Braid) -> None:
    """It is degraded until the host reports itself, and runs soon after."""
    Path("a.json").write_text(DOCUMENT)
    away = DATAFLOW | {"state": "degraded", "reason": "host local is away", "reused": [], "started": []}
    runs = DATAFLOW | {"tasks": [], "document": {}, "state": "running"}
    result = braid("submit", "a.json", "--wait", "--quiet", answers=[ok(away), ok(runs)])
    seen = (ExitCode.WELL, "d1\n", "d1 is degraded: host local is away\n")
    assert seen == (result.exit_code, result.stdout, result.stderr)


def test_dataflows_submitted_together_are_waited_for_together(braid: Braid) -> None:
    """Each until it starts no more; the exit code says whether all run."""
    Path("a.json").write_text(DOCUMENT)
    starts = DATAFLOW | {"state": "deploying", "reason": "job 1 is late", "reused": [], "started": []}
    bundle = ok({"dataflows": [starts, starts | {"id": "d2"}]})
    for state, code in (("running", ExitCode.WELL), ("removed", ExitCode.LATER)):
        seen = [
            ok(starts | {"tasks": [], "document": {}}),
            ok(DATAFLOW | {"id": "d2", "tasks": [], "document": {}, "state": state}),
            ok(DATAFLOW | {"tasks": [], "document": {}, "state": "running"}),
        ]
        result = braid("submit", "a.json", "a.json", "--wait", "--quiet", answers=[bundle, *seen])
        assert (code, "d1\nd2\n", "d1 starts: job 1 is late\n") == (result.exit_code, result.stdout, result.stderr)
        assert ["GET /v1/dataflows/d1", "GET /v1/dataflows/d2", "GET /v1/dataflows/d1"] == braid.requests()[1:]


def test_a_command_waits_until_a_dataflow_is_drained(braid: Braid) -> None:
    """A dataflow is gone only then."""
    drains, gone = DATAFLOW | {"state": "draining"}, DATAFLOW | {"state": "removed", "tasks": [], "document": {}}
    result = braid("remove", "d1", "--drain", "--wait", answers=[ok(drains), ok(gone)])
    assert (ExitCode.WELL, "d1 is removed\n", "d1 drains\n") == (result.exit_code, result.stdout, result.stderr)


def test_ids_alone_are_listed(braid: Braid) -> None:
    """For scripts, one for each line."""
    assert "d1\nd2\n" == braid("list", "--quiet", answers=page(DATAFLOW, DATAFLOW | {"id": "d2"})).stdout


def test_a_name_is_sent_where_an_id_goes(braid: Braid) -> None:
    """The service finds what it names; a slash after a tenant goes as a colon."""
    braid("show", "ann/hot streets", answers=[ok(DATAFLOW | {"tasks": [], "document": {}})])
    assert ["GET /v1/dataflows/ann%3Ahot%20streets"] == braid.requests()


def test_a_script_sees_that_a_reconfiguration_still_switches(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose time to wait is over does not end like one that has seen the switch."""
    monkeypatch.setattr(cli, "WAIT_SECONDS", 0.0)
    result = braid("reconfigure", "d1", "--set", "a.x=1", answers=[ok(RECONFIGURATION)])
    assert (ExitCode.LATER, True) == (result.exit_code, "7 is switching" in result.stdout)


def test_a_script_sees_that_a_reconfiguration_was_abandoned(braid: Braid) -> None:
    """The command shows why, and ends with the code of a conflict."""
    abandoned = RECONFIGURATION | {"state": "abandoned", "outcome": "given up, because what runs has changed meanwhile"}
    result = braid("reconfigure", "d1", "--set", "a.x=1", answers=[ok(RECONFIGURATION), ok(abandoned)])
    assert result.exit_code == ExitCode.CONFLICT
    assert "7 is abandoned: given up, because what runs has changed meanwhile" in result.stdout


def test_a_document_can_come_from_standard_input(braid: Braid) -> None:
    """Its name is a dash."""
    braid("submit", "-", answers=ok(SUBMITTED), typed=DOCUMENT)
    assert DOCUMENT.encode() == braid.service.asked[0].content


def test_a_submission_can_have_a_key_of_its_own(braid: Braid) -> None:
    """So a script can try again if it does not know how its last attempt ended."""
    braid("submit", "x.json", "--idempotency-key", "mine", answers=ok(SUBMITTED))
    assert braid.service.asked[0].headers["Idempotency-Key"] == "mine"


def test_a_quota_is_changed_in_part(braid: Braid) -> None:
    """Limits that are not given stay as they are, and are not reset."""
    braid("tenants", "quota", "school", "--tasks", "9", answers=[TENANTS, ADMITTED])
    assert QUOTA | {"tasks": 9} == braid.sent()


@pytest.mark.parametrize("limit", sorted(QUOTA))
def test_each_limit_of_a_quota_has_its_option(braid: Braid, limit: str) -> None:
    """It changes that limit, and no other."""
    braid("tenants", "quota", "school", f"--{limit.replace('_', '-')}", "42", answers=[TENANTS, ADMITTED])
    assert QUOTA | {limit: 42} == braid.sent()


def test_a_tenant_is_admitted_with_the_services_own_quota(braid: Braid) -> None:
    """Limits that are not given are left to the service."""
    braid("tenants", "admit", "school", answers=ADMITTED)
    assert braid.sent() == {"name": "school"}


def test_a_wrong_value_is_reported_without_a_request(braid: Braid) -> None:
    """The message names the field and the remedy."""
    result = braid("tenants", "admit", "No Name", answers=ADMITTED)
    assert (1, []) == (result.exit_code, braid.requests())
    assert (
        result.stderr == "name: the text contains characters that are not allowed here; "
        "use a text that matches ^[a-z0-9][a-z0-9-]{0,62}$\n"
    )


@pytest.mark.parametrize("module", ["clean", "clean@", "@2", "clean@two", "clean@-1"])
def test_a_module_without_a_version_is_reported_without_a_request(braid: Braid, module: str) -> None:
    """Only a version can be deprecated; the message shows how one is written."""
    result = braid("modules", "deprecate", module, answers=ok(MODULE))
    assert (ExitCode.PROBLEMS, []) == (result.exit_code, braid.requests())
    assert f"{module}: this names no version; write it as in clean@2\n" == result.stderr


def test_a_module_is_sent_byte_for_byte(braid: Braid) -> None:
    """So that what is shown is what was written."""
    Path("x.json").write_text('{ "name":\n"clean" }')
    braid("modules", "publish", "x.json", answers=ok(MODULE_DETAIL))
    assert b'{ "name":\n"clean" }' == braid.service.asked[0].content


def test_a_module_is_published_with_the_wheels_that_it_requires(braid: Braid) -> None:
    """In any spelling, before the module, and no others of the folder; what is not there may have been sent before."""
    Path("x.json").write_text(json.dumps({"code": {"requirements": ["Tiny_Thing == 1", "small==2.0", "sent==3"]}}))
    folder = Path("wheels")
    folder.mkdir()
    for name in ("tiny_thing-1.0", "tiny_thing-1.1", "small-2.0", "other-1.0"):
        (folder / f"{name}-py3-none-any.whl").write_text(name)
    answers = [ok(WHEEL), ok(WHEEL), ok(MODULE_DETAIL)]
    braid("modules", "publish", "x.json", "--wheels", "wheels", answers=answers)
    assert ["PUT", "PUT", "POST"] == [asked.method for asked in braid.service.asked]
    assert [b"small-2.0", b"tiny_thing-1.0"] == [asked.content for asked in braid.service.asked[:2]]


@pytest.mark.parametrize(("folder", "why"), [("none", "this is no folder"), ("wheels", "leave the name of a wheel")])
def test_wheels_that_cannot_be_read_are_reported_without_a_request(braid: Braid, folder: str, why: str) -> None:
    """The message names the folder or file."""
    Path("x.json").write_text(json.dumps({"code": {"requirements": ["tiny==1.0"]}}))
    Path("wheels").mkdir()
    Path("wheels/tiny.whl").write_text("")
    result = braid("modules", "publish", "x.json", "--wheels", folder, answers=ok(MODULE_DETAIL))
    assert (ExitCode.PROBLEMS, [], True) == (result.exit_code, braid.requests(), why in result.stderr)


def test_watch_shows_events_as_they_arrive(braid: Braid) -> None:
    """Each event is a line; with --json each line is a document."""
    answers = [lines(*event(1), *event(2)), refusal(403, "forbidden")]
    shown = braid("watch", answers=answers)
    assert shown.stdout.splitlines() == ["operation: kind submit, subject d1"] * 2
    printed = braid("watch", "--json", answers=answers).stdout.splitlines()
    assert [json.loads(line).get("id") for line in printed] == [1, 2, None]


def test_the_url_can_be_a_flag(braid: Braid) -> None:
    """It overrides the environment."""
    braid("jobs", "--url", "http://elsewhere.example:1", answers=page())
    assert [("elsewhere.example", 1)] == [(asked.url.host, asked.url.port) for asked in braid.service.asked]


def test_the_settings_file_can_be_a_flag(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can hold the URL and the key of a service."""
    monkeypatch.delenv("BRAID_URL")
    monkeypatch.delenv("BRAID_KEY")
    Path("mine.toml").write_text('url = "http://mine.example"\nkey = "its key"')
    braid("jobs", "--settings", "mine.toml", answers=page())
    (asked,) = braid.service.asked
    assert ("mine.example", "Bearer its key") == (asked.url.host, asked.headers["Authorization"])


@pytest.mark.parametrize("words", [call[0] for call in CALLS])
def test_no_command_shows_the_api_key(words: str, braid: Braid) -> None:
    """Not even after an error."""
    for answer in (httpx.ConnectError("nobody"), refusal(500, "failed"), httpx.Response(200, text="<html>")):
        for form in ([], ["--json"]):
            result = braid(*words.split(), *form, answers=[answer])
            assert result.exit_code != 0
            assert KEY not in result.output + repr(result.exception)


def test_events_are_those_of_a_task_or_of_the_only_source(braid: Braid) -> None:
    """One on each line; what is unclear is refused before anything is sent."""
    braid("try", "flow.json", "--events", "events.jsonl", "--events", "t=events.jsonl", answers=ok(_TRIED))
    assert {task: [{"t": 1}, {"t": 2}] for task in "st"} == braid.sent()["events"]
    Path("bad.jsonl").write_text("{}\n{")
    for words, problem in (
        (["flow.json", "--events", "bad.jsonl"], "bad.jsonl: line 2 is not JSON"),
        (["x.json", "--events", "events.jsonl"], "say for which task events are: TASK=FILE"),
    ):
        refused = braid("try", *words)
        assert (ExitCode.PROBLEMS, True) == (refused.exit_code, problem in refused.stderr)


def test_events_of_a_task_are_followed_by_their_counts(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is printed once, with where and when it was seen; an event that was cut is a text."""
    monkeypatch.setattr(output_commands, "_LOOK_EVERY", 0.0)

    def looks(count: int, *newest: str) -> httpx.Response:
        port = {"count": count, "newest": newest, "seen": [AT] * len(newest)}
        nothing = {"count": 0, "newest": [], "seen": []}
        return ok({"id": "a", "type": "count", "waits": False, "inputs": {"in": port}, "outputs": {"out": nothing}})

    answers = [looks(1, "1"), looks(1, "1"), looks(5, "3", "4", '{"long…'), looks(1, "6")]
    result = braid("events", "d1", "a", "--count", "5", answers=answers)
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [1, 3, 4, '{"long…', 6] == [line["event"] for line in printed]
    assert [{"entered": "in", "at": "2026-01-02T03:04:05.000000Z", "event": 1}] == printed[:1]
    assert "GET /v1/dataflows/d1/tasks/a/events" in braid.requests()


@pytest.mark.parametrize(
    ("state", "code"),
    [("switched", ExitCode.WELL), ("reverted", ExitCode.CONFLICT), ("abandoned", ExitCode.CONFLICT)],
)
def test_a_replan_waits_for_its_reconfiguration(braid: Braid, state: str, code: ExitCode) -> None:
    """A script sees whether the new plan has taken effect, and a person reads it."""
    planned = REPLANNED | {"how": "reconfiguration", "changed": ["a"], "reconfiguration": RECONFIGURATION}
    answers = [ok(planned), ok(RECONFIGURATION), ok(RECONFIGURATION | {"state": state})]
    result = braid("replan", "d1", "--wait", answers=answers)
    assert (code, True) == (
        result.exit_code,
        f"reconfiguration 7 {'has' if code is ExitCode.WELL else 'is'} {state}" in result.stdout,
    )
    assert ["GET /v1/dataflows/d1/reconfigurations/7"] * 2 == braid.requests()[1:]
    assert ExitCode.WELL == braid("replan", "d1", answers=[ok(planned)]).exit_code
    assert 1 == len(braid.requests())


def test_a_script_sees_that_a_replan_still_switches(braid: Braid, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a reconfiguration; what is only previewed is not waited for."""
    monkeypatch.setattr(cli, "WAIT_SECONDS", 0.0)
    planned = ok(REPLANNED | {"how": "reconfiguration", "changed": ["a"], "reconfiguration": RECONFIGURATION})
    assert ExitCode.LATER == braid("replan", "d1", "--wait", answers=[planned]).exit_code
    assert ExitCode.WELL == braid("replan", "d1", "--wait", "--dry-run", answers=[planned]).exit_code


def test_one_sees_what_a_reconfiguration_waits_for(braid: Braid) -> None:
    """On standard error, once for each change, so that standard output has the one answer at the end."""
    nearer = QUEUED | {"queue": {"place": 1, "behind": ["5"], "behind_others": 0, "behind_moves": False}}
    over = RECONFIGURATION | {"state": "switched", "switched": "2026-03-01T12:00:01Z"}
    result = braid("reconfigure", "d1", "--set", "a.x=1", "--json", answers=[*map(ok, (QUEUED, QUEUED, nearer, over))])
    assert [
        (
            "reconfiguration 7 waits for reconfiguration 5, 2 reconfigurations of others, tasks that are being moved, "
            "at place 3 of the queue"
        ),
        "reconfiguration 7 waits for reconfiguration 5, at place 1 of the queue",
    ] == result.stderr.splitlines()
    assert (ExitCode.WELL, "switched") == (result.exit_code, json.loads(result.stdout)["state"])


def test_a_script_sees_that_a_version_went_back(braid: Braid) -> None:
    """One that waits for the end of the events from before does not take for done what was undone."""
    back = RECONFIGURATION | {"state": "reverted", "outcome": "undone, because a task fails since"}
    answers = [ok(RECONFIGURATION | {"state": "switched"}), ok(back)]
    result = braid("reconfigure", "d1", "--set", "a.x=1", "--until", "done", answers=answers)
    assert (ExitCode.CONFLICT, True) == (result.exit_code, "undone, because a task fails since" in result.stdout)


def test_the_audit_is_exported_as_json_lines(braid: Braid) -> None:
    """Each entry on a line of its own, as the service answers it."""
    assert [AUDIT, AUDIT] == [
        json.loads(line) for line in braid("audit", "--lines", answers=[page(AUDIT, AUDIT)]).stdout.splitlines()
    ]
