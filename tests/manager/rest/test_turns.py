"""Turns of documents: over REST with the real service, on a task type whose documents take as long as the test says."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import httpx
import pytest

from dags import Catalogue, Config, TaskType
from manager.answers.tenants import KeyForm
from manager.kernel.live_events import LiveEvents
from manager.problem import TooManyRequests
from manager.rest.app import make_app
from manager.rest.dependencies import MOST_WAITING_DOCUMENTS, DocumentTurns
from tests.catalogue import TYPES
from tests.manager.managers import OPERATOR, Manager, raw
from tests.manager.rest.real_service import in_folder
from tests.manager.rest.socket_server import Switch

PATIENCE = 20.0


class LongConfig(Config):
    """Which of the documents it is."""

    number: int


class Reading:
    """What becomes of documents with a task of the type `long`: which were begun, and which may end."""

    def __init__(self) -> None:
        self.begun: SimpleQueue[int] = SimpleQueue()
        self.ends: SimpleQueue[None] = SimpleQueue()

    def read(self, config: LongConfig) -> tuple[()]:
        """The fields that the task reads: none, once the test says so."""
        self.begun.put(config.number)
        self.ends.get(timeout=PATIENCE)
        return ()


@pytest.fixture
def reading() -> Reading:
    return Reading()


@pytest.fixture
def manager(tmp_path: Path, reading: Reading) -> Iterator[Manager]:
    long = TaskType(name="long", config=LongConfig, reads=reading.read)
    made = Manager(in_folder(tmp_path), catalogue=Catalogue.of((*TYPES, long))).lead()
    made.admit("ann", "eve")
    made.register("weather")
    yield made
    made.close()


def test_many_large_documents_of_a_tenant_take_nobody_elses_turn(
    manager: Manager, reading: Reading, served: tuple[Switch, str]
) -> None:
    """One of them is worked on at a time, and others' are answered meanwhile."""
    switch, url = served
    switch.app = make_app(manager.service, LiveEvents(last=0), lambda: None)
    keys = {
        name: manager.service.administration.make_key(OPERATOR, KeyForm(tenant=name)).key for name in ("ann", "eve")
    }

    def send(tenant: str, path: str, text: str) -> int:
        headers = {"Authorization": f"Bearer {keys[tenant]}", "Content-Type": "application/json"}
        return httpx.post(
            f"{url}/v1/{path}", content=raw(text), headers=headers, timeout=PATIENCE, trust_env=False
        ).status_code

    with ThreadPoolExecutor(6) as clients:
        asked = [
            clients.submit(send, "eve", "explain", f"s:source > a:long{{'number': {number}}} > k:sink")
            for number in range(6)
        ]
        for _ in range(6):
            reading.begun.get(timeout=PATIENCE)
            # The others of hers would have begun by the time that somebody else's is answered.
            assert 201 == send("ann", "dataflows", "s:source > a:map > k:sink")
            assert 0 == reading.begun.qsize()
            reading.ends.put(None)
        assert [200] * 6 == [each.result(PATIENCE) for each in asked]


def test_documents_of_a_tenant_have_their_turns_as_they_came() -> None:
    """And another tenant's has its own at once."""
    order: list[str] = []

    async def work(turns: DocumentTurns, owner: str, name: str) -> None:
        async with turns.turn(owner):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    async def all_at_once() -> None:
        turns = DocumentTurns()
        await asyncio.gather(work(turns, "eve", "1"), work(turns, "eve", "2"), work(turns, "ann", "a"))

    asyncio.run(all_at_once())
    assert ["1 begins", "a begins", "1 ends", "a ends", "2 begins", "2 ends"] == order


def test_only_so_many_documents_of_a_tenant_wait() -> None:
    """One more is refused until one has had its turn; another tenant's is not."""

    async def crowd() -> None:
        turns = DocumentTurns()
        ends = asyncio.Event()

        async def work() -> None:
            async with turns.turn("eve"):
                await ends.wait()

        waiting = [asyncio.create_task(work()) for _ in range(1 + MOST_WAITING_DOCUMENTS)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match="32 documents of 'eve' wait already; send the next once"):
            await work()
        async with turns.turn("ann"):
            ends.set()
        await asyncio.gather(*waiting)
        await work()

    asyncio.run(crowd())
