"""Statistics over the events of a stream, for each key.

`averages` has the folds over values, `counts` what counts events or estimates counts, and `lines` the regression.
What is named here is what the entry points name.
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
