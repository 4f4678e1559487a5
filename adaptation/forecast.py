"""The forecast of a rate from its history: by the method that would have been best on that history so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

SHORTEST_HISTORY = 8
"""With less, the newest rate is the forecast."""
_MOST_TRIALS = 20
"""The most forecasts that a back-test compares."""
_MOST_GROWTH = 2.0
"""No forecast is more than so many times the highest rate that was seen."""
_SMOOTHINGS = ((0.3, 0.1), (0.6, 0.3), (0.9, 0.5))
"""The shares of a new value in the level, and of a new difference in the trend."""
_DAMPING = 0.9

Method = Callable[[Sequence[float], int], Sequence[float]]
"""The next few values, given those so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The rates that are expected; made by `forecast`."""

    rates: tuple[float, ...]
    """One for each step ahead."""
    method: str
    error: float
    """The mean error of the method on the history."""

    @property
    def highest(self) -> float:
        """The rate for which there must be room."""
        return max(self.rates)


def forecast(history: Sequence[float], ahead: int) -> Forecast:
    """The rates of the next few steps.

    >>> forecast([10.0, 20, 30, 40, 50, 60, 70, 80, 90, 100], 2).method
    'trend 0.9'
    """
    newest = history[-1] if history else 0.0
    if len(history) < SHORTEST_HISTORY:
        return Forecast(rates=(newest,) * ahead, method="newest", error=0.0)
    errors = {name: _back_test(method, history, ahead) for name, method in _METHODS.items()}
    # The simplest of equally good ones, which stands first.
    name = min(errors, key=errors.__getitem__)
    most = _MOST_GROWTH * max(history)
    rates = tuple(min(most, max(0.0, rate)) for rate in _METHODS[name](history, ahead))
    return Forecast(rates=rates, method=name, error=errors[name])


def _trend(level_share: float, trend_share: float, history: Sequence[float], ahead: int) -> Sequence[float]:
    """The next values by Holt's linear trend, damped so that it ends."""
    level, trend = history[0], 0.0
    for value in history[1:]:
        before = level
        level = level_share * value + (1 - level_share) * (level + _DAMPING * trend)
        trend = trend_share * (level - before) + (1 - trend_share) * _DAMPING * trend
    rates, growth = [], 0.0
    for step in range(1, ahead + 1):
        growth += _DAMPING**step
        rates.append(level + growth * trend)
    return rates


_METHODS: Mapping[str, Method] = {
    "newest": lambda history, ahead: [history[-1]] * ahead,
    **{f"trend {level:g}": partial(_trend, level, trend) for level, trend in _SMOOTHINGS},
}


def _back_test(method: Method, history: Sequence[float], ahead: int) -> float:
    """The mean error of a method had it been asked at moments of the second half of the history."""
    first, last = len(history) // 2, len(history) - 1
    stride = max(1, (last - first) // _MOST_TRIALS)
    errors: list[float] = []
    for end in range(first, last, stride):
        actual = history[end : end + ahead]
        errors += [abs(one - other) for one, other in zip(method(history[:end], ahead), actual, strict=False)]
    return sum(errors) / len(errors)
