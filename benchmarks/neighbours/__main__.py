"""Neighbours: what quiet dataflows notice of a greedy one in their job, attack by attack.

    python -m benchmarks.neighbours [--quick]

One of three quiet dataflows shares its job with the greedy one; all share the host and the broker. Prints a line per
attack; the last is one JSON object: latencies before, during and after it, events lost, and the seconds until it was
stopped.
"""

import json
import sys
import time
from dataclasses import replace

from benchmarks.instruments import Figures, report, scratch_folder
from benchmarks.neighbours.attacks import ATTACKER, LIMITS, Attack, Bystander, attacks
from benchmarks.neighbours.quiet_dataflows import QuietDataflows
from engine.plan import Plan
from tests.integration.hosting import HOST, QUICK, Hosting, deliveries, hosting_in, raw, slot


def main(*, quick: bool) -> None:
    """Measure every attack; quickly, with shorter whiles before and after."""
    with scratch_folder() as folder, hosting_in(folder) as hosting:
        sources, ends = ([hosting.fresh() for _ in range(3)] for _ in range(2))
        plans = [_plan(source, end) for source, end in zip(sources, ends, strict=True)]
        for plan in plans:
            hosting.run(plan)
        quiet = QuietDataflows(hosting, sources, ends)
        with quiet.running():
            quiet.settle()
            seconds = 5.0 if quick else 30.0
            noticed = {
                attack.name: report(attack.name, _measured(hosting, quiet, plans[0], attack, seconds=seconds))
                for attack in attacks()
            }
    print(json.dumps(noticed))


def _plan(source: int, end: int) -> Plan:
    slots = (slot(end, "output", source),)
    return Plan(
        job=f"quiet{source}",
        host=HOST,
        version=1,
        ingress=(raw(f"quiet/{source}", source),),
        slots=slots,
        deliveries=deliveries(slots),
        pace=QUICK,
    )


def _measured(hosting: Hosting, quiet: QuietDataflows, shared: Plan, attack: Attack, *, seconds: float) -> Figures:
    """What the quiet dataflows noticed of one attack on the job of the first of them."""
    source, task, end = (hosting.fresh() for _ in range(3))
    reads = shared.ingress[0].instance if attack.shares else source
    added = (*attack.tasks(reads, task), slot(end, "output", task))
    topic = f"greedy/{source}"
    greedy = Plan(
        job=shared.job,
        host=HOST,
        version=1,
        ingress=shared.ingress if attack.shares else (*shared.ingress, raw(topic, source)),
        slots=(*shared.slots, *added),
        deliveries=(*shared.deliveries, *(replace(delivery, tenant=ATTACKER) for delivery in deliveries(added))),
        pace=QUICK,
        limits=LIMITS,
        shards=attack.shards,
    )
    hosting.run(greedy)
    bystander = Bystander(hosting, topic, task, end, shared.job)
    bystander.begin()
    quiet.settle()
    before = time.monotonic()
    time.sleep(seconds)
    during = time.monotonic()
    stopped = attack.carry_out(bystander)
    quiet.settle()
    after = time.monotonic()
    time.sleep(seconds)
    over = time.monotonic()
    quiet.settle()
    bystander.end()
    hosting.run(shared)
    return {
        "p99_before_s": quiet.p99(before, during),
        "p99_during_s": quiet.p99(during, after),
        "p99_after_s": quiet.p99(after, over),
        "lost": quiet.lost(before, over),
        "stopped_after_s": stopped,
    }


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
