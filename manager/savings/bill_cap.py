"""The cap of a bill: no dataflow pays more than it would take alone.

The cap is the likely stand-alone estimate. It applies when a minute is settled, and a bill adds up settled shares. The
operator bears what the cap takes off, as overhead.
"""

import math

from manager.savings.money import rate


def capped(share: int, alone: int) -> int:
    """Return the nanoseconds that a dataflow pays for."""
    return min(share, alone)


def cap_amount(alone: int, price: float) -> int:
    """Return the most that a dataflow pays, in millionths of a currency, rounded up."""
    return math.ceil(alone * rate(price))
