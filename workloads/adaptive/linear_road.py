"""A toll road, after the Linear Road Benchmark: congestion, accidents, tolls, and how long a segment takes."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from dags import Kind, Schema
from dags.builder import Program, alternate, event, metric
from workloads.adaptive.published.traffic import FREE, JAMMED, SEGMENTS, jam_share
from workloads.workload import Event

ROAD_SCHEMAS: Mapping[str, Schema] = {
    "road.reports": Schema.of(
        vehicle=Kind.STRING, at=Kind.TIMESTAMP, hour=Kind.FLOAT, segment=Kind.INTEGER, speed=Kind.FLOAT
    )
}
REPORTS_A_BLOCK = 60
"""A block is five minutes, in which no jam begins or ends."""
_START = datetime(2026, 1, 12, 6, tzinfo=UTC)
_BETWEEN = timedelta(seconds=5)
_STAYS = 0.8
"""The probability that a jam lasts another block."""
_STOPPED = 0.3
"""How often a vehicle in the segment of an accident reports that it stands."""


def linear_road() -> Program:
    """The dataflow."""
    program = Program("Linear Road")
    reports = program.stream("road.reports").filter("speed >= 0 and speed < 150", name="plausible")
    congestion = reports.dynamic(
        alternate(
            "history",
            module="by-history@1",
            value=1.0,
            cost=30,
            when=metric("rate").below(5_000).until(metric("rate").above(6_000)),
        ),
        alternate("speed", module="by-speed@1", value=0.8, cost=6),
        alternate("threshold", module="by-threshold@1", value=0.5, cost=4),
        first="threshold",
        name="congestion",
    )
    standing = reports.filter("speed < 1").window(time="at", seconds=300).group_by("segment").summary("speed")
    accidents = standing.filter("count >= 2", name="accident").output("accidents")
    congestion.filter("jam > 0.5").project(
        "vehicle", "segment", "at", computed={"toll": "2 * (jam - 0.5) * (jam - 0.5)"}, name="toll"
    ).output("tolls")
    speeds = reports.window(time="at", seconds=300).group_by("segment").summary("speed", name="speeds")
    travel = speeds.dynamic(
        alternate("trees", module="forest@1", value=1.0, cost=22),
        alternate(
            "series",
            "sliding_linear_regression",
            {"field": "mean", "by": ["segment"], "train": 3, "predict": 1},
            value=0.6,
            cost=2,
        ),
        first="series",
        name="next speed",
    )
    travel.project("segment", "window_end", computed={"minutes": "60 / predicted"}, name="travel time").output("times")
    # Nobody needs the way round while nothing stands.
    detour = travel.when(event("accident", within=600))
    detour.filter("predicted < 30").project("segment", "window_end").output("detours")
    program.policy(throughput=0.8, tolerance=0.05, latency=5.0, events={"accident": accidents})
    return program


def road_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A report of a vehicle every five seconds."""
    for report, _ in road_with_jams(seed):
        yield {"road.reports": report}


def road_with_jams(seed: int) -> Iterator[tuple[Event, bool]]:
    """The reports, each with whether there is a jam."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    jammed = [draw.random() < jam_share(_START.hour, segment) for segment in range(SEGMENTS)]
    accident = -1
    for number in count():
        at = _START + number * _BETWEEN
        hour = at.hour + at.minute / 60
        if number % REPORTS_A_BLOCK == 0:
            for segment in range(SEGMENTS):
                share = jam_share(hour, segment)
                jammed[segment] = draw.random() < (_STAYS if jammed[segment] else (1 - _STAYS) * share / (1 - share))
            accident = draw.randrange(SEGMENTS) if draw.random() < _STOPPED else -1
        segment = draw.randrange(SEGMENTS)
        stands = segment == accident and draw.random() < _STOPPED
        speed = 0.0 if stands else min(120.0, max(1.0, draw.gauss(*(JAMMED if jammed[segment] else FREE))))
        vehicle = f"v{draw.randrange(40)}"
        report = {"vehicle": vehicle, "at": at, "hour": hour, "segment": segment, "speed": speed}
        yield report, jammed[segment]
