"""Forecasts of a meter's next reading: by the loads of last year at such an hour and temperature."""

import math
from typing import Any

QUARTERS = 96
AHEAD = 1 / 12
"""Hours to the next reading."""
TEMPERATURES = (0.0, 8.0, 16.0, 24.0)
TEMPERATURE_WIDTH = 2.5
"""How far around a temperature typical loads count."""


def mean_load(hour: float, temperature: float) -> float:
    """The kilowatts of one person in the mean of many days."""
    morning = math.exp(-(((hour - 7.5) / 1.5) ** 2))
    evening = 1.8 * math.exp(-(((hour - 19.0) / 2.0) ** 2))
    return 0.4 + 0.6 * morning + evening + 0.03 * max(0.0, 18.0 - temperature)


TYPICAL = tuple(
    (quarter / 4, degrees, mean_load(quarter / 4, degrees)) for quarter in range(QUARTERS) for degrees in TEMPERATURES
)
"""Hours, temperatures and loads of last year."""
HOURLY = tuple(typical_load for typical_load in TYPICAL if typical_load[0].is_integer())
"""Those of full hours."""


def typical(event: dict[str, Any]) -> dict[str, Any]:
    """The mean of all loads of last year, weighed by how near their hour and temperature are."""
    return _forecast(event, TYPICAL, 0.25)


def hourly(event: dict[str, Any]) -> dict[str, Any]:
    """Likewise, of those at full hours."""
    return _forecast(event, HOURLY, 0.4)


def _forecast(event: dict[str, Any], loads: tuple[tuple[float, float, float], ...], width: float) -> dict[str, Any]:
    hour = (event["hour"] + AHEAD) % 24
    weights = total = 0.0
    for at, degrees, load in loads:
        apart = abs(at - hour)
        apart = min(apart, 24 - apart) / width
        other = (degrees - event["temperature"]) / TEMPERATURE_WIDTH
        weight = math.exp(-(apart * apart + other * other) / 2)
        weights += weight
        total += weight * load
    predicted = event["persons"] * total / weights
    return {"predicted": predicted, "predictions": [predicted]}
