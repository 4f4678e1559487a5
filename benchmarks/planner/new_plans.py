"""A data set in sections, with another plan between each two: here, and as a plain program of Spark is changed.

The pipeline is that of the house, with a count below it that goes on. Each section has other goals, preferences or
modules than the one before, so it is planned anew, and the difference is applied as one reconfiguration. The plain
query is written for each section by hand. It is stopped and started from its checkpoint: in one session, which is the
kindest way, and as a program that ends and is started anew, which is what the paper on planning compares with.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import MeasuredService, serving
from benchmarks.plain.house import VERSIONS, sections_of
from benchmarks.plain.program import run_program
from benchmarks.plain.sections import Section
from benchmarks.reconfiguration.running_workflow import settled, wait_until_runs
from manager.answers.pipelines import ReplanForm, ReplanKind
from manager.answers.sources import SourceForm
from manager.client import Client
from planning.problem import Criterion
from workloads.pipelines.scenario import PipelineScenario, load_scenario

Found = dict[str, Any]
Rows = list[tuple[Any, ...]]
"""The house, time, ideal temperature and power of each event, and the count of its house so far."""
_EVENTS = 8_000
_SECTIONS = (1, 2, 4, 8, 20, 80)
_STARTED_ANEW = 4
"""The most sections for which the program is started; the time of more is estimated from what each start adds."""
_PACE = 0.2
"""So quick that the pipeline just fits into one job. A plain query has none, and begins its next batch at once."""

_IDEALS: Sequence[Found] = (
    {"ideal": "hour"},
    {"ideal": "day", "unit": "kelvin"},
    {"ideal": "day", "unit": "celsius"},
    {},
)
"""What each version shall hold of the ideal temperature."""
_WAYS = ("replanned_s", "query_s", "program_s")


def new_plans(*, quick: bool) -> Found:
    """Seconds of each number of sections each way, and how much less the changes take; the outputs are equal."""
    data = _data(load_scenario("house"))
    sections = (1, 4) if quick else _SECTIONS
    anew = 4 if quick else _STARTED_ANEW
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        root = Path(folder)
        (root / "data.json").write_text("".join(json.dumps(event) + "\n" for event in data))
        found = {many: _measured(root, data, many, is_started_anew=many <= anew) for many in sections}
    started = {many: taken["program_s"] for many, taken in found.items() if "program_s" in taken}
    line = statistics.linear_regression(list(started), list(started.values()))
    for many, taken in found.items():
        taken.setdefault("program_s", line.intercept + line.slope * many)
    alone = found[1]
    most = found[max(sections)]
    return {
        "seconds": {many: {way: round(taken[way], 1) for way in _WAYS} for many, taken in found.items()},
        "program_measured_to": anew,
        "replan_ms": most["replan_ms"],
        "changes_less": {way: _less(most, alone, way) for way in _WAYS[1:]},
        "whole_less": {way: round(1 - most[_WAYS[0]] / most[way], 3) for way in _WAYS[1:]},
        "equal": all(taken["equal"] for taken in found.values()),
    }


def _less(most: Found, alone: Found, way: str) -> float:
    """How much less time than another way all changes take: what there is beyond the run with one section."""
    ours, theirs = (float(most[each] - alone[each]) for each in (_WAYS[0], way))
    return round(1 - ours / theirs, 3)


def _data(scenario: PipelineScenario) -> list[Found]:
    rounds = islice(scenario.rounds(1), _EVENTS)
    return [{**each["house"], "time": round(each["house"]["time"].timestamp() * 1_000)} for each in rounds]


def _measured(root: Path, data: Sequence[Found], many: int, *, is_started_anew: bool) -> Found:
    sections = sections_of(data, many)
    found, rows = _replanned(root / f"braid-{many}", sections)
    plain = run_program("house", root / f"query-{many}", root / "data.json", many, 0, many)
    found |= {"query_s": plain.seconds, "equal": rows == sorted(plain.rows)}
    print(f"sections: {many}, {_WAYS[0]}: {found[_WAYS[0]]:.1f}, {_WAYS[1]}: {plain.seconds:.1f}", flush=True)
    if is_started_anew:
        begun, more = time.perf_counter(), Rows()
        for at in range(many):
            more += run_program("house", root / f"anew-{many}", root / "data.json", many, at, at + 1).rows
        found |= {"program_s": time.perf_counter() - begun, "equal": found["equal"] and rows == sorted(more)}
    return found


def _replanned(folder: Path, sections: Sequence[Section]) -> tuple[Found, Rows]:
    scenario = load_scenario("house")
    with serving(folder, pace=_PACE) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            for module in scenario.modules:
                operator.publish_module(module)
            schema = {name: str(kind) for name, kind in scenario.schemas["house"].fields.items()}
            connection = {"kind": "topic", "topic": "house"}
            form = {"name": "house", "connection": connection, "schema": schema}
            ann.register_source(SourceForm.model_validate(form))
            return _timed(service, ann, scenario, sections)


def _timed(
    service: MeasuredService, ann: Client, scenario: PipelineScenario, sections: Sequence[Section]
) -> tuple[Found, Rows]:
    replans = list[float]()
    begun, expected = time.perf_counter(), 0
    flow = ann.submit(_pipeline(scenario, 0))
    powers, counts = (next(each.topic for each in flow.outputs if each.sink == sink) for sink in ("out", "counts"))
    wait_until_runs(ann, flow.id)

    def left(topic: str) -> int:
        return sum(len(events) for _, events in (service.events or {}).get(topic, ()))

    for at, section in enumerate(sections):
        if at:
            asked = time.perf_counter()
            answer = ann.replan(flow.id, _form(scenario, at))
            replans.append(time.perf_counter() - asked)
            if answer.how is not ReplanKind.RECONFIGURATION or answer.reconfiguration is None:
                raise RuntimeError(f"the plan took effect as {answer.how}")
            settled(ann, flow.id, answer.reconfiguration.id)
        for event in section.events:
            service.publish("house", json.dumps(event).encode())
        expected += section.leaving
        service.wait(lambda many=expected: min(left(powers), left(counts)) >= many or None, "a section")  # type: ignore[misc]
    took = time.perf_counter() - begun
    rows = sorted(_rows(service, powers, counts))
    return {"replanned_s": took, "replan_ms": round(statistics.median(replans or [0.0]) * 1_000, 1)}, rows


def _pipeline(scenario: PipelineScenario, at: int) -> Found:
    """The pipeline of a section, with its goals."""
    ideal: Sequence[Found] = (
        {"ideal": "hour"},
        {"ideal": "day", "unit": "kelvin"},
        {"ideal": "day", "unit": "celsius"},
        {},
    )
    goals = ({"fields": {"power": "float"}}, {"holds": ideal[at % VERSIONS]})
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
    came = service.events or {}
    tallies: dict[str, list[int]] = {}
    for _, events in came[counts]:
        for each in events:
            tallies.setdefault(each["house"], []).append(each["count"])
    left = [each for _, events in came[powers] for each in events]
    for each in left:
        when = round(datetime.fromisoformat(each["time"]).timestamp() * 1_000)
        yield each["house"], when, each["ideal"], each["power"], tallies[each["house"]].pop(0)
