"""A data set in sections, with a reconfiguration between each two: here, and as a plain query of Spark is changed.

Both keep the last amounts of each user and score each payment by them; every reconfiguration changes what is stamped on
the outputs. The plain query is stopped and started from its checkpoint: in one session, which is the kindest way, and
as a program that ends and is started anew, which is the usual one.
"""

import json
import time
from pathlib import Path

from benchmarks.instruments import Figures
from benchmarks.manager_test_bed import attended_service
from benchmarks.plain.program import run_program
from benchmarks.plain.scores import EVENTS_OF_SECTION, RECENT, section
from benchmarks.reconfiguration.one_job import document
from benchmarks.reconfiguration.running_workflow import SteadyEvents, settled, wait_until_runs
from braid_client.answers.reconfigurations import ReconfigurationForm

Outputs = list[tuple[int, int, float]]
"""The number of each event, the config that it met, and its score."""
_SECTIONS = 80
_ANEW = 8
"""The sections of the program that is started anew; the time of all is estimated from these."""


def side_by_side(folder: Path, *, quick: bool) -> Figures:
    """All three: their times, and whether their outputs are equal, event for event."""
    sections = 10 if quick else _SECTIONS
    anew = 2 if quick else _ANEW
    seconds, outputs = _reconfigured(folder / "braid", sections)
    plain, others = run_program("scores", folder / "plain", 0, sections)
    begun, more = time.perf_counter(), Outputs()
    for at in range(anew):
        more += run_program("scores", folder / "anew", at, at + 1).rows
    program = (time.perf_counter() - begun) * sections / anew
    return {
        "sections": sections,
        "reconfigured_s": round(seconds, 1),
        "query_restarted_s": round(plain, 1),
        "program_restarted_s": round(program, 1),
        "ratio_to_query": round(seconds / plain, 3),
        "ratio_to_program": round(seconds / program, 3),
        "equal": sorted(outputs) == sorted(others) and sorted(more) == sorted(outputs)[: len(more)],
    }


def _reconfigured(folder: Path, sections: int) -> tuple[float, Outputs]:
    """The seconds of all sections on a service, and the outputs."""
    with attended_service(folder, pace=0.2) as (service, ann, _):
        SteadyEvents(service, 1.0).register(ann)
        flow = ann.submit(document("sections", "bench:inference", {"window": RECENT, "generation": 0}))
        wait_until_runs(ann, flow.id)
        left = service.events[flow.outputs[0].topic]
        begun = time.perf_counter()
        for at in range(sections):
            if at:
                patch = {"config": {"generation": at}}
                settled(ann, flow.id, ann.reconfigure(flow.id, ReconfigurationForm(tasks={"task": patch})).id)
            for event in section(at):
                service.publish(SteadyEvents.TOPIC, json.dumps({**event, "time": 0}).encode())
            service.wait(lambda at=at: len(left) >= (at + 1) * EVENTS_OF_SECTION, "a section")  # type: ignore[misc]
        took = time.perf_counter() - begun
        return took, [(event["n"], event["generation"], event["score"]) for _, event in left]
