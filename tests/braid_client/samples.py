"""Samples of each answer, in JSON."""

from typing import Any

AT = "2026-01-02T03:04:05Z"
DATAFLOW = {
    "id": "d1",
    "tenant": "school",
    "name": "Schools",
    "revision": 1,
    "state": "running",
    "reason": "",
    "submitted": AT,
    "outputs": [
        {
            "sink": "out",
            "topic": "braid/1/out/school/d1/out",
            "latency_seconds_p50": 0.5,
            "latency_seconds_p99": None,
            "format": {"kind": "envelope"},
            "retain": False,
            "qos": 1,
            "also_on": None,
            "left_out": None,
        }
    ],
    "start": "latest",
}
REUSED = {"id": "a", "type": "count", "instance": 7, "reused": True, "since": AT, "failed": ""}
STARTED = {"id": "b", "type": "output", "instance": 8, "reused": False, "since": None, "failed": ""}
SUBMITTED = DATAFLOW | {"reused": [REUSED], "started": [STARTED], "plan": None, "tag": "1a"}
DETAIL = DATAFLOW | {
    "tasks": [REUSED, STARTED],
    "document": {"name": "Schools"},
    "pipeline": None,
    "dynamic": None,
    "given_up": [],
    "unplanned": "",
    "tag": "1a",
}
RECONFIGURATION = {
    "id": "7",
    "state": "switching",
    "dataflows": ["d1"],
    "who": "school",
    "begun": "2026-03-01T12:00:00Z",
    "queue": None,
    "switched": None,
    "ended": None,
    "undoes": None,
    "outcome": "",
    "scope": {
        "tasks": [
            {
                "dataflow": "d1",
                "task": "a",
                "in_place": True,
                "presence": "stays",
                "shared": False,
                "changed": True,
                "state": "kept",
                "job": "1",
            },
        ],
        "components": [{"tasks": ["a"], "heads": ["a"]}],
        "jobs": ["1"],
        "waiting": [],
        "delay_seconds": 1.0,
    },
}
REPLANNED: dict[str, Any] = {
    "dataflow": "d1",
    "how": "nothing",
    "plan": {
        "places": [{"id": "a", "module": "clean@1", "alternatives": []}],
        "goals": [{"goal": "/goals/0", "rests_on": ["a"]}],
        "figures": [{"criterion": "changes", "value": 0, "bound": 0}],
        "optimal": True,
        "document": {"name": "Schools"},
    },
    "why": "",
    "changed": [],
    "reconfiguration": None,
}
REMOVAL = {
    "dataflow": "d1",
    "stops": [STARTED],
    "goes_on": 1,
    "streams": [{"task": "a", "instance": 7, "port": "out"}],
}
FIGURES = {
    "dataflow": "d1",
    "tasks": [
        {
            "id": "a",
            "state": "running",
            "reason": "",
            "since": "2026-01-02T03:00:00Z",
            "others": 3,
            "events_in_per_second": 43.5,
            "events_out_per_second": 41.0,
            "events_dead_per_second": 0.0,
            "events_dead": 2,
            "cores": 0.012,
            "lag_events": 5,
            "state_bytes": 48120,
        }
    ],
}
EXPLAINED = {
    "reused": [REUSED | {"instance": 0}],
    "started": ["b"],
    "collapsed": [["b", "c"]],
    "saving": {
        "tasks": 1,
        "of_tasks": 2,
        "work_by_sharing": 0.625,
        "cores_by_sharing": 0.125,
        "cores_by_packing": 0.25,
        "rests_on": {"measured": 1, "type": 0, "assumed": 0},
        "work_rests_on": {"measured": 1, "type": 0, "assumed": 1},
    },
    "start": "latest",
    "plan": None,
    "tasks": [],
    "problems": [],
}
EVENT = {"id": 5, "kind": "operation", "told": {"kind": "submit", "subject": "d1", "paused": None}}
QUOTA = {
    "dataflows": 1,
    "tasks": 2,
    "streams": 3,
    "submits_per_minute": 4,
    "wheel_bytes": 5,
    "sources": 6,
    "secrets": 7,
    "modules": 8,
    "keys": 9,
    "requests_per_minute": 10,
    "from_earliest": 11,
    "state_mb": 12,
    "budget": 13,
}
QUOTA_USE = {name: number - 1 for name, number in QUOTA.items() if name != "requests_per_minute"}
MODULE = {
    "name": "clean",
    "version": 2,
    "owner": "school",
    "summary": "",
    "shape": "filter",
    "type": "code",
    "tags": ["fast"],
    "cost": 0.5,
    "quality": None,
    "published": AT,
    "deprecated": None,
    "vouched": False,
}
MODULE_DETAIL = MODULE | {"form": {"name": "clean"}}
WHEEL = {
    "digest": "0" * 64,
    "owner": "school",
    "name": "tiny",
    "version": "1.0",
    "bytes": 1_204,
    "requires": ["small>=1"],
    "sent": AT,
}
TASK_TYPE = {
    "name": "count",
    "family": "Statistics",
    "version": 1,
    "summary": "Counts the events of each key.",
    "inputs": ["in"],
    "outputs": ["out"],
    "state": "key",
    "config": {"type": "object"},
}
WEBHOOK = {
    "source": "school:city",
    "url": "http://service.example/v1/hooks/token",
    "scheme": "github",
    "header": None,
    "prefix": "",
    "delivery": None,
    "made": AT,
    "former_until": None,
}
RECEIVED = {
    "since": AT,
    "accepted": 2,
    "rejected": 1,
    "newest": [{"at": AT, "event": '{"f": "hot"}', "reason": "f is no float"}],
    "link": None,
}
SOURCE = {
    "name": "city",
    "owner": "school",
    "schema": {"f": "float"},
    "visibility": "named",
    "connection": {"kind": "topic", "topic": "city/raw", "retained": False, "format": {"kind": "json"}},
    "readers": ["health"],
    "dataflows": 1,
    "received": RECEIVED,
}
TENANT = {
    "name": "school",
    "quota": QUOTA,
    "uses": QUOTA_USE,
    "created": AT,
    "publishes_code": False,
    "quarantined_until": None,
}
AUDIT = {
    "id": 18,
    "at": AT,
    "who": "school",
    "caller": "k1",
    "caller_name": "laptop",
    "address": "192.0.2.7",
    "kind": "put secret",
    "subject": "lake",
    "outcome": "done",
    "note": "",
}
KEY_ANSWER = {
    "id": "k1",
    "role": "tenant",
    "tenant": "school",
    "note": "",
    "created": AT,
    "revoked": None,
    "expires": None,
    "used": None,
}
CONSOLE_LINK = {"path": "/#link=hush", "until": AT}
CREDENTIALS = {
    "url": "mqtt://broker:1883",
    "user": "school",
    "password": "hush",
    "reads": ["braid/1/out/school/#"],
    "writes": ["city/raw"],
    "made": "2026-03-01T12:00:00Z",
}
LOGIN = {name: value for name, value in CREDENTIALS.items() if name != "password"}
SECRET = {"tenant": "school", "name": "lake"}
JOB = {
    "job": "j1",
    "host": "local",
    "version": 2,
    "in_effect": 1,
    "state": "running",
    "trouble": "it died",
    "active": 4,
    "paused": 5,
    "batch": 3,
    "pace": 1.0,
    "shards": 1,
    "workers": "",
    "shard_cores": [],
    "hot_group": None,
    "hot_group_part": None,
    "batch_seconds_p50": 0.25,
    "batch_seconds_p99": 0.5,
    "events_in_per_second": 80.5,
    "events_out_per_second": None,
    "lag_events": 6,
    "lag_seconds": 1.5,
    "latency_seconds_p50": None,
    "latency_seconds_p99": 2.5,
    "restarts": 0,
    "seen": AT,
}
HOST = {
    "name": "local",
    "alive": True,
    "jobs": ["j1"],
    "spools": {"city": "well"},
    "dropped": 0,
    "cpu": {"workers": 0.5},
    "cores": 2.0,
    "tags": ["gpu"],
    "image": "gpu-large",
    "trouble": "",
    "release": "1.0",
    "seen": AT,
}
PDDL = {"dataflow": "d1", "domain": "(define (domain groups))", "problem": "(define (problem groups))"}
PLAN_FORM = {"plan": "(close group0)"}
PLAN = {"dataflow": "d1", "groups": [{"tags": "gpu", "tasks": ["a", "b"]}], "cost": 0.07, "now": 0.08}
PLACEMENT = {
    "dataflow": "d1",
    "tasks": [
        {
            "task": "a",
            "instance": 3,
            "job": "2",
            "host": "north",
            "image": "gpu-large",
            "tags": ["gpu"],
            "own": False,
            "why": "its host offers gpu",
        }
    ],
    "cost": 0.08,
    "cheapest": 0.07,
    "second": 0.075,
    "bound": 0.065,
    "saves": {"gpu-huge": 0.01},
    "more": [{"tags": "gpu", "host": 0.4, "core": 0.1}],
    "elsewhere": [
        {"tags": "gpu", "job": "", "joins": ["b"], "more": 0.01, "why_not": []},
        {"tags": "no tags", "job": "7", "joins": [], "more": None, "why_not": ["it lacks gpu"]},
    ],
}
IMAGE = {
    "name": "gpu-large",
    "tags": ["gpu"],
    "cores": 8.0,
    "start": 90.0,
    "price": 2.4,
    "most": 4,
    "hosts": ["north"],
}
MACHINE_CLASS = {
    "name": "large",
    "cores": 8,
    "memory_gb": 32.0,
    "price": 2.4,
    "speed": 1.25,
    "tags": ["near-the-sensors"],
    "image": "gpu-large",
    "start_seconds": 84.2,
    "measured": True,
    "least": 0,
    "most": 4,
    "supply": "command",
    "command": "rent",
    "nice": 0,
    "machines": ["added-1"],
}
RENTAL = {
    "number": 7,
    "machine": "added-1",
    "machine_class": "large",
    "cores": 8,
    "price": 2.4,
    "why": "jobs take 14.20 of 16 cores, 70% or more, for 60 s; class large, at 2.4 an hour",
    "ordered": "2026-01-02T03:04:05Z",
    "ready": "2026-01-02T03:05:29Z",
    "ended": None,
    "speed": 1.25,
    "hours": 2,
    "cost": 4.8,
}
MACHINE = {
    "name": "north",
    "alive": True,
    "waits": "",
    "key": "",
    "draining": False,
    "zone": "hall-1",
    "shares_root_with": [],
    "takes_copies": True,
    "at": "10.0.0.11:8700",
    "full": "",
    "cores": 2.0,
    "speed": 1.1,
    "share": 0.5,
    "load": 1.25,
    "tags": ["gpu"],
    "image": "gpu-large",
    "hosts": [
        {
            "name": "north",
            "home": "north",
            "load": 1.25,
            "heir": "",
            "peers": ["south"],
            "kept_by": ["south"],
            "standby": ["south"],
            "behind_bytes": 4096,
            "troubles": {"south": "its disk is full"},
            "under_replicated": True,
            "stays": "",
        }
    ],
    "keeps": ["west"],
}
OPERATION = {
    "id": 9,
    "at": AT,
    "kind": "submit",
    "who": "school",
    "subject": "d1",
    "started": 1,
    "reused": 2,
    "paused": 0,
    "jobs_started": [],
    "jobs_stopped": [],
    "seconds": 0.01,
    "note": "",
}
MOVE = {"id": "move-3", "phase": "cutting", "since": AT, "tasks": 4, "leaves": ["j1", "j2"], "joins": ["j3"]}
FRAGMENTATION = {
    "jobs": 2,
    "fewest": 1,
    "bridges": 1,
    "paused": 0,
    "hops": 1,
    "cores": 0.1,
    "latency_seconds": 1.0,
    "saves": {
        "sharing": 0.2,
        "packing": 0.3,
        "defragmenting": 0.1,
        "most": "packing",
        "work_per_batch_seconds": 0.05,
        "crossover_seconds": None,
    },
    "move": MOVE,
}
DEFRAGMENTATION_PREVIEW = {
    "tasks": 4,
    "leaves": ["j1", "j2"],
    "opens": ["north"],
    "jobs": 1,
    "bridges": 0,
    "planned": True,
    "why": "it was asked for. It is worth it",
}
_CPU = {"cpu_ns": 900000000, "cores": 0.25, "price": 0.0125}
_ESTIMATE = {"low": 0.25, "likely": 0.5, "high": 0.75, "price": None}
_SHARE = {
    "tenant": "school",
    "dataflow": None,
    "share": _CPU,
    "alone": _ESTIMATE,
    "saved": {"work_by_sharing": 0.5, "cores_by_sharing": _CPU, "cores_by_packing": _ESTIMATE},
}
SAVINGS: dict[str, Any] = {
    "since": AT,
    "until": "2026-01-02T04:04:00Z",
    "metered_seconds": 60.0,
    "tenants": 1,
    "whole": {
        "measured": _CPU,
        "parts": {"driver": _CPU, "jvm": _CPU, "worker": _CPU, "broker": None},
        "overhead": _CPU,
        "others": _CPU,
        "alone_launched": _ESTIMATE,
        "alone_packed": _ESTIMATE,
        "saved": {"work_by_sharing": 0.077, "cores_by_sharing": _CPU, "cores_by_packing": _ESTIMATE},
    },
    "shares": [_SHARE],
    "dataflows": [_SHARE | {"dataflow": "d1"}],
    "price_per_core_hour": 0.05,
    "currency": "EUR",
}
DEAD_LETTER = {
    "id": 3,
    "at": AT,
    "instance": 7,
    "port": "in",
    "dataflows": ["d1"],
    "reason": "no number",
    "events": [{"f": "x"}],
    "dropped": 0,
    "traceback": None,
}
DEAD_LETTER_GROUP = {
    "newest": 3,
    "instance": 7,
    "dataflows": ["d1"],
    "reason": "no number",
    "dead_letters": 12,
    "first": AT,
    "last": AT,
}
RUNNING_TASK = {
    "cores": 0.02,
    "events_in_per_second": 1.5,
    "events_out_per_second": 1.0,
    "instance": 7,
    "type": "count",
    "name": "counted",
    "job": "j1",
    "state": "active",
    "inputs": [1],
    "dataflows": 2,
    "tenants": 1,
    "tenant": "ann",
    "since": AT,
    "dag": 1,
    "failed": "",
    "cpu_seconds": 0.5,
    "events_in": 9,
    "events_out": 8,
    "events_dead": 1,
    "state_bytes": 20_000,
}
RUNNING_DAG = {"id": 1, "tasks": 3, "dataflows": 2, "jobs": ["j1"]}
STREAM = {"instance": 7, "port": "out", "producer": "j1", "consumers": ["j2"]}
CONCERN = {
    "urgency": "error",
    "kind": "job",
    "subject": "j1",
    "what": "Job j1 is died",
    "at": None,
    "reason": "disk full",
    "remedy": "braid logs --job j1",
    "limit": "",
}
OVERVIEW = {
    "well": False,
    "attention": [CONCERN],
    "concerns": 1,
    "dataflows": {"running": 3},
    "tasks_submitted": 9,
    "tasks_running": 4,
    "submitted_by_kind": {"sources": 3, "steps": 3, "outputs": 3},
    "running_by_kind": {"sources": 1, "steps": 1, "outputs": 2},
    "jobs": {
        "states": {"died": 1},
        "troubled": [{"job": "j1", "state": "died", "trouble": "disk full"}],
        "in_trouble": 1,
        "bridges": 2,
        "lag_events": 7,
        "lag_seconds": 0.5,
    },
}
HISTORY: dict[str, Any] = {
    "dataflow": "d1",
    "since": AT,
    "until": "2026-01-02T03:04:35Z",
    "step": 15,
    "events_in_per_second": [2.5, None],
    "events_out_per_second": [1.0, None],
    "latency_seconds_p50": [0.05, None],
    "latency_seconds_p99": [0.2, None],
    "waiting": [3, None],
    "dead_letters": [0, None],
    "cores": [0.1, None],
    "cores_alone": [0.3, None],
    "latency_bound": None,
}
SERIES = {
    "since": AT,
    "until": "2026-01-02T04:04:00Z",
    "step": 60,
    "tenant": "school",
    "points": [
        {
            "at": AT,
            "metered_seconds": 60.0,
            "measured": _CPU,
            "alone_launched": _ESTIMATE,
            "alone_packed": _ESTIMATE,
            "share": _CPU,
            "alone": _ESTIMATE,
        }
    ],
}
_PAID = {"cpu_ns": 3_600_000_000_000, "core_hours": "1.000000", "amount": "0.050000"}
_LINE = {"tenant": "school", "dataflow": None, "name": "", "pays": _PAID, "most": _PAID, "rented": "0.020000"}
BILL: dict[str, Any] = {
    "since": "2026-01-01T00:00:00Z",
    "until": "2026-02-01T00:00:00Z",
    "complete": True,
    "metered_seconds": 3_600.0,
    "tenants": [_LINE],
    "dataflows": [_LINE | {"dataflow": "d1", "name": "=1+1"}],
    "whole": {
        "measured": _PAID,
        "others": _PAID | {"cpu_ns": 0},
        "overhead": _PAID,
        "rented": [{"machine_class": "small", "machines": 1, "hours": 1, "amount": "0.100000"}],
        "rented_others": "0.000000",
        "rented_overhead": "0.080000",
    },
    "price_per_core_hour": "0.05",
    "currency": "EUR",
}
