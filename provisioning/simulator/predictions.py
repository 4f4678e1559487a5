"""Predictions with errors that grow over the horizon, and with a bias, as in the thesis.

The error of the interval i of n is drawn from a normal distribution around 0, whose deviation is half of e_i; that
grows from 0 to twice the mean error. Predictions are clamped, as no rate is negative and no machine stands still.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

LEAST_PREDICTED = 0.05
"""The least part of the truth that is predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What predicts the intervals to come, more or less well."""

    horizon: int = 6
    """How many intervals."""
    error: float = 0.0
    """The mean error, as a part of the truth."""
    bias: float = 0.0
    """What is added to each predicted rate, as a part of the truth; added to speeds as well, it would cancel out."""
    seed: int = 0

    def predicted_speeds(self, number: int, truth: Sequence[float], step: int) -> tuple[float, ...]:
        """What is predicted of a machine."""
        return replace(self, bias=0.0).predicted(f"machine {number}", truth, step)

    def predicted(self, name: str, truth: Sequence[float], step: int) -> tuple[float, ...]:
        """What is predicted at an interval for it and those after it; what is beyond the end stays as it was."""
        coming = [truth[min(at, len(truth) - 1)] for at in range(step, step + self.horizon)]
        if not self.error and not self.bias:
            return tuple(coming)
        draws = random.Random(f"{self.seed} {name} {step}")  # noqa: S311  keeps no secret
        last = max(1, self.horizon - 1)
        return tuple(
            figure * max(LEAST_PREDICTED, 1.0 + self.bias + draws.gauss(0.0, 1.0) * self.error * at / last)
            for at, figure in enumerate(coming)
        )
