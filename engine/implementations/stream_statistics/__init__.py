"""Statistics over the events of a stream, per key.

`averages` contains folds over values, `counts` counts and their estimates, and `lines` the regression. The entry points
name the behaviours here.
"""

from engine.implementations.stream_statistics.averages import (
    accumulate,
    block_window_average,
    interpolate,
    kalman_filter,
)
from engine.implementations.stream_statistics.counts import count, distinct_approx_count, second_order_moment
from engine.implementations.stream_statistics.lines import sliding_linear_regression

__all__ = [
    "accumulate",
    "block_window_average",
    "count",
    "distinct_approx_count",
    "interpolate",
    "kalman_filter",
    "second_order_moment",
    "sliding_linear_regression",
]
