"""How machines perform over time, as parts of their rated speed.

These traces are synthetic. They are made like what was published of EC2: neighbours come and go, which moves a machine
between a few levels for an hour or so, and around each level it walks at random. Machines differ from each other.
"""

import random
from functools import lru_cache

_LEVELS = (1.0, 0.92, 0.85, 0.72, 0.6)
_WEIGHTS = (3, 4, 4, 3, 1)
_SWITCH = 0.06
"""The chance of another level at each interval."""
_STRIDE = 0.02
_SPREAD = 0.08
SLOWEST, FASTEST = 0.4, 1.05


@lru_cache(maxsize=20_000)
def performance(seed: int, number: int, steps: int) -> tuple[float, ...]:
    """The performance of a machine at each interval, by its number."""
    draws = random.Random(f"machine {seed} {number}")  # noqa: S311  keeps no secret
    level = draws.choices(_LEVELS, _WEIGHTS)[0]
    offset = 0.0
    found = []
    for _ in range(steps):
        if draws.random() < _SWITCH:
            level = draws.choices(_LEVELS, _WEIGHTS)[0]
        offset = max(-_SPREAD, min(_SPREAD, offset + draws.uniform(-_STRIDE, _STRIDE)))
        found.append(max(SLOWEST, min(FASTEST, level + offset)))
    return tuple(found)
