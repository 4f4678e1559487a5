"""Published code on real Spark: it reaches a running job by its digest, and its faults are its own."""

import json
import signal
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from bridge import topics
from engine.code.store import CodeStore, WheelStore, digest_of
from engine.plan import FormerTask, Plan, StateChange
from tests.engine.code.publication import Publication, wheel
from tests.integration.hosting import Hosting, job, numbers, raw, slot

pytestmark = pytest.mark.spark

DOUBLE = "def entry(event): return {'m': event['n'] * 2}"
BAD = """
import os
secret = 0
def entry(event):
    if event["n"] == 3:
        while True: pass
    if event["n"] == 5:
        return {"m": 1 // secret}
    return {"m": event["n"] * 3 + len([name for name in os.environ if "BRAID" in name or "SPARK" in name])}
"""
WHERE = """
def entry(event):
    try:
        open("/etc/passwd").close()
    except PermissionError:
        return {"m": 0}
    return {"m": 1}
"""
"""A function that tells whether it runs in a cell, where it may not read that."""


def plan_of(source: int, *texts: str | Publication) -> Plan:
    """A job that delivers what some functions give for a stream."""
    slots = []
    for at, text in enumerate(texts):
        code = source + 1 + 2 * at
        publication = text if isinstance(text, Publication) else Publication(text)
        slots += [slot(code, publication.type, source, **publication.config()), slot(code + 1, "output", code)]
    return job(f"code{source}", *slots, reads=(raw(f"code/{source}", source),))


def dead_letters(hosting: Hosting, instance: int) -> dict[int, dict[str, Any]]:
    """The dead letter of each event that a task could not take."""
    letters = hosting.heard(topics.dead(instance))
    return {event["n"]: letter for letter in letters for event in letter["events"]}


def test_sources_reach_a_running_job_and_fail_alone(hosting: Hosting) -> None:
    """One of them comes with the first plan, one later, and one is put only after its plan."""
    source = 1_000 * hosting.fresh()
    store = CodeStore(hosting.root)
    store.put(digest_of(DOUBLE), DOUBLE)
    first = hosting.run(plan_of(source, DOUBLE))
    pid = hosting.keeper.pid
    hosting.publish(f"code/{source}", numbers(0, 3))
    doubled = hosting.until_delivered(first.deliveries[0], 3)
    assert [{"n": n, "k": f"k{n}", "m": 2 * n} for n in range(3)] == doubled
    store.put(digest_of(BAD), BAD)
    second = hosting.run(plan_of(source, DOUBLE, BAD))
    hosting.publish(f"code/{source}", numbers(3, 7))
    hosting.until_delivered(second.deliveries[0], 7)
    tripled = hosting.until_delivered(second.deliveries[1], 2)
    assert [(4, 12), (6, 18)] == [(each["n"], each["m"]) for each in tripled]
    hosting.until(lambda: len(dead_letters(hosting, source + 3)) == 2, "both dead letters")
    dead = dead_letters(hosting, source + 3)
    assert [(3, False), (5, True)] == [(n, "traceback" in dead[n]) for n in sorted(dead)]
    assert "CodeEnded: it took over 1 s of CPU" == dead[3]["reason"]
    assert ("ZeroDivisionError: integer division or modulo by zero", "ann") == (dead[5]["reason"], dead[5]["owner"])
    assert 'return {"m": 1 // secret}' in dead[5]["traceback"]
    missing = "def entry(event): return {'m': 7}"
    third = hosting.run(plan_of(source, DOUBLE, BAD, missing))
    hosting.publish(f"code/{source}", numbers(7, 8))
    hosting.until(lambda: hosting.heard(topics.dead(source + 5)), "the dead letter of the missing source")
    assert f"{digest_of(missing)} is not in the root" in json.dumps(hosting.heard(topics.dead(source + 5)))
    store.put(digest_of(missing), missing)
    hosting.publish(f"code/{source}", numbers(8, 9))
    assert [(8, 7)] == [(each["n"], each["m"]) for each in hosting.until_delivered(third.deliveries[2], 1)]
    assert pid == hosting.keeper.pid
    hosting.until(lambda: hosting.taken(second.job, source + 3) >= 5, "the metrics of the task")
    # The second that the endless loop took is in the meter of its task, and not in that of the others.
    meters = hosting.meters(second.job)
    assert meters[source + 3]["cpu_ns"] > 500_000_000 > meters[source + 1]["cpu_ns"]
    hosting.stop_job(second.job)


