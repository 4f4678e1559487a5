"""Random taxi rides: longer ones take longer and cost more, and rides at night are fast."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

RideColumn: TypeAlias = npt.NDArray[np.float64] | list[str]
"""A column of rides: numbers or texts."""
_DAY = 86_400_000


def rides(
    random: np.random.Generator, taxis: npt.NDArray[np.int64], times: npt.NDArray[np.int64]
) -> Mapping[str, RideColumn]:
    """The fields of rides, one for each taxi. As in the benchmark, cash tips and the tolls of most rides are 0."""
    count = len(taxis)
    busy = 1 - np.cos(2 * np.pi * (times % _DAY) / _DAY)
    distance = np.clip(random.lognormal(1.1, 0.6, count), 1.4, 29.8)
    seconds = np.clip(distance * (140 + 60 * busy) * random.uniform(0.8, 1.2, count), 141, 3_154)
    fare = np.clip(np.round(2 * (2.5 + 2 * distance + seconds / 180)) / 2, 6.0, 200.0)
    card = random.random(count) < 1 / 2
    tip = np.where(card, np.clip(fare * random.uniform(0.15, 0.25, count), 0.7, 38.5), 0.0)
    tolls = np.where(random.random(count) < 1 / 8, 4.8, 0.0)
    surcharge = np.where(busy > 1, 0.0, 0.5)
    tax = np.full(count, 0.5)
    begun = (times // 1_000 - seconds.astype(np.int64)).astype("datetime64[s]")
    return {
        "hack_license": [f"08F944E76118632BE09B9D4B04C7{at:04X}" for at in (0x0120 + taxis).tolist()],
        "pickup_datetime": [moment.replace("T", " ") for moment in np.datetime_as_string(begun).tolist()],
        "trip_time_in_secs": seconds,
        "trip_distance": distance,
        "pickup_longitude": _places(random, -73.98, count),
        "pickup_latitude": _places(random, 40.75, count),
        "dropoff_longitude": _places(random, -73.96, count),
        "dropoff_latitude": _places(random, 40.77, count),
        "payment_type": ["CRD" if each else "CSH" for each in card.tolist()],
        "fare_amount": fare,
        "surcharge": surcharge,
        "mta_tax": tax,
        "tip_amount": tip,
        "tolls_amount": tolls,
        "total_amount": fare + surcharge + tax + tip + tolls,
    }


def _places(random: np.random.Generator, middle: float, count: int) -> list[str]:
    return [f"{place:.6f}" for place in random.normal(middle, 0.02, count).tolist()]
