"""Figure 14: invalid outputs, of events that met one task before a reconfiguration and another one after it.

The service has no naive scheduler. So the plans of two jobs are sent to a host by hand: naively, both as they are; or
as the service does, with a marker from the first job to the second.
"""

import json
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.engine_plans import HOST, delivery, slot, topic
from benchmarks.engine_test_bed import Bed
from benchmarks.instruments import Figures
from benchmarks.reconfiguration.installation import work_of
from dags import Kind
from engine.plan import Bridged, Forward, Ingress, Plan, Port, Slot, Subscribed, Supply, Switch

_FEW, _EVENTS = 10, 1_500
_BEFORE = 3.0
"""Seconds of work before the switch."""
_FIRST_MS, _SECOND_MS = 4.0, 8.0
"""Milliseconds for each event. The second task is slower, so events wait between the two."""
_FIRST, _SECOND = "first", "second"


def mixed_outputs(folder: Path) -> Figures:
    """The outputs of each way to switch: all, and those that are mixed."""
    with closing(Bed(folder)) as bed:
        return {"naive": _outputs(bed, 100, marked=False), "fries": _outputs(bed, 200, marked=True)}


def _outputs(bed: Bed, base: int, *, marked: bool) -> Figures:
    before, after = _plans(base, 1), _plans(base, 2)
    bed.run(*before)
    output = after[1].deliveries[0].dataflow
    # The bound of a batch is known after the first one only.
    _send(bed, before[0].job, _FEW)
    bed.wait(lambda: len(_events(bed, output)) >= _FEW)
    _send(bed, before[0].job, _EVENTS)
    time.sleep(_BEFORE)
    if marked:
        marker = f"switch-{base}"
        announces = (Port(base + 1, "out"),)
        first = replace(after[0], switch=Switch(marker=marker, announces=announces))
        second = replace(after[1], switch=Switch(marker=marker, awaits=(after[1].ingress[0].stream,)))
        after = (first, second)
    # The second has to know the marker before it comes.
    for plan in reversed(after):
        bed.send(plan)
    bed.wait(lambda: len(_events(bed, output)) >= _FEW + _EVENTS)
    made = Counter((event["a"], event["b"]) for event in _events(bed, output))
    bed.end(*(plan.job for plan in after))
    return {
        "outputs": made.total(),
        "mixed": sum(count for (first, second), count in made.items() if first != second),
        "of the new configuration": made[2, 2],
    }


def _send(bed: Bed, job: str, many: int) -> None:
    for number in range(many):
        bed.client.publish(topic(job), json.dumps({"n": number}).encode())


def _events(bed: Bed, output: str) -> list[Figures]:
    return [event for message in list(bed.outputs[output]) for event in json.loads(message.payload)["events"]]


def _plans(base: int, version: int) -> tuple[Plan, Plan]:
    jobs = f"{_FIRST} {base}", f"{_SECOND} {base}"
    supplies: tuple[Supply, ...] = Subscribed(topic=topic(jobs[0]), fields={"n": Kind.INTEGER}), Bridged()
    first, second = (
        Plan(
            job=job,
            host=HOST,
            version=version,
            ingress=(Ingress(stream=f"to {job}", instance=base + at, supply=supply),),
            slots=(_slot(base + at, stamp, milliseconds, version),),
            pace=0.2,
        )
        for at, (job, supply, stamp, milliseconds) in enumerate(
            zip(jobs, supplies, ("a", "b"), (_FIRST_MS, _SECOND_MS), strict=True)
        )
    )
    return (
        replace(first, forwards=(Forward(instance=base + 1),)),
        replace(
            second,
            slots=(*second.slots, slot(base + 3, "output", base + 2)),
            deliveries=(delivery(base + 3, second.job),),
        ),
    )


def _slot(parent: int, stamp: str, milliseconds: float, version: int) -> Slot:
    config = {"work": work_of(milliseconds), "generation": version, "stamp": stamp}
    return slot(parent + 1, "bench:step", parent, config)
