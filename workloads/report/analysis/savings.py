"""The arithmetic of savings: what less was used with sharing than without, and how sure that is. Pure.

A saving is cumulative: what was used with sharing, added up over the steps, against what was used without. Each step
weighs what it lasts where the trace has times, and else the same.

Its interval comes from windows in pairs, measured at the same step with and without sharing. What a pair departs from
the saving that was found says how far windows scatter; that scatter, pooled over all steps, and Student's t give the
interval. So it tells how far measuring again would lead elsewhere, and not what other traces would give.
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
    """A number with its interval; without one where nothing was repeated."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One window of a step, measured both ways."""

    step: int
    without: float
    """What was used without sharing."""
    shared: float
    """What was used with it."""


def weights(trace: Mapping[str, Any]) -> tuple[float, ...]:
    """How long each step of a trace lasts, as its manifest tells it; 1 each where it has no times.

    >>> weights({"steps": [{"at": 0.0}, {"at": 2.0}, {"at": 5.0}]})
    (2.0, 3.0, 0.0)
    >>> weights({"steps": [{}, {}]})
    (1.0, 1.0)
    """
    times = [step.get("at") for step in trace["steps"]]
    if None in times:
        return (1.0,) * len(times)
    lasting = [after - before for before, after in pairwise(times)]
    # After the last step nothing is left to look at; where nothing else lasts either, all weigh the same.
    return (*lasting, 0.0) if sum(lasting) else (1.0,) * len(times)


def saved(without: Sequence[float], shared: Sequence[float], lasting: Sequence[float]) -> float | None:
    """The part of what was used without sharing that is saved; None where nothing was used.

    >>> saved([2, 4], [2, 1], [1, 1])
    0.5
    """
    whole = math.fsum(weight * each for weight, each in zip(lasting, without, strict=True))
    used = math.fsum(weight * each for weight, each in zip(lasting, shared, strict=True))
    return 1 - used / whole if whole else None


def saved_at_peak(without: Sequence[float], shared: Sequence[float]) -> float | None:
    """The same at the first step at which most is used without sharing."""
    if not without or not max(without):
        return None
    peak = without.index(max(without))
    return 1 - shared[peak] / without[peak]


def means(steps: Mapping[int, Sequence[float]]) -> dict[int, IntervalEstimate]:
    """The mean of each step's windows; their scatter is pooled over all steps, as few windows say little of it."""
    middles = {step: fmean(values) for step, values in steps.items()}
    freedom = sum(len(values) - 1 for values in steps.values())
    if not freedom:
        return {step: IntervalEstimate(value=middle) for step, middle in middles.items()}
    scatter = math.fsum((each - middles[step]) ** 2 for step, values in steps.items() for each in values) / freedom
    return {step: _around(middles[step], math.sqrt(scatter / len(values)), freedom) for step, values in steps.items()}


def saving_of(pairs: Iterable[Pair], lasting: Mapping[int, float]) -> IntervalEstimate | None:
    """What is saved by pairs of windows, each step weighed by what it lasts; None where nothing was measured."""
    steps: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        steps[pair.step].append(pair)
    whole = math.fsum(lasting[step] * fmean(pair.without for pair in those) for step, those in steps.items())
    if not whole > 0:
        return None
    used = math.fsum(lasting[step] * fmean(pair.shared for pair in those) for step, those in steps.items())
    ratio = used / whole
    freedom = sum(len(those) - 1 for those in steps.values())
    if not freedom:
        return IntervalEstimate(value=1 - ratio)
    scatter = math.fsum(_scatter(those, ratio) for those in steps.values()) / freedom
    error = math.sqrt(math.fsum(lasting[step] ** 2 * scatter / len(those) for step, those in steps.items())) / whole
    return _around(1 - ratio, error, freedom)


def quantile(freedom: int) -> float:
    """Student's t for a two-sided interval: right to two parts in a thousand.

    >>> [round(quantile(freedom), 2) for freedom in (1, 2, 3, 5, 10, 30)]
    [12.71, 4.3, 3.18, 2.57, 2.23, 2.04]
    """
    if freedom == 1:
        return math.tan(math.pi * CONFIDENCE / 2)
    if freedom == 2:  # noqa: PLR2004 - the other one with a formula
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
    """How far the pairs of a step depart from each other, once what was found in all is taken off."""
    left = [pair.shared - ratio * pair.without for pair in pairs]
    middle = fmean(left)
    return math.fsum((each - middle) ** 2 for each in left)


def _around(value: float, error: float, freedom: int) -> IntervalEstimate:
    width = quantile(freedom) * error
    return IntervalEstimate(value=value, low=value - width, high=value + width)
