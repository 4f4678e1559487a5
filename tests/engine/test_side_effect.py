"""Acting behaviours: the names of their events, and the outcome of these events."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.behaviour import Behaviour, EventName, PortEmission, Unwatched
from engine.offset import Offset
from engine.plan import Feed, Port
from engine.records.record import EmittedEvents, Record
from engine.records.state import Staged
from engine.side_effect import MESSAGES, ActingBehaviour, EventNames, Origins, OutsideUnreachable, names_of
from tests.engine.follower_scene import Scene
from tests.engine.kernels import Machine, arrived, behaviours, dead, enters, entry, slot


class Recorder:
    """Notes its calls, and raises on request."""

    def __init__(self, error: Exception | None = None, bad: int | None = None) -> None:
        self.calls: list[list[tuple[str, int]]] = []
        self._error = error
        self._bad = bad

    def __call__(
        self, _port: str, events: pa.RecordBatch, _state: Staged, names: EventNames
    ) -> Mapping[str, PortEmission]:
        numbers = events.column("b").to_pylist()
        if self._error is not None and (self._bad is None or self._bad in numbers):
            raise self._error
        if numbers:
            self.calls.append(list(zip(names.texts(), numbers, strict=True)))
        return {"out": PortEmission(events)}


def machine(recorder: Recorder, *, whole: bool = False, echoes: bool = False) -> Machine:
    """Two streams into one task that acts, over one that gives each event twice if so wished."""
    ingress = (enters("s", 1), enters("t", 2))
    slots = [slot(3, "echo", 1, 2), slot(4, "acts", 3)] if echoes else [slot(4, "acts", 1, 2)]
    made: dict[int, Behaviour] = {
        4: ActingBehaviour(act=recorder, whole=whole),
        **behaviours(each for each in slots if each.type == "echo"),
    }
    return Machine(entry=entry(slots, ingress), made=made)


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=4)
"""How many events of each stream come with a batch, and whether its worker dies before the record."""


@settings(max_examples=30)
@given(one=STEPS, other=STEPS)
def test_an_event_has_one_name_wherever_batches_are_cut(
    one: list[tuple[int, int, bool]], other: list[tuple[int, int, bool]]
) -> None:
    """No two events have the same name, and a repeated batch uses the same names."""
    assert _named(one) == _named(other)
    assert {f"{stream}:{n}.{place}" for stream in "st" for n in range(4) for place in range(2)} == set(_named(one))


def _named(steps: list[tuple[int, int, bool]]) -> dict[str, int]:
    """What eight events are called, each of which comes twice."""
    recorder = Recorder()
    running = machine(recorder, echoes=True)
    left = {"s": 4, "t": 4}
    for *counts, dies in [*steps, (4, 4, False)]:
        batch = []
        for stream, wanted in zip("st", counts, strict=True):
            first, count = 4 - left[stream], min(wanted, left[stream])
            left[stream] -= count
            rows = [{"b": ord(stream) + n} for n in range(first, first + count)]
            batch += [arrived(rows, stream, first=first, stamp=5)] if count else []
        if not batch:
            continue
        before = len(recorder.calls)
        running.run(batch)
        if dies:
            done = len(recorder.calls)
            running.state.clear(running.state.version - 1)
            running.run(batch)
            # How many come in one call depends on what the last ones took.
            assert list(chain(*recorder.calls[before:done])) == list(chain(*recorder.calls[done:]))
            del recorder.calls[done:]
    calls = list(chain(*recorder.calls))
    assert 16 == len(calls) == len(dict(calls))
    return dict(calls)


def test_names_stay_as_they_are_when_another_event_is_parked() -> None:
    """Events of dead letters have their own names, which no raw event has."""

    class Parks(Unwatched):
        def alone(self, instance: int) -> bool:
            return instance == 4

        def parked(self, instance: int, event: EventName | None = None) -> str:
            return "it hung" if instance == 4 and event == (1, 0) else ""

    recorder = Recorder()
    running = machine(recorder)
    running.run([arrived([{"b": n} for n in range(3)], first=7)], watch=Parks())
    assert [[("s:7.0", 0)], [("s:9.0", 2)]] == recorder.calls
    _fed(running, Feed(id=5, instance=4, port="in", events='[{"b":1},{"b":8}]'))
    assert [("s:10.0", 3), ("feed/5:0.0", 1), ("feed/5:1.0", 8)] == recorder.calls[2]


def _fed(running: Machine, feed: Feed) -> Record:
    return running.run([arrived([{"b": 3}], first=10)], feeds=[feed])


@pytest.mark.parametrize("whole", [False, True])
def test_a_bad_event_is_parked_alone_unless_all_are_written_together(*, whole: bool) -> None:
    """A behaviour that writes its events together is called once per batch, and all are parked if it fails."""
    recorder = Recorder(ValueError("bad"), bad=2)
    record = machine(recorder, whole=whole).run([arrived([{"b": n} for n in range(5)])])
    assert ([0, 1, 2, 3, 4] if whole else [2]) == [b for _, _, _, b in dead(record)]
    written = sorted(b for call in recorder.calls for _, b in call)
    assert ([] if whole else [0, 1, 3, 4]) == written


def test_an_unreachable_system_is_not_tried_for_each_event() -> None:
    """The rest of the batch is parked with the reason, after the events already written."""
    tried: list[int] = []

    def act(_port: str, events: pa.RecordBatch, _state: Staged, _names: EventNames) -> Mapping[str, PortEmission]:
        if len(events):
            tried.append(len(events))
        if 3 in events.column("b").to_pylist():
            raise OutsideUnreachable("the sea is gone") if len(events) < 5 else ValueError("too many")
        return {"out": PortEmission(events)}

    running = machine(Recorder())
    running.made = {4: ActingBehaviour(act=act)}
    record = running.run([arrived([{"b": n} for n in range(8)])])
    assert [8, 4] == tried
    assert [(n, "engine.side_effect.OutsideUnreachable: the sea is gone") for n in range(8)] == [
        (b, reason) for _, _, reason, b in dead(record)
    ]


def test_a_behaviour_that_acts_is_not_called_without_names() -> None:
    """The error says what to call instead."""
    acting = ActingBehaviour(act=Recorder())
    rows = pa.record_batch({"b": pa.array([1])})
    with pytest.raises(TypeError, match="call its `act`"):
        acting("in", rows, Staged({}))
    assert {"out"} == set(acting("in", rows.slice(0, 0), Staged({})))


def test_the_writer_and_the_batch_have_names() -> None:
    """By deployment and instance, and by job and number."""
    names = names_of(7, Origins(deployment="d", job="3", batch=12), np.array([0]))
    assert ("d/7", "3-000000000012") == (names.writer, names.batch)


def test_messages_leave_from_the_record_under_the_same_numbers(tmp_path: Path) -> None:
    """A message that the broker has not taken is sent again after a restart, in a higher epoch."""
    scene = Scene(tmp_path)
    messages = pa.record_batch({"topic": ["a", "a", "b"], "event": ['{"n":1}', "{}", '{"n":3}']})
    emitted = EmittedEvents(origin=Port(7, MESSAGES), first=5, events=messages)
    record = Record(batch=0, start=Offset(), end=Offset(run=1, entry=1), emitted=(emitted,))
    scene.store.write(scene.state.settle(record))
    published: list[list[tuple[str, Any]]] = []
    for _ in range(2):
        follower = scene.follower()
        follower.follow()
        published.append([(each.topic, each.payload) for each in scene.sender.plain])
    for (topic, events), wanted in zip(published[0], [("a", [(1, 5), (None, 6)]), ("b", [(3, 7)])], strict=True):
        assert wanted == (topic, [(each.get("n"), each["_from"]["number"]) for each in events])
    epochs = [{each["_from"].pop("epoch") for _, events in sent for each in events} for sent in published]
    assert [1, 1] == [len(each) for each in epochs]
    assert min(epochs[0]) < min(epochs[1])
    assert published[0] == published[1]
    last = scene.follower()
    last.follow()
    scene.sender.answer()
    last.tidy()
    again = scene.follower()
    again.follow()
    assert [] == scene.sender.plain
