"""What a client does in several requests: it sends tables, waits for dataflows, and ends streams."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from braid_client import NotRunning
from braid_client.connection import SubmittedDataflow
from tests.braid_client.samples import DETAIL
from tests.braid_client.scripted_service import Service, asynchronously, lines, ok, synchronously

BOTH = pytest.mark.parametrize("ask", [synchronously, asynchronously])
Ask = Callable[[Service, str, tuple[Any, ...]], Any]


def taken(following: int) -> Any:
    return ok({"source": "ann:street", "producer": "~1", "next": following})


def sent(service: Service) -> list[Any]:
    return [[json.loads(line) for line in asked.content.splitlines()] for asked in service.asked]


@BOTH
def test_a_table_is_sent_with_what_is_missing_as_null(ask: Ask) -> None:
    """Of each kind that pandas has; and values of numpy are those of Python."""
    table = pd.DataFrame(
        {
            "t": [1.5, float("nan")],
            "at": pd.to_datetime(["2026-01-01T00:00:00Z", None]),
            "n": pd.array([1, None], dtype="Int64"),
            "s": ["a", None],
            "l": [np.array([1, 2]), [np.int64(3)]],
        }
    )
    service = Service([taken(2)])
    assert 2 == ask(service, "send", ("street", table))
    assert [
        [
            {"t": 1.5, "at": "2026-01-01T00:00:00Z", "n": 1, "s": "a", "l": [1, 2]},
            {"t": None, "at": None, "n": None, "s": None, "l": [3]},
        ]
    ] == sent(service)


@BOTH
def test_many_events_are_sent_in_parts_that_are_numbered_on(ask: Ask) -> None:
    """Under one name, so that each counts once; and they are taken as they come."""
    made: list[int] = []

    def events() -> Iterator[dict[str, Any]]:
        for number in range(7_000):
            made.append(number)
            yield {"n": number}

    service = Service([taken(5_000), taken(7_000)])
    assert 7_000 == ask(service, "send", ("street", events()))
    assert list(range(7_000)) == [event["n"] for part in sent(service) for event in part] == made
    first, second = (asked.url.params for asked in service.asked)
    assert ("0", "5000") == (first["first"], second["first"])
    assert first["producer"] == second["producer"]


def test_large_events_are_sent_in_parts_that_the_service_takes() -> None:
    """By their bytes as well, and one that is longer than a part without those before it."""
    service = Service([taken(1), taken(2), taken(4)])
    with service.client() as client:
        client.send("street", [{"s": "x" * length} for length in (400_000, 900_000, 200_000, 250_000)])
    assert [1, 1, 2] == [len(part) for part in sent(service)]


def test_nothing_is_sent_of_no_events() -> None:
    """The service is not asked."""
    service = Service([taken(0)])
    with service.client() as client:
        assert 0 == client.send("street", [])
    assert not service.asked


def test_what_has_no_form_in_json_is_named() -> None:
    """Before anything is sent."""
    service = Service([taken(1)])
    with service.client() as client, pytest.raises(Exception, match="has no form in JSON"):
        client.send("street", [{"s": object()}])
    assert not service.asked


def detail(state: str, reason: str = "") -> Any:
    return ok(DETAIL | {"state": state, "reason": reason})


@BOTH
def test_a_dataflow_is_waited_for_until_it_runs(ask: Ask) -> None:
    """With longer and longer pauses, and also while something is wrong with it."""
    service = Service(
        [detail("deploying"), detail("degraded", "its job is down"), detail("deploying"), detail("running")]
    )
    assert "running" == waited(ask, service, 60.0).state
    assert [0.2, 0.4, 0.8] == service.waited


@BOTH
def test_a_dataflow_that_does_not_run_in_time_says_why(ask: Ask) -> None:
    """And one that never will says so at once."""
    with pytest.raises(NotRunning, match=r"is deploying after 0 seconds: job 1 is new"):
        waited(ask, Service([detail("deploying", "job 1 is new")]), 0.0)
    for state in ("draining", "removed"):
        service = Service([detail(state)])
        with pytest.raises(NotRunning, match=f"is {state}; submit it again"):
            waited(ask, service, 60.0)
        assert 1 == len(service.asked)


def waited(ask: Ask, service: Service, timeout: float) -> SubmittedDataflow:
    """Wait for a dataflow with either client."""
    if ask is synchronously:
        with service.client() as client:
            return client.dataflow("d1").wait(timeout)

    async def wait() -> Any:
        async with service.async_client() as client:
            return await (await client.dataflow("d1")).wait(timeout)

    answer: SubmittedDataflow = asyncio.run(wait())
    return answer


OUTPUT = [json.dumps({"sink": "out", "epoch": 1, "number": number, "event": {"n": number}}) for number in range(3)]


def test_a_tail_ends_with_its_block() -> None:
    """Nothing more can be read of it, and the service is not asked again."""
    service = Service([lines(*OUTPUT)])
    with service.client() as client:
        with client.tail("d1") as events:
            assert [{"n": 0}, {"n": 1}] == events.to_pandas(2).to_dict("records")
        assert [] == list(events)
    assert 1 == len(service.asked)


def test_an_async_tail_ends_with_its_block() -> None:
    """Likewise."""
    service = Service([lines(*OUTPUT)])

    async def read() -> list[Any]:
        async with service.async_client() as client:
            async with client.tail("d1") as events:
                assert {"n": 0} == (await anext(events)).event
            return [event async for event in events]

    assert [] == asyncio.run(read())
    assert 1 == len(service.asked)
