"""Proposed sources: who may listen to which topic, for how long, and what a proposal takes."""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from braid_client.answers.sources import ProposalAnswer, ProposalForm, SourceForm
from manager.outputs import readers
from manager.outputs.readers import MOST_LOOKS_OF_ONE, OutputWatcher
from manager.problem import Forbidden, InvalidRequest, QuotaExceeded, StateNotReady
from manager.use_case import Caller
from tests.manager.managers import OPERATOR, Manager, caller
from tests.manager.memory_outputs import connecting
from tests.twins.memory_broker import MemoryBroker

ANN, BOB = caller("ann"), caller("bob")


class Bench:
    """A manager with tenants, and a broker on which somebody publishes as soon as it is listened to."""

    def __init__(self, url: str) -> None:
        self.manager = Manager(url).lead()
        self.manager.admit("ann", "bob")
        self.broker = MemoryBroker()
        self.subscribed = threading.Event()
        self.outputs = OutputWatcher(self.connect)
        self.manager.equip(outputs=self.outputs)
        self.outputs.start()

    def connect(self, client_id: str, **options: Any) -> Any:
        """Connect a client, and note when it has subscribed."""
        client = connecting(self.broker)(client_id, **options)
        subscribe = client.subscribe

        def noted(topics: Iterable[str]) -> None:
            subscribe(topics)
            self.subscribed.set()

        client.subscribe = noted
        return client

    def propose(
        self, who: Caller, topic: str, *messages: bytes, seconds: int = 1, form: ProposalForm | None = None
    ) -> ProposalAnswer:
        """Propose a source while messages come."""

        def publish() -> None:
            assert self.subscribed.wait(30)
            for message in messages:
                self.broker.publish(topic, message)

        self.subscribed.clear()
        if messages:
            threading.Thread(target=publish, daemon=True).start()
        return self.manager.service.sources.propose(who, form or ProposalForm(topic=topic, seconds=seconds))


@pytest.fixture
def bench(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # What is wanted of most tests comes at once.
    monkeypatch.setattr(readers, "MOST_SAMPLED_MESSAGES", 2)
    made = Bench(sqlite)
    yield made
    made.outputs.stop()
    made.manager.close()


def test_a_proposal_can_be_registered_as_it_is(bench: Bench) -> None:
    """With the name of its topic, and a schema that takes what came."""
    answer = bench.propose(ANN, "ann/hall 1/visitors", b'[{"n": 1, "hall": "a"}, {"n": 2.5}]', b"no JSON")
    assert (2, 2, 1) == (answer.messages, answer.events, answer.unread)
    assert str(answer.why_unread).startswith("the message is not JSON")
    assert {"hall": "string", "n": "float"} == answer.source.fields
    form = answer.source.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = bench.manager.service.sources.register(ANN, SourceForm.model_validate_json(json.dumps(form)))
    assert ("ann:hall-1-visitors", answer.source.fields) == (made.name, made.fields)


def test_a_proposal_has_the_format_of_what_came(bench: Bench) -> None:
    """The one that was named, or that cannot be mistaken; one that cannot be used is refused at once."""
    named = ProposalForm.model_validate({"topic": "ann/levels", "seconds": 1, "format": "csv"})
    answer = bench.propose(ANN, "ann/levels", b"at,level\n2026-03-01,2.5", b"at,level\n2026-03-02,3", form=named)
    assert ({"at": "timestamp", "level": "float"}, "csv") == (
        answer.source.fields,
        answer.source.connection.format.kind,
    )
    answer = bench.propose(ANN, "ann/plain", b"21.5", b"22")
    assert ({"value": "float"}, "text") == (answer.source.fields, answer.source.connection.format.kind)
    broken = {"topic": "ann/x", "format": {"kind": "protobuf", "descriptor": "eA==", "message": "acme.Reading"}}
    with pytest.raises(InvalidRequest, match="FileDescriptorSet"):
        bench.manager.service.sources.propose(ANN, ProposalForm.model_validate(broken))


def test_messages_in_the_request_take_the_place_of_listening(bench: Bench) -> None:
    """Of any topic, as nothing is read there; also where nobody could listen."""
    bench.outputs.stop()
    pasted = {"topic": "plant/{machine}/speed", "messages": ['{"n": 1}', '{"n": 2.5}', "no JSON"]}
    answer = bench.manager.service.sources.propose(BOB, ProposalForm.model_validate(pasted))
    assert (3, 2, 1) == (answer.messages, answer.events, answer.unread)
    assert ({"n": "float"}, "plant/{machine}/speed") == (answer.source.fields, answer.source.connection.topic)
    rows = pasted | {"messages": ["at;n\n2026-03-01;2"], "format": {"kind": "csv", "separator": ";"}}
    answer = bench.manager.service.sources.propose(BOB, ProposalForm.model_validate(rows))
    assert {"at": "timestamp", "n": "integer"} == answer.source.fields


def test_a_tenant_listens_below_its_name_and_to_its_sources(bench: Bench) -> None:
    """Wherever its sources are; and nowhere else, whether or not there is a source."""
    away = SourceForm.model_validate({"name": "away", "connection": {"kind": "topic", "topic": "plant/away"}})
    bench.manager.service.sources.register(ANN, away)
    for topic in ("ann/new", "plant/away"):
        assert 2 == bench.propose(ANN, topic, b"{}", b"{}").events
    for topic in ("plant/away", "plant/new", "ann/new", "ann", "bobby/new"):
        with pytest.raises(Forbidden, match="a tenant listens only below its own name, as on bob/"):
            bench.propose(BOB, topic)
    assert ("bob", 2) == (bench.propose(OPERATOR, "bob/new", b"{}", b"{}").source.owner, 2)
    assert bench.propose(OPERATOR, "plant/new", b"{}", b"{}").source.owner is None


@pytest.mark.parametrize("topic", ["braid/1/out/bob/d/k", "ann/#", "ann/+", "$SYS/x", "ann/\x00"])
def test_nobody_listens_to_what_is_no_topic_for_sources(bench: Bench, topic: str) -> None:
    """Neither to Braid's own topics, nor to many at once."""
    for who in (ANN, OPERATOR):
        with pytest.raises(InvalidRequest):
            bench.propose(who, topic)


def test_listening_ends_in_time_and_has_no_more_than_is_allowed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By seconds, messages, bytes, or with the service; each tenant does little of it at once."""
    begun = time.monotonic()
    assert 0 == bench.propose(ANN, "ann/quiet").messages
    assert 0.9 < time.monotonic() - begun < 30
    assert 2 == bench.propose(ANN, "ann/busy", *[b"{}"] * 9, seconds=60).messages
    monkeypatch.setattr(readers, "MOST_SAMPLED_BYTES", 5)
    assert 1 == bench.propose(ANN, "ann/large", b"[{}]", b"[{}]", seconds=60).messages
    many = [
        threading.Thread(target=bench.propose, args=(ANN, "ann/quiet"), kwargs={"seconds": 60})
        for _ in range(MOST_LOOKS_OF_ONE)
    ]
    for thread in many:
        thread.start()
    while bench.outputs.looks < len(many):
        time.sleep(0.001)
    with pytest.raises(QuotaExceeded):
        bench.propose(ANN, "ann/quiet")
    bench.outputs.stop()
    for thread in many:
        thread.join(30)
        assert not thread.is_alive()
    with pytest.raises(StateNotReady):
        bench.propose(ANN, "ann/quiet")
