"""The oracle: a plan's tasks in plain Python, event by event, to compare a job with that is killed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Event = Mapping[str, Any]
State = Mapping[tuple[Any, ...], Any]

LEAST, MOST = 10.0, 90.0
WINDOW = 7


class OracleResult(NamedTuple):
    """The events that a task emitted, and its state after them."""

    events: list[dict[str, Any]]
    state: dict[tuple[Any, ...], Any]


def filtered(events: Iterable[Event]) -> list[Event]:
    """The events with a `v` in range."""
    return [event for event in events if LEAST <= event["v"] <= MOST]


def counted(events: Iterable[Event]) -> OracleResult:
    """For every event the number of events with its `k` so far."""
    emitted: list[dict[str, Any]] = []
    state: dict[tuple[Any, ...], Any] = {}
    for event in events:
        state[event["k"],] = state.get((event["k"],), 0) + 1
        emitted.append({"k": event["k"], "count": state[event["k"],]})
    return OracleResult(emitted, state)


def averaged(events: Iterable[Event], field: str) -> OracleResult:
    """The mean of a field in blocks for each `k`, at the event that completes one."""
    emitted: list[dict[str, Any]] = []
    state: dict[tuple[Any, ...], Any] = {}
    for event in events:
        size, total = state.pop((event["k"],), [0, 0.0])
        size, total = size + 1, total + event[field]
        if size == WINDOW:
            emitted.append({"k": event["k"], field: total / size})
        else:
            state[event["k"],] = [size, total]
    return OracleResult(emitted, state)


def first_difference(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """The first difference of two sequences in a few words, because whole they would fill a screen; else empty."""
    for at, (one, other) in enumerate(zip(expected, actual, strict=False)):
        if one != other:
            return f"at {at} of {len(expected)} stands {other} instead of {one}, then {actual[at + 1 : at + 4]}"
    if len(expected) != len(actual):
        return f"there are {len(actual)} instead of {len(expected)}"
    return ""


def first_difference_by_key(expected: Sequence[Event], actual: Sequence[Event]) -> str:
    """The first difference among the events of each `k`, in a few words; else empty."""
    keys = sorted({event["k"] for event in (*expected, *actual)})
    found = (
        (key, first_difference([e for e in expected if e["k"] == key], [e for e in actual if e["k"] == key]))
        for key in keys
    )
    return next((f"{key}: {why}" for key, why in found if why), "")
