"""A data set in sections, with another plan between each two: here, and as a plain program of Spark is changed.

The pipeline is that of the house, with a count below it that goes on. Each section has other goals, preferences or
modules than the one before, so it is planned anew, and the difference is applied as one reconfiguration. The plain
query is written for each section by hand. It is stopped and started from its checkpoint: in one session, which is the
kindest way, and as a program that ends and is started anew, which is what the paper on planning compares with.
"""

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.documents import topic_source
from benchmarks.instruments import Figures, clocked, scratch_folder
from benchmarks.manager_test_bed import MeasuredService, attended_service
from benchmarks.plain.house import VERSIONS, sections_of
from benchmarks.plain.program import run_program
from benchmarks.plain.sections import Section
from benchmarks.reconfiguration.running_workflow import settled, wait_until_runs
from braid_client import Client
from braid_client.answers.pipelines import ReplanForm, ReplanKind
from dags.vocabulary import Criterion
from workloads.pipelines.scenario import PipelineScenario, load_scenario

Rows = list[tuple[Any, ...]]
"""The house, time, ideal temperature and power of each event, and the count of its house so far."""
_EVENTS = 8_000
_SECTIONS = (1, 2, 4, 8, 20, 80)
_STARTED_ANEW = 4
"""The most sections for which the program is started; the time of more is estimated from what each start adds."""
_PACE = 0.2
"""So quick that the pipeline just fits into one job. A plain query has none, and begins its next batch at once."""

_IDEALS: Sequence[Figures] = (
    {"ideal": "hour"},
    {"ideal": "day", "unit": "kelvin"},
    {"ideal": "day", "unit": "celsius"},
    {},
)
"""What each version shall hold of the ideal temperature."""
_WAYS = ("replanned_s", "query_s", "program_s")


def new_plans(*, quick: bool) -> Figures:
    """Seconds of each number of sections each way, and how much less the changes take; the outputs are equal."""
    data = _data(load_scenario("house"))
    sections = (1, 4) if quick else _SECTIONS
    anew = 4 if quick else _STARTED_ANEW
    with scratch_folder() as root:
        (root / "data.json").write_text("".join(json.dumps(event) + "\n" for event in data))
        by_sections = {many: _measured(root, data, many, is_started_anew=many <= anew) for many in sections}
    started = {many: taken["program_s"] for many, taken in by_sections.items() if "program_s" in taken}
    line = statistics.linear_regression(list(started), list(started.values()))
    for many, taken in by_sections.items():
        taken.setdefault("program_s", line.intercept + line.slope * many)
    alone = by_sections[1]
    most = by_sections[max(sections)]
    return {
        "seconds": {many: {way: round(taken[way], 1) for way in _WAYS} for many, taken in by_sections.items()},
        "program_measured_to": anew,
        "replan_ms": most["replan_ms"],
        "changes_less": {way: _less(most, alone, way) for way in _WAYS[1:]},
        "whole_less": {way: round(1 - most[_WAYS[0]] / most[way], 3) for way in _WAYS[1:]},
        "equal": all(taken["equal"] for taken in by_sections.values()),
    }


def _less(most: Figures, alone: Figures, way: str) -> float:
    """How much less time than another way all changes take: what there is beyond the run with one section."""
    ours, theirs = (float(most[name] - alone[name]) for name in (_WAYS[0], way))
    return round(1 - ours / theirs, 3)


def _data(scenario: PipelineScenario) -> list[Figures]:
    rounds = islice(scenario.rounds(1), _EVENTS)
    return [
        {**event, "time": round(event["time"].timestamp() * 1_000)} for event in (events["house"] for events in rounds)
    ]


