"""Traffic: the probability that a vehicle is in a jam, by what is known of hours and places, and the next speed."""

import math
from typing import Any

SEGMENTS = 12
JAMMED, FREE = (28.0, 10.0), (58.0, 12.0)
"""Mean and deviation of the speed in a jam and outside, in miles an hour."""
USUALLY = 0.25
"""How often there is a jam anywhere."""
SLOW_SPEED = 40.0
TREES = 32


def jam_share(hour: float, segment: int) -> float:
    """How often a segment is jammed at an hour."""
    rush = math.exp(-(((hour - 8.0) / 1.2) ** 2)) + math.exp(-(((hour - 17.5) / 1.6) ** 2))
    return min(0.9, 0.03 + 0.85 * rush * (1.0 if segment % 3 else 0.25))


HISTORY = tuple(tuple(jam_share(quarter / 4, segment) for quarter in range(96)) for segment in range(SEGMENTS))
"""How often each segment was jammed in each quarter of an hour."""


def by_history(event: dict[str, Any]) -> dict[str, Any]:
    """By the speed, and by how often the segment was jammed around this hour."""
    weights = total = 0.0
    for quarter, share in enumerate(HISTORY[event["segment"]]):
        apart = (quarter / 4 - event["hour"]) / 0.25
        weight = math.exp(-apart * apart / 2)
        weights += weight
        total += weight * share
    return {"jam": _posterior(event["speed"], total / weights)}


def by_speed(event: dict[str, Any]) -> dict[str, Any]:
    """By the speed alone."""
    return {"jam": _posterior(event["speed"], USUALLY)}


def by_threshold(event: dict[str, Any]) -> dict[str, Any]:
    """Whether the vehicle is slow."""
    return {"jam": 1.0 if event["speed"] < SLOW_SPEED else 0.0}


def forest(event: dict[str, Any]) -> dict[str, Any]:
    """The next mean speed, by many trees of which each splits elsewhere: a jam dissolves in a while."""
    total = 0.0
    for tree in range(TREES):
        if event["mean"] < SLOW_SPEED - 4 + 8 * tree / TREES:
            total += 0.75 * event["mean"] + 0.25 * FREE[0]
        elif event["min"] < JAMMED[0] - 8 + 8 * tree / TREES:
            total += 0.5 * event["mean"] + 0.5 * FREE[0]
        else:
            total += 0.15 * event["mean"] + 0.85 * FREE[0]
    predicted = total / TREES
    return {"predicted": predicted, "predictions": [predicted]}


def _posterior(speed: float, share: float) -> float:
    jammed, free = share * _density(speed, *JAMMED), (1 - share) * _density(speed, *FREE)
    return jammed / (jammed + free)


def _density(speed: float, mean: float, deviation: float) -> float:
    return math.exp(-(((speed - mean) / deviation) ** 2) / 2) / deviation
