"""Rates over time: constant, a random walk, a wave, a spike; events a second for each interval."""

import math
import random

Series = tuple[float, ...]


def constant(rate: float, steps: int) -> Series:
    """The same all the time."""
    return (rate,) * steps


def random_walk(mean: float, steps: int, *, seed: int, spread: float = 0.5, stride: float = 0.15) -> Series:
    """A walk that is turned back at so much above and below the mean, as the thesis has it; scaled to the mean."""
    draws = random.Random(f"walk {seed}")  # noqa: S311  keeps no secret
    at = draws.uniform(-spread, spread)
    offsets = []
    for _ in range(steps):
        offsets.append(at)
        at += draws.uniform(-stride, stride)
        if abs(at) > spread:
            at = math.copysign(2 * spread - abs(at), at)
    middle = sum(offsets) / steps
    # What a walk is off on average would be another mean, not variability.
    return tuple(mean * (1 + max(-spread, min(spread, offset - middle))) for offset in offsets)


def wave(between: tuple[float, float], steps: int, *, period: float, noise: float = 0.0, seed: int = 0) -> Series:
    """A sine between two rates with a period in intervals, and noise of so great a part of it."""
    draws = random.Random(f"wave {seed}")  # noqa: S311  keeps no secret
    low, high = between
    middle, reach = (low + high) / 2, (high - low) / 2
    return tuple(
        max(0.0, (middle + reach * math.sin(2 * math.pi * step / period)) * (1 + draws.uniform(-noise, noise)))
        for step in range(steps)
    )


def spike(rate: float, steps: int, *, at: int, length: int, factor: float) -> Series:
    """A rate that is multiplied for some intervals."""
    return tuple(rate * factor if at <= step < at + length else rate for step in range(steps))
