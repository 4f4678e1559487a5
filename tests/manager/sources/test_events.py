"""Events that callers send: who may, what is refused and why, and that answered events are spooled once."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from braid_client.answers.sources import SourceForm
from bridge import topics
from bridge.intake import MOST_REMEMBERED
from bridge.raw_events import REST_COLUMN
from dags import Kind, Schema
from dags.message_formats import CsvMessages
from engine.job.lifecycle import JobState
from manager.observations.reports import JobSeen
from manager.problem import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotTaken,
    QuotaExceeded,
    StateNotReady,
    TooLarge,
    UnsupportedMediaType,
)
from manager.sources import events as sent_events
from manager.sources.events import (
    _MOST_AT_ONCE,
    MOST_REQUEST_EVENTS,
    MOST_REQUEST_PROBLEMS,
    MOST_REQUESTS_OF_ONE,
    EventSender,
    Gap,
    events_in,
    events_of,
)
from manager.use_case import Caller
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager
from tests.manager.memory_outputs import Spools, connecting
from tests.twins.memory_broker import MemoryBroker

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
            who, name, body, media_type="application/x-ndjson", producer=producer, first=first
        ).next

    def values(self, name: str = "ann:weather") -> list[int]:
        """What a source's spool holds."""
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
    with pytest.raises(Conflict, match=r"by themselves \(timer\)"):
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


SCHEMA = Schema.of(n=Kind.INTEGER, at=Kind.TIMESTAMP, k=Kind.STRING)


def refused(body: bytes, *, as_lines: bool = True) -> list[tuple[str, str, str]]:
    """Return the pointer, the code and the message of each problem."""
    with pytest.raises(InvalidRequest) as caught:
        events_in(body, SCHEMA, as_lines=as_lines)
    assert all(each.remedy for each in caught.value.errors)
    return [(each.pointer, each.code, each.message) for each in caught.value.errors]


def test_lines_and_arrays_give_the_same_events() -> None:
    """Blank lines are skipped, undeclared fields are kept together, and a single object is an array of one."""
    events = [{"n": 1, "k": "a", "unit": "C"}, {"n": 2.0, "at": "2026-01-02T03:04:05Z"}]
    lines = events_in("\r\n\n".join(map(json.dumps, events)).encode(), SCHEMA, as_lines=True)
    assert lines == events_in(json.dumps(events).encode(), SCHEMA, as_lines=False)
    assert ['{"unit":"C"}', None] == lines.column(REST_COLUMN).to_pylist()
    assert 1 == events_in(json.dumps(events[0]).encode(), SCHEMA, as_lines=False).num_rows
    assert 0 == events_in(b"", SCHEMA, as_lines=True).num_rows


def test_every_problem_is_named_by_line_and_field() -> None:
    """Lines count from 1 with blank ones, pointers from 0, and several bad fields of an event are several problems."""
    body = b'{"n": 1}\n\n{"n": "many", "at": "soon"}\n{\n[1]\n{"k": "b"}'
    where = [(pointer, code) for pointer, code, _ in refused(body)]
    assert [("/2/at", "wrong-kind"), ("/2/n", "wrong-kind"), ("/3", "not-json"), ("/4", "unfit-event")] == where
    assert refused(body)[1][2] == "line 3: the field 'n' should be of kind integer"
    assert [("/1/n", "wrong-kind", "event 2: the field 'n' should be of kind integer")] == refused(
        b'[{}, {"n": true}]', as_lines=False
    )
    assert [("", "not-json")] == [each[:2] for each in refused(b"{}\n{}", as_lines=False)]
    deep = b'{"n": 1, "x": ' + b"[" * 200 + b"]" * 200 + b"}"
    assert [("/0", "unfit-event")] == [each[:2] for each in refused(deep)]


def test_problems_and_events_of_a_request_are_limited() -> None:
    """So a wrong file is answered at once, and no request delays others."""
    assert MOST_REQUEST_PROBLEMS == len(refused(b'{"n": "x"}\n' * 100))
    with pytest.raises(TooLarge, match="10000 events"):
        events_in(b"{}\n" * (MOST_REQUEST_EVENTS + 1), SCHEMA, as_lines=True)


STREAM = "source/7"


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def made(broker: MemoryBroker) -> Iterator[EventSender]:
    made = EventSender(connecting(broker), patience=0.3)
    made.start()
    yield made
    made.stop()


def numbers(first: int, end: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, end), pa.int64())})


def send(made: EventSender, first: int, end: int, producer: str = "p") -> int:
    with made.admitted("ann") as until:
        return made.send(STREAM, producer, first, numbers(first, end), until=until)


