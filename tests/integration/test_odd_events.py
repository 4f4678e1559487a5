"""Odd raw events through a host with real Spark: they harm neither the host nor other dataflows on it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridge import topics
from bridge.messages import MOST_RAW_EVENTS, MOST_UNFIT_REPORTED
from bridge.raw_events import DEEPEST
from dags import Kind
from tests.integration.hosting import Hosting, delivery, job, raw, slot

pytestmark = pytest.mark.spark
FIELDS = {"at": Kind.TIMESTAMP, "n": Kind.INTEGER, "declared": Kind.JSON}


def nested(levels: int, *, lists: bool) -> str:
    """JSON with the given number of levels."""
    return "[" * levels + "]" * levels if lists else '{"a":' * levels + "1" + "}" * levels


def odd() -> Iterator[tuple[str, bool]]:
    """Messages of one event each, and whether it can be read."""
    for levels in (1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 500, *range(975, 1_001), 100_000):
        for field, around in {"declared": 0, "undeclared": 1}.items():
            for lists in (True, False):
                yield f'{{"n":1,"{field}":{nested(levels, lists=lists)}}}', levels + around <= DEEPEST
        yield nested(levels, lists=False), levels <= DEEPEST
    for at, fits in {
        "0001-01-01T00:00:00": True,
        "0001-01-01T00:00:00+23:59": False,
        "9999-12-31T23:59:59.999": True,
        "9999-12-31T23:59:59-00:01": False,
        -62_135_596_800_000: True,
        -62_135_596_800_001: False,
        253_402_300_800_000: False,
        2**63: False,
    }.items():
        yield json.dumps({"n": 1, "at": at}), fits


@pytest.mark.full
def test_a_flood_of_unreadable_events_ends_no_host(hosting: Hosting) -> None:
    """They are few unread messages, and readable events beside and behind them go on."""
    source, sink, many = hosting.fresh(), hosting.fresh(), MOST_RAW_EVENTS - 1
    topic = f"flood-{source}"
    hosting.run(job(f"j{source}", slot(sink, "output", source), reads=(raw(topic, source, FIELDS),)))
    before = hosting.keeper.pid
    hosting.client.publish(topic, b"[" + b"1," * many + b'{"n":2}]')
    hosting.client.publish(topic, b"[" + b"1," * (many + 1) + b'{"n":3}]')
    hosting.publish(topic, [{"n": 4}])
    assert [2, 4] == [event["n"] for event in hosting.until_delivered(delivery(sink), 2)]
    # The first of one message, the others of it together, and the message that has too many.
    few = MOST_UNFIT_REPORTED + 2
    hosting.until(lambda: len(hosting.heard(topics.unread(topic))) >= few, "what could not be read")
    assert few == len(hosting.heard(topics.unread(topic)))
    assert before == hosting.keeper.pid


def test_no_raw_event_ends_its_host(hosting: Hosting) -> None:
    """Each is delivered or published as unread by the same process, and events after them are delivered."""
    source, sink = hosting.fresh(), hosting.fresh()
    topic = f"odd-{source}"
    hosting.run(job(f"j{source}", slot(sink, "output", source), reads=(raw(topic, source, FIELDS),)))
    before, messages = hosting.keeper.pid, list(odd())
    for text, _ in messages:
        hosting.client.publish(topic, text.encode())
    hosting.publish(topic, [{"n": 2}])
    fits = sum(fitting for _, fitting in messages)
    found: list[Any] = hosting.until_delivered(delivery(sink), fits + 1)
    assert 2 == found[-1]["n"]
    unread = topics.unread(topic)
    hosting.until(lambda: len(hosting.heard(unread)) >= len(messages) - fits, "what could not be read")
    assert len(messages) - fits == len(hosting.heard(unread))
    assert (before, 0) == (hosting.keeper.pid, hosting.host_status()["dropped"])
