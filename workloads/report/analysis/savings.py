"""The arithmetic of savings and their confidence intervals. Pure.

A saving is cumulative: the sum over all steps of the use with sharing, compared with the sum of the use without. Steps
are weighted by their duration if the trace has times, else equally.

The interval comes from pairs of windows, measured at the same step with and without sharing. The deviations of the
pairs from the saving are pooled over all steps, and Student's t gives the interval. It says how much a repeated
measurement would vary, not what other traces would give.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean
from typing import Any

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalEstimate:
    """A number with its interval; without an interval if no measurement was repeated."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A window that was measured both without and with sharing."""

    step: int
    without: float
    """The use without sharing."""
    shared: float
    """The use with sharing."""


def weights(trace: Mapping[str, Any]) -> tuple[float, ...]:
    """The duration of each step of a trace in a manifest; 1 each if the trace has no times.

    >>> weights({"steps": [{"at": 0.0}, {"at": 2.0}, {"at": 5.0}]})
    (2.0, 3.0, 0.0)
    >>> weights({"steps": [{}, {}]})
    (1.0, 1.0)
    """
    times = [step.get("at") for step in trace["steps"]]
    if None in times:
        return (1.0,) * len(times)
    durations = [after - before for before, after in pairwise(times)]
    # Nothing follows the last step; if no other step has a duration either, all have the same weight.
    return (*durations, 0.0) if sum(durations) else (1.0,) * len(times)


def saved(without: Sequence[float], shared: Sequence[float], durations: Sequence[float]) -> float | None:
    """The saved part of the use without sharing; None if there was no use.

    >>> saved([2, 4], [2, 1], [1, 1])
    0.5
    """
    whole = math.fsum(weight * each for weight, each in zip(durations, without, strict=True))
    used = math.fsum(weight * each for weight, each in zip(durations, shared, strict=True))
    return 1 - used / whole if whole else None


def saved_at_peak(without: Sequence[float], shared: Sequence[float]) -> float | None:
    """The saved part at the first step with the highest use without sharing."""
    if not without or not max(without):
        return None
    peak = without.index(max(without))
    return 1 - shared[peak] / without[peak]


def means(steps: Mapping[int, Sequence[float]]) -> dict[int, IntervalEstimate]:
    """The mean of each step's windows; the variance is pooled over all steps, since each has few windows."""
    middles = {step: fmean(values) for step, values in steps.items()}
    freedom = sum(len(values) - 1 for values in steps.values())
    if not freedom:
        return {step: IntervalEstimate(value=middle) for step, middle in middles.items()}
    scatter = math.fsum((each - middles[step]) ** 2 for step, values in steps.items() for each in values) / freedom
    return {step: _around(middles[step], math.sqrt(scatter / len(values)), freedom) for step, values in steps.items()}


def saving_of(pairs: Iterable[Pair], durations: Mapping[int, float]) -> IntervalEstimate | None:
    """The weighted saving by pairs of windows; None if nothing was measured."""
    steps: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        steps[pair.step].append(pair)
    whole = math.fsum(durations[step] * fmean(pair.without for pair in those) for step, those in steps.items())
    if not whole > 0:
        return None
    used = math.fsum(durations[step] * fmean(pair.shared for pair in those) for step, those in steps.items())
    ratio = used / whole
    freedom = sum(len(those) - 1 for those in steps.values())
    if not freedom:
        return IntervalEstimate(value=1 - ratio)
    scatter = math.fsum(_scatter(those, ratio) for those in steps.values()) / freedom
    error = math.sqrt(math.fsum(durations[step] ** 2 * scatter / len(those) for step, those in steps.items())) / whole
    return _around(1 - ratio, error, freedom)


def quantile(freedom: int) -> float:
    """Student's t for a two-sided interval, with a relative error of at most 0.002.

    >>> [round(quantile(freedom), 2) for freedom in (1, 2, 3, 5, 10, 30)]
    [12.71, 4.3, 3.18, 2.57, 2.23, 2.04]
    """
    if freedom == 1:
        return math.tan(math.pi * CONFIDENCE / 2)
    if freedom == 2:  # noqa: PLR2004 - this one has a formula too
        return CONFIDENCE * math.sqrt(2 / (1 - CONFIDENCE**2))
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    # The expansion of Cornish and Fisher in 1 / freedom.
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _scatter(pairs: Sequence[Pair], ratio: float) -> float:
    """The sum of squared deviations of a step's pairs from the common ratio."""
    left = [pair.shared - ratio * pair.without for pair in pairs]
    middle = fmean(left)
    return math.fsum((each - middle) ** 2 for each in left)


def _around(value: float, error: float, freedom: int) -> IntervalEstimate:
    width = quantile(freedom) * error
    return IntervalEstimate(value=value, low=value - width, high=value + width)