def test_the_same_numbers_add_nothing_and_a_gap_is_refused(broker: MemoryBroker, made: EventSender) -> None:
    """Each number is in the spool once, however events are repeated and divided."""
    spools = Spools(broker, STREAM)
    assert [5, 5, 8, 3, 9] == [send(made, *each) for each in ((0, 5), (0, 5), (3, 8), (0, 3), (8, 9))]
    with pytest.raises(Gap) as caught:
        send(made, 12, 13)
    assert 9 == caught.value.expected
    with made.admitted("ann") as until:
        assert (9, 0) == (made.next(STREAM, "p", until=until), made.next(STREAM, "q", until=until))
    assert [{"n": number} for number in range(9)] == spools.events(STREAM)
    assert not spools.unread


def test_producers_are_separate_and_the_newest_are_remembered(broker: MemoryBroker, made: EventSender) -> None:
    """Producers for a single use do not displace those with names."""
    Spools(broker, STREAM)
    send(made, 0, 2, "named")
    for number in range(MOST_REMEMBERED + 1):
        send(made, 0, 1, f"~{number}")
    with made.admitted("ann") as until:
        known = [made.next(STREAM, name, until=until) for name in ("named", "~0", "~1")]
    assert [2, 0, 1] == known


def test_lost_messages_are_sent_again(broker: MemoryBroker, made: EventSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost message or a lost answer doubles nothing."""
    monkeypatch.setattr(sent_events, "_REPUBLISH_AFTER", 0.01)
    spools, lost = Spools(broker, STREAM), {topics.sent(STREAM): 2, topics.kept(STREAM): 2}

    def swallows(topic: str, _payload: bytes) -> bool:
        lost[topic] -= 1
        return lost[topic] >= 0

    broker.swallows = swallows
    assert 4 == send(made, 0, 4)
    assert [{"n": number} for number in range(4)] == spools.events(STREAM)


def test_large_events_are_sent_in_several_messages(broker: MemoryBroker, made: EventSender) -> None:
    """Each message is small enough for any broker."""
    spools = Spools(broker, STREAM)
    events = pa.record_batch({"x": [letter * 600_000 for letter in "abc"]})
    with made.admitted("ann") as until:
        assert 3 == made.send(STREAM, "p", 0, events, until=until)
    assert ["a", "b", "c"] == [each["x"][0] for each in spools.events(STREAM)]


def test_events_without_an_answer_are_an_error_in_time(made: EventSender) -> None:
    """The error says after how long to try again."""
    with pytest.raises(NotTaken) as caught:
        send(made, 0, 1)
    assert caught.value.retry_after is not None


def test_a_manager_that_does_not_lead_refuses_events(made: EventSender) -> None:
    """The error names the manager that leads as the one to ask."""
    made.stop()
    with pytest.raises(StateNotReady):
        send(made, 0, 1)


def test_waiting_requests_are_limited(made: EventSender) -> None:
    """There is a limit for each tenant and one for all; a refusal says when to try again."""
    with ExitStack() as many:
        for _ in range(MOST_REQUESTS_OF_ONE):
            many.enter_context(made.admitted("ann"))
        with pytest.raises(QuotaExceeded) as caught:
            many.enter_context(made.admitted("ann"))
        assert caught.value.retry_after is not None
        for number in range(_MOST_AT_ONCE - MOST_REQUESTS_OF_ONE):
            many.enter_context(made.admitted(f"t{number}"))
        with pytest.raises(QuotaExceeded):
            many.enter_context(made.admitted("bob"))
    with made.admitted("ann"):
        pass


def test_other_content_types_are_those_of_the_format_of_the_source() -> None:
    """They are read as messages are; JSON is taken whatever the format is."""
    form = CsvMessages(separator=";")
    expected = [{"at": None, "k": "a", "n": 1, REST_COLUMN: None}, {"at": None, "k": None, "n": 2, REST_COLUMN: None}]
    for media_type, body in (
        ("text/csv", b"n;k\n1;a\n2;\n"),
        ("application/json", b'[{"n": 1, "k": "a"}, {"n": 2}]'),
        ("application/x-ndjson", b'{"n": 1, "k": "a"}\n{"n": 2}'),
    ):
        assert expected == events_of(body, media_type, form, SCHEMA).to_pylist()
    with pytest.raises(UnsupportedMediaType, match="send it uncompressed, with Content-Type: text/csv or application"):
        events_of(b"", "application/msgpack", form, SCHEMA)


def test_unfit_events_of_other_formats_are_named() -> None:
    """With the reason and the event, as far as a problem goes; then none is taken."""
    lines = "".join(f"{number}x\n" for number in range(100))
    with pytest.raises(InvalidRequest) as caught:
        events_of(b"n\n1\n" + lines.encode(), "text/csv", CsvMessages(), SCHEMA)
    assert MOST_REQUEST_PROBLEMS == len(caught.value.errors)
    assert ("", "unfit-event", "the field 'n' should be of kind integer: 0x") == (
        caught.value.errors[0].pointer,
        caught.value.errors[0].code,
        caught.value.errors[0].message,
    )
    with pytest.raises(TooLarge, match="10000 events"):
        events_of(b"n\n" + b"1\n" * (MOST_REQUEST_EVENTS + 1), "text/csv", CsvMessages(), SCHEMA)
