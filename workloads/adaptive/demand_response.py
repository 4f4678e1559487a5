"""Demand response in a smart grid: forecast each meter's load, and call for curtailment while a peak is expected."""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from dags import Kind, Schema
from dags.builder import Program, alternate, clock, event, metric, rule, value_of
from workloads.adaptive.published.load import mean_load
from workloads.workload import Event

_CALENDAR = ("sine", "cosine", "sine_twice", "cosine_twice")
"""The hour as numbers that begin again each day, and each half."""
_KNOWN_AHEAD = [*_CALENDAR, "temperature"]
GRID_SCHEMAS: Mapping[str, Schema] = {
    "grid.history": Schema.of(dict.fromkeys([*_KNOWN_AHEAD, "load"], Kind.FLOAT)),
    "grid.meters": Schema.of(
        meter=Kind.STRING,
        at=Kind.TIMESTAMP,
        slot=Kind.INTEGER,
        hour=Kind.FLOAT,
        temperature=Kind.FLOAT,
        persons=Kind.FLOAT,
        kw=Kind.FLOAT,
    ),
    "grid.weather": Schema.of(dict.fromkeys(_KNOWN_AHEAD, Kind.FLOAT), at=Kind.TIMESTAMP),
}
METERS = 12
_START = datetime(2026, 1, 12, 4, tzinfo=UTC)
_SLOT = timedelta(minutes=5)
_SLOTS_A_DAY = 288


def demand_response() -> Program:
    """The dataflow.

    A regression that is trained on loads of the past and applied to the forecast of the weather says when a peak is
    expected.
    """
    program = Program("Demand response")
    meters = program.stream("grid.meters").filter("kw >= 0 and kw < 100", name="plausible")
    forecast = meters.dynamic(
        alternate(
            "typical",
            module="typical@1",
            value=value_of("errors", "mean", factor=-1.0, plus=1.0, otherwise=1.0),
            cost=230,
            when=metric("rate").below(2_000).until(metric("rate").above(2_500)),
        ),
        alternate("hourly", module="hourly@1", value=0.9, cost=60),
        alternate(
            "trend",
            "sliding_linear_regression",
            {"field": "kw", "by": ["meter"], "train": 12, "predict": 1},
            value=0.8,
            cost=2,
        ),
        first="trend",
        name="forecast",
    )
    model = (
        program.stream("grid.history")
        .window(300)
        .process("linear_regression_train", {"fields": _KNOWN_AHEAD, "target": "load"}, name="model of the load")
    )
    expected = program.stream("grid.weather").process(
        "linear_regression_predict", {"fields": _KNOWN_AHEAD}, ports={"model": model}, name="expected load"
    )
    peaks = expected.filter("prediction > 1.2").output("peaks")
    calm = expected.filter("prediction < 1").output("calm")
    expecting = forecast.when(event("peak").until(event("calm")))
    expecting.filter("predicted > 4").project("meter", "at", "predicted").output("curtailments")
    shifted = forecast.project("meter", "at", "predicted", computed={"slot": "slot + 1"}, name="of the next slot")
    errors = (
        meters.window(time="at", seconds=3_600)
        .group_by("meter", "slot")
        .join("kw", (shifted, "predicted"))
        .project("at", computed={"error": "(kw - predicted) * (kw - predicted)"})
        .window(time="at", seconds=3 * 3_600)
        .summary("error")
        .output("errors")
    )
    program.policy(
        throughput=0.8,
        events={"peak": peaks, "calm": calm, "errors": errors},
        rules=[rule("night", clock("00:00", "05:00"), {forecast: "trend"})],
    )
    return program


def grid_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A reading of the next meter, the forecast of the weather five minutes later, and a load of the past."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        slot, meter = divmod(number, METERS)
        at = _START + slot * _SLOT
        persons = 1.0 + meter % 4
        temperature = _temperature(at) + draw.gauss(0, 0.5)
        hour = _hour(at)
        reading = {
            "meter": f"m{meter}",
            "at": at,
            "slot": slot,
            "hour": hour,
            "temperature": temperature,
            "persons": persons,
            "kw": max(0.0, persons * mean_load(hour, temperature) + draw.gauss(0, 0.25)),
        }
        later = at + _SLOT
        past = _START + draw.randrange(_SLOTS_A_DAY) * _SLOT
        degrees = _temperature(past) + draw.gauss(0, 2)
        yield {
            "grid.history": {
                **_calendar(past),
                "temperature": degrees,
                "load": mean_load(_hour(past), degrees) + draw.gauss(0, 0.1),
            },
            "grid.meters": reading,
            "grid.weather": {"at": at, **_calendar(later), "temperature": _temperature(later)},
        }


def _hour(at: datetime) -> float:
    return at.hour + at.minute / 60


def _calendar(at: datetime) -> dict[str, float]:
    phase = 2 * math.pi * _hour(at) / 24
    return dict(
        zip(_CALENDAR, (math.sin(phase), math.cos(phase), math.sin(2 * phase), math.cos(2 * phase)), strict=True)
    )


def _temperature(at: datetime) -> float:
    return 8.0 - 6.0 * math.cos(2 * math.pi * (_hour(at) - 3) / 24)
