"""Rounds of events: in each, every source of a scenario has one event. The same seed draws the same rounds."""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from workloads.workload import Event

_START = datetime(2026, 1, 12, tzinfo=UTC)
_BROKEN = 0.01
"""The part of readings that a broken sensor sends."""
_HOUSES = ("north", "east", "south", "west")
_VEHICLES = 40
_PATIENTS = 12
_ILL = 4
"""Every so many patients one is ill, and gets worse and better again."""
_HOUR = 60
"""Minutes."""


def house_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A minute between readings; temperatures in degrees Fahrenheit."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        time = _START + timedelta(minutes=number)
        phase = 2 * math.pi * (time.hour * _HOUR + time.minute) / (24 * _HOUR)
        inside = 66.0 - 4.0 * math.cos(phase) + draw.gauss(0, 1)
        reading = {
            "house": draw.choice(_HOUSES),
            "time": time,
            "inside": 900.0 if draw.random() < _BROKEN else inside,
            "outside": 36.0 - 9.0 * math.cos(phase) + draw.gauss(0, 2),
        }
        yield {"house": reading}


def highway_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A tenth of a second between readings, each of a vehicle that approaches an accident at 10 kilometres."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        reading = {"reading": number, "time": _START + timedelta(milliseconds=100 * number)}
        position = draw.uniform(0, 9_500)
        vehicle = {
            "vehicle": f"v{draw.randrange(_VEHICLES)}",
            "position": position,
            "speed": draw.uniform(20, 36),
            "ahead_position": position + draw.uniform(15, 200),
            "ahead_speed": draw.uniform(20, 36),
        }
        yield {"highway.vehicles": {**reading, **vehicle}, "highway.accidents": {**reading, "site": 10_000.0}}


def ward_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A tenth of a second between readings, each of the next patient."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        turn, patient = divmod(number, _PATIENTS)
        about = {"patient": f"p{patient}", "round": turn, "time": _START + timedelta(milliseconds=100 * number)}
        illness = 0.0 if patient % _ILL else max(0.0, math.sin(turn / 20 + patient))
        bpm = 72 + 85 * illness + draw.gauss(0, 6)
        yield {
            "ward.heart": {**about, "bpm": 999.0 if draw.random() < _BROKEN else bpm},
            "ward.pressure": {**about, "systolic": 122 - 35 * illness + draw.gauss(0, 5)},
            "ward.movement": {**about, "movement": max(0.0, 3 * (1 - illness) + draw.gauss(0, 0.4))},
            "ward.bed": {**about, "in_bed": draw.random() < 0.9 - 0.5 * illness},
        }
