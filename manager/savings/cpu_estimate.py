"""Estimates of CPU, with a range."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuEstimate:
    """The nanoseconds that separate execution would have taken, with a lower and an upper bound."""

    low: int = 0
    likely: int = 0
    high: int = 0

    def plus(self, more: "CpuEstimate") -> "CpuEstimate":
        """Add two estimates. They depend on the same prices, so their errors have the same sign and bounds add up."""
        return CpuEstimate(low=self.low + more.low, likely=self.likely + more.likely, high=self.high + more.high)

    def less(self, nanoseconds: int) -> "CpuEstimate":
        """Subtract what was measured."""
        return CpuEstimate(low=self.low - nanoseconds, likely=self.likely - nanoseconds, high=self.high - nanoseconds)


def estimate_of(likely: int, bounds: Sequence[int]) -> CpuEstimate:
    """Return an estimate whose range contains the likely value and all bounds."""
    return CpuEstimate(low=min(likely, *bounds), likely=likely, high=max(likely, *bounds))
