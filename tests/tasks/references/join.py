"""Joins straight from their definition: all that waits is looked through at every event."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from engine.trial import At, Event
from tests.tasks.references.statistics import key_of


@dataclass
class Waiting:
    expires: datetime
    events: list[Event]


def join_by_id(  # noqa: PLR0913, PLR0917 - the config
    events: Iterator[Event], by: list[str], expected: int, observed: list[str], expiry: timedelta, most: int
) -> Iterator[At]:
    waiting: dict[Any, Waiting] = {}
    latest: datetime | None = None
    for event in events:
        latest = max(latest or event["time"], event["time"])
        for key in [key for key, each in waiting.items() if each.expires <= latest]:
            yield "expired", merged(waiting.pop(key).events, observed)
        key = key_of(event, by)
        if key not in waiting:
            if len(waiting) == most:
                yield "expired", merged(waiting.pop(next(iter(waiting))).events, observed)
            waiting[key] = Waiting(latest + expiry, [])
        waiting[key].events.append(event)
        if len(waiting[key].events) == expected:
            yield "out", merged(waiting.pop(key).events, observed)


def self_join(  # noqa: PLR0913, PLR0917 - the config
    events: Iterator[Event], by: list[str], expected: int, observed: list[str], expiry: timedelta, most: int
) -> Iterator[At]:
    known: dict[Any, Waiting] = {}
    forgotten: list[datetime] = []
    latest: datetime | None = None
    for event in events:
        latest = max(latest or event["time"], event["time"])
        outdated = [key for key, waiting in known.items() if waiting.expires <= latest]
        forgotten += [known.pop(key).events[0]["time"] for key in outdated]
        key = key_of(event, [*by, "time"])
        if key not in known:
            if any(event["time"] <= time for time in forgotten):
                continue
            if len(known) == most:
                forgotten.append(known.pop(next(iter(known))).events[0]["time"])
            known[key] = Waiting(latest + expiry, [])
        known[key].events.append(event)
        if len(known[key].events) == expected:
            yield "out", merged(known[key].events, observed)


def merged(events: list[Event], observed: list[str]) -> Event:
    copies = [dict(each) for each in events]
    if observed:
        for each in copies:
            each[each.pop("field")] = each.pop("value")
    found: dict[str, Any] = {}
    for each in copies:
        for field, value in each.items():
            if found.get(field) is None:
                found[field] = value
    return found