def _measured(root: Path, data: Sequence[Figures], many: int, *, is_started_anew: bool) -> Figures:
    sections = sections_of(data, many)
    taken, rows = _replanned(root / f"braid-{many}", sections)
    plain = run_program("house", root / f"query-{many}", root / "data.json", many, 0, many)
    taken |= {"query_s": plain.seconds, "equal": rows == sorted(plain.rows)}
    print(f"sections: {many}, {_WAYS[0]}: {taken[_WAYS[0]]:.1f}, {_WAYS[1]}: {plain.seconds:.1f}", flush=True)
    if is_started_anew:
        begun, more = time.perf_counter(), Rows()
        for at in range(many):
            more += run_program("house", root / f"anew-{many}", root / "data.json", many, at, at + 1).rows
        taken |= {"program_s": time.perf_counter() - begun, "equal": taken["equal"] and rows == sorted(more)}
    return taken


def _replanned(folder: Path, sections: Sequence[Section]) -> tuple[Figures, Rows]:
    scenario = load_scenario("house")
    with attended_service(folder, pace=_PACE) as (service, ann, operator):
        for module in scenario.modules:
            operator.publish_module(module)
        schema = {name: str(kind) for name, kind in scenario.schemas["house"].fields.items()}
        ann.register_source(topic_source("house", schema))
        return _timed(service, ann, scenario, sections)


def _timed(
    service: MeasuredService, ann: Client, scenario: PipelineScenario, sections: Sequence[Section]
) -> tuple[Figures, Rows]:
    replans = list[float]()
    begun, expected = time.perf_counter(), 0
    flow = ann.submit(_pipeline(scenario, 0))
    powers, counts = (
        next(output.topic for output in flow.outputs if output.sink == sink) for sink in ("out", "counts")
    )
    wait_until_runs(ann, flow.id)

    def is_left(events: int) -> bool:
        return min(len(service.events[topic]) for topic in (powers, counts)) >= events

    for at, section in enumerate(sections):
        if at:
            answer, seconds = clocked(ann.replan, flow.id, _form(scenario, at))
            replans.append(seconds)
            if answer.how is not ReplanKind.RECONFIGURATION or answer.reconfiguration is None:
                raise RuntimeError(f"the plan took effect as {answer.how}")
            settled(ann, flow.id, answer.reconfiguration.id)
        for event in section.events:
            service.publish("house", json.dumps(event).encode())
        expected += section.leaving
        service.wait(partial(is_left, expected), "a section")
    took = time.perf_counter() - begun
    rows = sorted(_rows(service, powers, counts))
    return {"replanned_s": took, "replan_ms": round(statistics.median(replans or [0.0]) * 1_000, 1)}, rows


def _pipeline(scenario: PipelineScenario, at: int) -> Figures:
    goals = ({"fields": {"power": "float"}}, {"holds": _IDEALS[at % VERSIONS]})
    pipeline = dict(scenario.pipeline)
    pipeline["tasks"] = [
        *pipeline["tasks"],
        {"id": "tally", "type": "count", "config": {"by": ["house"]}},
        {"id": "counts", "type": "output"},
    ]
    pipeline["streams"] = [
        *pipeline["streams"],
        {"from": "power", "to": "tally"},
        {"from": "tally", "to": "counts"},
    ]
    return {**pipeline, "goals": [{"at": "power", **goal} for goal in goals]}


def _form(scenario: PipelineScenario, at: int) -> ReplanForm:
    """What a section asks for: the best quality, or least cost; for one of them a check is not available."""
    is_last = at % VERSIONS == VERSIONS - 1
    return ReplanForm(
        pipeline=_pipeline(scenario, at),
        prefer=(Criterion.QUALITY, Criterion.COST) if is_last else (Criterion.COST,),
        without=("plausible-house",) if at % VERSIONS == 2 else (),  # noqa: PLR2004 - the third of them
    )


def _rows(service: MeasuredService, powers: str, counts: str) -> Iterator[tuple[Any, ...]]:
    """Events in the order in which they left, each with the count that its house then had."""
    tallies: dict[str, list[int]] = {}
    for _, event in service.events[counts]:
        tallies.setdefault(event["house"], []).append(event["count"])
    for _, event in service.events[powers]:
        when = round(datetime.fromisoformat(event["time"]).timestamp() * 1_000)
        yield event["house"], when, event["ideal"], event["power"], tallies[event["house"]].pop(0)
