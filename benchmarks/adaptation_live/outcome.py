"""What became of a wave: Omega over time, values, and the events that were lost or doubled; pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.adaptation_live.documents import QUALITIES

TARGET = 0.8 - 0.05
"""The share that a policy asks for by default, less its tolerance."""
_WINDOW = 5.0
"""Seconds that a figure of Omega covers."""
_GRACE = 2.0
"""Seconds that an event may take in any case: two paces."""
_SHOWN = 5
"""Of Omega, the figure of every fifth second is shown."""


def outcome(left: Sequence[tuple[float, Mapping[str, Any]]], sent: Sequence[float], begun: float, seconds: int) -> Any:
    """The figures, from when each event left and was sent, the latter by number."""
    at = {event["n"]: when for when, event in left}
    omegas = [_omega(sent, at, begun + second) for second in range(1, seconds + 1)]
    values = [QUALITIES[event["generation"]].value for _, event in left]
    return {
        "below_target_s": sum(omega < TARGET for omega in omegas),
        "omega_mean": round(sum(omegas) / len(omegas), 3),
        "omega": [round(omega, 2) for omega in omegas[_SHOWN - 1 :: _SHOWN]],
        "value_mean": round(sum(values) / len(values), 3),
        "latency_worst_s": round(max(when - sent[number] for number, when in at.items()), 1),
        "events": len(sent),
        "lost": len(sent) - len(at),
        "doubled": len(left) - len(at),
    }


def _omega(sent: Sequence[float], left: Mapping[int, float], now: float) -> float:
    """The share of what was due in the seconds before now that has left: what came, and what had waited before."""
    last = bisect_right(sent, now - _GRACE)
    due = [left.get(number, float("inf")) for number in range(last)]
    waiting = [at for at in due if at > now - _WINDOW]
    return bisect_left(sorted(waiting), now) / len(waiting) if waiting else 1.0
