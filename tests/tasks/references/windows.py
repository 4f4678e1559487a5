"""Windows straight from their definition: events are kept until they are summed up."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.trial import At, Event
from tests.tasks.references.statistics import added, key_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tumbling_window(events: Iterator[Event], by: list[str], size: timedelta, lateness: timedelta) -> Iterator[At]:
    open_: dict[datetime, dict[Any, list[Event]]] = {}
    watermark: datetime | None = None
    for event in events:
        watermark = max(watermark or event["at"], event["at"])
        start = EPOCH + (event["at"] - EPOCH) // size * size
        if start + size + lateness <= watermark:
            yield "late", event
            continue
        open_.setdefault(start, {}).setdefault(key_of(event, by), []).append(event)
        for due in sorted(open_):
            if due + size + lateness <= watermark:
                for key, members in open_.pop(due).items():
                    values = [each["v"] for each in members if each["v"] is not None]
                    yield (
                        "out",
                        {
                            **dict(zip(by, key, strict=True)),
                            "window_start": due,
                            "window_end": due + size,
                            "count": len(values),
                            "sum": added(values),
                            "mean": added(values) / len(values) if values else None,
                            "min": min(values, default=None),
                            "max": max(values, default=None),
                        },
                    )
