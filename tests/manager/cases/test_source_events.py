"""Events that callers send to sources: who may, what is refused and why, and for whom they wait."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from engine.job.lifecycle import JobState
from manager.answers.sources import SourceForm
from manager.observations.reports import JobSeen
from manager.problem import Conflict, Forbidden, InvalidRequest, NotFound, StateNotReady
from manager.sources.events import EventSender
from manager.use_case import Caller
from tests.manager.managers import OPERATOR, Manager, caller
from tests.manager.memory_outputs import Spools, connecting
from tests.twins.memory_broker import MemoryBroker

ANN, BOB, EVE = caller("ann"), caller("bob"), caller("eve")
BODY = b'{"value": 1}\n{"value": 2}\n'
SHORT = "s:source > k:sink"


class Bench:
    """A manager whose sources of ann's have spools; bob reads `weather`, and nobody reads `diary`."""

    def __init__(self, url: str) -> None:
        self.manager = Manager(url).lead()
        self.manager.admit("ann", "bob", "eve")
        self.manager.register("weather", "diary")
        with self.manager.committer.looking() as state:
            self.streams = {name: each.supplied.stream for name, each in state.sources.items()}
        broker = MemoryBroker()
        self.spools = Spools(broker, *self.streams.values())
        self.sender = EventSender(connecting(broker), patience=0.2)
        self.manager.equip(sender=self.sender, deploying_seconds=0.0)
        self.sender.start()
        self.manager.submit("bob", SHORT)

    def send(
        self, who: Caller, name: str, body: bytes = BODY, producer: str | None = None, first: int | None = None
    ) -> int:
        return self.manager.service.source_events.send(
            who, name, body, as_lines=True, producer=producer, first=first
        ).next

    def values(self, name: str = "ann:weather") -> list[int]:
        """What lies in a source's spool."""
        return [each["value"] for each in self.spools.events(self.streams[name])]


@pytest.fixture
def bench(sqlite: str) -> Iterator[Bench]:
    made = Bench(sqlite)
    yield made
    made.sender.stop()
    made.manager.close()


def test_its_owner_and_operators_send(bench: Bench) -> None:
    """Without a producer's name whatever is sent is new; with one the numbers say what is."""
    assert [2, 2] == [bench.send(ANN, "weather"), bench.send(OPERATOR, "ann:weather")]
    assert [1, 2, 1, 2] == bench.values()
    assert [2, 2, 4] == [bench.send(ANN, "weather", producer="day", first=first) for first in (0, 0, 2)]
    assert 4 == bench.manager.service.source_events.producer(OPERATOR, "ann:weather", "day").next
    assert 8 == len(bench.values())


def test_others_are_refused(bench: Bench) -> None:
    """Who may read a source gets the answer that it is another's; to everybody else it does not exist."""
    with pytest.raises(Forbidden):
        bench.send(BOB, "ann:weather")
    for who, name in ((EVE, "ann:diary"), (EVE, "weather"), (OPERATOR, "ann:none")):
        with pytest.raises(NotFound):
            bench.send(who, name)
    with pytest.raises(NotFound):
        bench.manager.service.source_events.producer(EVE, "ann:diary", "day")


def test_what_nobody_would_get_is_refused(bench: Bench) -> None:
    """Nothing is dropped in silence: no dataflow reads it, or it makes its events itself."""
    with pytest.raises(Conflict, match=r"no dataflow reads 'ann:diary'.*submit"):
        bench.send(ANN, "diary")
    ticks = SourceForm.model_validate({"name": "ticks", "connection": {"kind": "timer", "seconds": 1.0}})
    bench.manager.service.sources.register(ANN, ticks)
    with pytest.raises(Conflict, match=r"generated \(timer\)"):
        bench.send(ANN, "ticks")
    assert [] == bench.values()


def test_nothing_of_a_request_is_taken_where_one_event_does_not_fit(bench: Bench) -> None:
    """The caller learns which, and sends all of it again."""
    with pytest.raises(InvalidRequest, match="line 3"):
        bench.send(ANN, "weather", BODY + b'{"value": "much"}')
    assert [] == bench.values()


def test_a_gap_is_refused_with_the_number_that_comes_next(bench: Bench) -> None:
    """So that no event goes missing unseen."""
    bench.send(ANN, "weather", producer="day", first=0)
    with pytest.raises(Conflict, match="number 2 comes next, and these begin at 5"):
        bench.send(ANN, "weather", producer="day", first=5)
    assert [1, 2] == bench.values()


@pytest.mark.parametrize(("producer", "first", "missing"), [("day", None, "first"), (None, 0, "producer")])
def test_half_of_a_number_is_none(bench: Bench, producer: str | None, first: int | None, missing: str) -> None:
    """A producer without a number would count from 0 each time, and lose what it sends."""
    with pytest.raises(InvalidRequest) as caught:
        bench.send(ANN, "weather", producer=producer, first=first)
    assert [f"/query/{missing}"] == [each.pointer for each in caught.value.errors]


def test_events_wait_for_dataflows_that_were_submitted_before(bench: Bench) -> None:
    """What is sent after a submission is that dataflow's too; one that never runs holds nobody up for ever."""
    bench.manager.equip(deploying_seconds=60.0)
    sends = threading.Thread(target=bench.send, args=(ANN, "weather"))
    sends.start()
    with bench.manager.committer.looking() as state:
        plans = list(state.plans.values())
    assert sends.is_alive()
    assert [] == bench.values()
    for plan in plans:
        bench.manager.seen.jobs[plan.job] = JobSeen(
            job=plan.job,
            host=plan.host,
            state=JobState.RUNNING,
            version=plan.version,
            in_effect=plan.version,
            seen=datetime.now(UTC),
        )
    sends.join(60.0)
    assert [1, 2] == bench.values()
    bench.manager.equip(deploying_seconds=0.0)
    bench.manager.submit("ann", SHORT)
    bench.manager.seen.jobs.clear()
    assert 2 == bench.send(ANN, "weather")


def test_a_manager_that_does_not_lead_takes_nothing(bench: Bench) -> None:
    """Another one is asked."""
    bench.manager.committer.step_down()
    with pytest.raises(StateNotReady):
        bench.send(ANN, "weather")