TALLY = """
def process(event, kept, config):
    seen = (kept or 0) + 1
    return {"m": seen}, seen

def migrate(old_config, new_config, key, kept):
    return kept + new_config["more"]
"""


@pytest.mark.slow
def test_what_code_keeps_outlives_a_kill_and_is_migrated(hosting: Hosting) -> None:
    """In cells: each event counts once, whatever is killed, and another config goes on from what its function makes."""
    source = 1_000 * hosting.fresh()
    CodeStore(hosting.root).put(digest_of(TALLY), TALLY)
    keeps = {"by": ["k"], "migrate": "migrate"}
    tally = Publication(TALLY, needed={"n": "integer", "k": "string"}, entry="process", keeps=keeps)
    plan = hosting.run(plan_of(source, tally))
    hosting.publish(f"code/{source}", numbers(0, 30))
    hosting.until_delivered(plan.deliveries[0], 30)
    hosting.publish(f"code/{source}", numbers(30, 60))
    hosting.restart(signal.SIGKILL)
    hosting.publish(f"code/{source}", numbers(60, 90))
    before = hosting.until_delivered(plan.deliveries[0], 90)
    assert [(n // 3 + 1) for n in range(90)] == [event["m"] for event in before]
    more = tally._replace(keeps=keeps | {"config": {"more": 1_000}})
    former = FormerTask(type="stateful_code", config=json.dumps(tally.config()))
    changed = replace(plan_of(source, more), changes=(StateChange(instance=source + 1, former=former),))
    hosting.run(changed)
    hosting.publish(f"code/{source}", numbers(90, 99))
    after = hosting.until_delivered(plan.deliveries[0], 99)[90:]
    assert [1_000 + n // 3 + 1 for n in range(90, 99)] == [event["m"] for event in after]
    hosting.stop_job(plan.job)


def test_wheels_reach_a_running_job(hosting: Hosting) -> None:
    """By their digests: two versions of a package side by side, in one job that nobody starts again."""
    source = 1_000 * hosting.fresh()
    text = "import tiny\ndef entry(event): return {'m': event['n'] * int(tiny.VERSION[0])}"
    CodeStore(hosting.root).put(digest_of(text), text)
    CodeStore(hosting.root).put(digest_of(DOUBLE), DOUBLE)
    first = hosting.run(plan_of(source, DOUBLE))
    hosting.publish(f"code/{source}", numbers(0, 2))
    hosting.until_delivered(first.deliveries[0], 2)
    pid = hosting.keeper.pid
    wheels = [wheel(version="3.0"), wheel(version="5.0")]
    for content in wheels:
        WheelStore(hosting.root).put(content)
    requiring = [Publication(text, wheels=(sha256(each).hexdigest(),)) for each in wheels]
    plan = hosting.run(plan_of(source, DOUBLE, *requiring))
    hosting.publish(f"code/{source}", numbers(2, 4))
    all_of = (hosting.until_delivered(plan.deliveries[at], many) for at, many in enumerate((4, 2, 2)))
    found = [[each["m"] for each in delivered[-2:]] for delivered in all_of]
    assert ([[4, 6], [6, 9], [10, 15]], pid) == (found, hosting.keeper.pid)
    hosting.stop_job(plan.job)


def test_a_voucher_takes_effect_in_a_running_job_and_ends_in_it(hosting: Hosting) -> None:
    """Without a new plan: the next batch runs in the worker, or in a cell again, and every event is delivered once."""
    source = 1_000 * hosting.fresh()
    CodeStore(hosting.root).put(digest_of(WHERE), WHERE)
    plan = hosting.run(plan_of(source, WHERE))
    pid = hosting.keeper.pid
    for at, vouched in enumerate((False, True, False)):
        Publication(WHERE).vouch(hosting.root, vouched=vouched)
        hosting.publish(f"code/{source}", numbers(3 * at, 3 * at + 3))
        hosting.until_delivered(plan.deliveries[0], 3 * at + 3)
    delivered = hosting.until_delivered(plan.deliveries[0], 9)
    assert [(n, int(3 <= n < 6)) for n in range(9)] == [(each["n"], each["m"]) for each in delivered]
    assert (pid, True) == (hosting.keeper.pid, hosting.in_effect(plan))
    hosting.stop_job(plan.job)
