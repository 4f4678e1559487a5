"""The implementations of built-in tasks: results, ports, how they are found, and those that act outside."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.raw_events import ARROW_TYPES
from dags import Config, Kind, Ports, Schema, TaskType
from engine.behaviour import (
    Behaviour,
    EventName,
    Implementation,
    NoBehaviour,
    PortEmission,
    Refusal,
    Unwatched,
    behaviours_of,
    each_event,
    implementation_of,
    installed_behaviours,
    place_of,
)
from engine.offset import Offset
from engine.plan import Feed, Port, Slot
from engine.records.record import EmittedEvents, Record
from engine.records.state import Staged
from engine.side_effect import (
    MESSAGES,
    ActingBehaviour,
    EventNames,
    Origins,
    OutsideUnreachable,
    PartlyWritten,
    names_of,
)
from engine.tasks import TYPES
from engine.trial import try_out
from tests.engine.follower_scene import Scene
from tests.engine.kernels import PLACES, Machine, arrived, behaviours, dead, enters, entry, events, slot


class Task:
    """One task with its state."""

    def __init__(self, type_: str, **config: Any) -> None:
        self.behaviour = _behaviour(slot(2, type_, 1, **config))
        self.state = Staged({})

    def take(self, rows: pa.RecordBatch) -> PortEmission:
        return self.behaviour("in", rows, self.state)["out"]

    def values(self, values: Iterable[Any], field: str = "a", result: str = "") -> list[Any]:
        """The values of a field after the task, given these; or those of another field."""
        found: list[Any] = (
            self.take(events([{field: value} for value in values])).rows.column(result or field).to_pylist()
        )
        return found


def _behaviour(each: Slot) -> Behaviour:
    return behaviours_of([each], PLACES)[each.instance]


def test_every_task_but_the_source_is_implemented() -> None:
    """Each by an implementation of its own type, under its name. One implements all steps of workflows."""
    places = installed_behaviours()
    assert {kind.name for kind in TYPES if not kind.is_source} | {"opmw:*", "opmw-join:*"} == places.keys()
    assert {name: name for name in places} == {name: implementation_of(name, places).type.name for name in places}
    assert PLACES == {name: places[name] for name in PLACES}


def test_a_plan_of_an_earlier_release_finds_what_has_moved_since() -> None:
    """A place that is gone gives way to the installed one; where there is none, the error names the missing module."""
    now = implementation_of("count", installed_behaviours())
    assert now is implementation_of("count", {"count": "engine.implementations.gone:count"})
    with pytest.raises(ModuleNotFoundError, match=r"engine\.implementations\.gone"):
        implementation_of("acme:count", {"acme:count": "engine.implementations.gone:count"})


def test_a_namespace_is_implemented_by_one_entry_point() -> None:
    """A type's own entry comes first, then that of the longer namespace."""
    places = {"a:*": "short", "a:b:*": "long", "a:b:c": "own", "d:": "no namespace"}
    names = ("a:x", "a:b:x", "a:b:c", "d:x", "a")
    assert ["short", "long", "own", None, None] == [place_of(name, places) for name in names]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("range_filter", {"field": "b", "min": 0, "max": 1}),
        ("range_filter", {"field": "a", "min": 0, "max": 1, "outside": "drop"}),
        ("block_window_average", {"field": "b", "by": ["k", "a", "k"]}),
        ("block_window_average", {"field": "a", "by": ["a"]}),
        ("count", {"by": ["k", "k"]}),
        ("count", {}),
        ("pi_viete", {}),
    ],
)
def test_emitted_events_have_the_described_fields(name: str, config: dict[str, Any]) -> None:
    """The rows have the description's schema, with or without events."""
    kind = next(kind for kind in TYPES if kind.name == name)
    takes = {"in": Schema.of(a=Kind.FLOAT, b=Kind.INTEGER, k=Kind.STRING)}
    schema = kind.output_schema(kind.config.model_validate_json(json.dumps(config)), takes)["out"]
    expected = {field: ARROW_TYPES[kind] for field, kind in schema.fields.items()}
    for rows in ([], [{"a": 1.0, "b": 1, "k": "x"}] * 20):
        found = Task(name, **config).take(events(rows)).rows
        assert expected == {field.name: field.type for field in found.schema if field.name != "_rest"}


def test_a_range_filter_keeps_what_is_in_range() -> None:
    """Both bounds are inclusive. Nulls and NaN are dropped, and each event has its origin."""
    task = Task("range_filter", field="a", min=-1, max=2, outside="drop")
    kept = task.take(events([{"a": value} for value in (-1.0, None, 2.0, math.nan, 2.1, 0.0, -math.inf)]))
    assert [-1.0, 2.0, 0.0] == kept.rows.column("a").to_pylist()
    assert kept.origin is not None
    assert [0, 2, 5] == kept.origin.tolist()


def test_a_range_filter_makes_null_what_is_out_of_range() -> None:
    """By default. All events pass, nulls stay null, and other fields do not change."""
    task = Task("range_filter", field="a", min=-1, max=2)
    passed = task.take(events([{"a": value, "k": "x"} for value in (-1.0, None, 5.0, math.nan)]))
    assert [-1.0, None, None, None] == passed.rows.column("a").to_pylist()
    assert ["x"] * 4 == passed.rows.column("k").to_pylist()
    assert passed.origin is None


def test_a_range_filter_compares_integers_exactly() -> None:
    """Even beyond 2^53, where neighbours have the same float, and with bounds between or beyond all integers."""
    large = 2**53
    assert [large, None, None] == Task("range_filter", field="b", min=0, max=large).values([large, large + 1, -1], "b")
    assert [None, 1, None] == Task("range_filter", field="b", min=0.5, max=1.5).values([0, 1, 2], "b")
    assert [None] * 3 == Task("range_filter", field="b", min=0.25, max=0.75).values([0, 1, None], "b")
    wide = [-(2**63), None, 2**63 - 1]
    assert wide == Task("range_filter", field="b", min=-1e300, max=1e300).values(wide, "b")
    assert [None] == Task("range_filter", field="b", min=1e19, max=1e20).values([2**63 - 1], "b")


def test_an_average_emits_once_per_block_and_key() -> None:
    """At the event that completes the block. An incomplete block continues in the next batch."""
    task = Task("block_window_average", field="a", by=["k"], window=2)
    rows = [{"a": 1.0, "k": "x"}, {"a": 10.0, "k": "y"}, {"a": 3.0, "k": "x"}, {"a": 4.0, "k": "x"}]
    first = task.take(events(rows))
    assert [{"k": "x", "a": 2.0}] == first.rows.to_pylist()
    assert first.origin is not None
    assert [2] == first.origin.tolist()
    again = task.take(events([{"a": 6.0, "k": "x"}, {"a": 20.0, "k": "y"}, {"a": 0.0, "k": "z"}]))
    assert [{"k": "x", "a": 5.0}, {"k": "y", "a": 15.0}] == again.rows.to_pylist()


def test_an_average_skips_nulls() -> None:
    """A null key is a key."""
    task = Task("block_window_average", field="b", by=["k"], window=2)
    taken = task.take(events([{"b": 1}, {"b": None}, {"b": None, "k": "x"}, {"b": 2}, {"b": None}]))
    assert [{"k": None, "b": 1.5}] == taken.rows.to_pylist()
    assert taken.origin is not None
    assert [3] == taken.origin.tolist()


def test_an_average_forgets_a_key_whose_block_is_complete() -> None:
    """Only incomplete blocks are kept."""
    task = Task("block_window_average", field="a", by=["k"], window=3)
    task.take(events([{"a": 1.0, "k": "x"}, {"a": 1.0, "k": "y"}]))
    assert [1, 1.0] == task.state.get(("x",))
    task.take(events([{"a": 1.0, "k": "x"}, {"a": 1.0, "k": "x"}]))
    assert (None, [1, 1.0]) == (task.state.get(("x",)), task.state.get(("y",)))


def test_an_average_does_not_depend_on_the_ends_of_batches() -> None:
    """To the last digit, with values whose sum depends on their order."""
    values = np.random.default_rng(1).normal(size=1_000) * 10.0 ** np.random.default_rng(2).integers(-9, 9, 1_000)
    whole = Task("block_window_average", field="a", window=100).values(values.tolist())
    task = Task("block_window_average", field="a", window=100)
    assert whole == [mean for first in range(0, 1_000, 7) for mean in task.values(values[first : first + 7].tolist())]
    assert 10 == len(whole)


def test_an_average_ends_a_block_that_a_shorter_window_finds_full() -> None:
    """After a change of the window, the next event ends a full block."""
    task = Task("block_window_average", field="a", window=5)
    task.values([1.0, 2.0, 3.0])
    shorter = Task("block_window_average", field="a", window=2)
    shorter.state = task.state
    assert [2.5, 1.0] == shorter.values([4.0, 1.0, 1.0])


def test_a_count_gives_each_event_its_number() -> None:
    """Per key, over batches. Null is a key."""
    task = Task("count", by=["k"])
    assert [1, 1, 2, 1, 3] == task.take(events([{"k": k} for k in ("x", None, "x", "y", "x")])).rows.column(
        "count"
    ).to_pylist()
    found = task.take(events([{"k": k} for k in (None, "x")])).rows.to_pylist()
    assert [{"k": None, "count": 2}, {"k": "x", "count": 4}] == found
    assert [1, 2] == Task("count").values([None, 1.0], result="count")


def test_keys_are_values() -> None:
    """Both zeros are one key, and so are all NaNs, over batches too. Kinds of fields may be mixed."""
    task = Task("count", by=["a"])
    assert [1, 2, 1, 2, 1] == task.values([0.0, -0.0, math.nan, math.nan, None], result="count")
    assert [3, 3, 2] == task.values([-0.0, math.nan, None], result="count")
    two = Task("count", by=["k", "b"])
    rows = [{"k": k, "b": b} for k, b in (("x", 1), ("x", 2), ("y", 1), ("x", 1), (None, None), (None, None))]
    assert [1, 1, 1, 2, 1, 2] == two.take(events(rows)).rows.column("count").to_pylist()


def test_a_timestamp_is_a_key() -> None:
    """Timestamps, booleans, and a count field that is itself a key."""
    fields = {"at": Kind.TIMESTAMP, "on": Kind.BOOLEAN, "count": Kind.INTEGER}
    moment = datetime(2026, 5, 4, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {"at": moment, "on": True, "count": 7},
        {"at": moment, "on": True, "count": 7},
        {"at": None, "on": False},
    ]
    found = Task("count", by=["at", "on", "count"]).take(events(rows, fields)).rows
    assert [{"at": moment, "on": True, "count": 1}, {"at": moment, "on": True, "count": 2}] == found.to_pylist()[:2]


def test_a_timestamp_beyond_the_calendar_is_a_key() -> None:
    """It counts as its number, because Python's own times end with the year 9999."""
    rows = events([{"at": 10**15}, {"at": 10**15}], {"at": Kind.TIMESTAMP})
    assert [1, 2] == Task("count", by=["at"]).take(rows).rows.column("count").to_pylist()


def test_many_keys_are_kept_apart() -> None:
    """More than a short integer can number."""
    task = Task("count", by=["b"])
    numbers = 2 * list(range(70_000))
    assert [1] * 70_000 + [2] * 70_000 == task.values(numbers, "b", result="count")
    assert [3, 3, 1] == task.values([0, 69_999, 70_000], "b", result="count")


def test_an_output_passes_events_on() -> None:
    """Unchanged."""
    rows = events([{"a": 1.0}, {"a": None}])
    assert PortEmission(rows) == Task("output").take(rows)


def _twice(port: str, event: dict[str, Any], _state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if event["b"] is None:
        yield "other", {"n": 0}
    elif event["b"] > 8:
        yield "out", {"m": 1}
    else:
        for _ in range(event["b"]):
            yield "out", {"n": event["b"], "port": port}


def test_a_behaviour_can_be_written_for_one_event() -> None:
    """Yielded events become rows with origins, missing fields become null, and an empty batch gives empty ones."""
    schema = pa.schema({"n": pa.int64(), "port": pa.string()})
    behaviour = each_event(_twice, lambda _schema: {"out": schema})
    result = behaviour("left", events([{"b": 2}, {"b": 0}, {"b": 1}]), Staged({}))["out"]
    expected = [{"n": 2, "port": "left"}, {"n": 2, "port": "left"}, {"n": 1, "port": "left"}]
    assert expected == result.rows.to_pylist()
    assert result.origin is not None
    assert [0, 0, 2] == result.origin.tolist()
    assert schema == behaviour("left", events([]), Staged({}))["out"].rows.schema
    with pytest.raises(ValueError, match="the task emits at port 'other', which it does not have"):
        behaviour("left", events([{}]), Staged({}))
    with pytest.raises(ValueError, match="the task emits the field 'm', which port 'out' does not have"):
        behaviour("left", events([{"b": 9}]), Staged({}))


@pytest.mark.parametrize(
    ("each", "place", "result"),
    [
        (slot(2, "acme:x", 1), None, "no package implements the task type 'acme:x'; install the one that does"),
        (slot(2, "count", 1), "no.such:thing", "cannot be made: ModuleNotFoundError: No module named 'no'"),
        (slot(2, "count", 1), "engine.plan:Plan", "engine.plan:Plan is type, not an Implementation"),
        (slot(2, "count", 1, by=3), PLACES["count"], "the behaviour of 'count' cannot be made: ValidationError"),
        (
            Slot(instance=2, type="count", version=2, inputs=()),
            PLACES["count"],
            "version 1 of 'count' is installed, but the plan needs version 2",
        ),
    ],
)
def test_a_task_that_cannot_run_refuses_every_event(each: Slot, place: str | None, result: str) -> None:
    """With the reason. Other tasks are made."""
    places = {"output": PLACES["output"], **({each.type: place} if place else {})}
    made = behaviours_of([each, slot(3, "output", 1)], places)
    with pytest.raises(NoBehaviour, match=result.replace("(", r"\(")):
        made[2]("in", events([]), Staged({}))
    assert made[3]("in", events([]), Staged({}))


class Knows(Unwatched):
    """Knows that instance 2 kills its worker when it is made."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    def parked(self, instance: int, event: EventName | None = None) -> str:
        return "killed its worker" if (instance, event) == (2, None) else ""

    def running(self, instance: int, event: EventName | None = None) -> None:
        assert event is None
        self.noted.append(instance)

    def idle(self) -> None:
        self.noted.append(0)


def test_the_watch_is_notified_of_each_task_that_is_made() -> None:
    """So that a package that kills its worker on import is found, and not made again."""
    watch = Knows()
    made = behaviours_of([slot(2, "output", 1), slot(3, "output", 1)], PLACES, watch)
    assert [2, 3, 0] == watch.noted
    with pytest.raises(NoBehaviour, match="killed its worker"):
        made[2]("in", events([]), Staged({}))
    assert made[3]("in", events([]), Staged({}))


class DealConfig(Config):
    """To whom events are dealt, one after the other, and from whom they come."""

    takes: tuple[str, ...] = ("in",)
    may: tuple[str, ...] = ()
    gives: tuple[str, ...] = ("out",)


DEAL = TaskType(
    name="deal",
    config=DealConfig,
    ports=lambda c: Ports(inputs=c.takes + c.may, outputs=c.gives, optional=frozenset(c.may)),
    output_schema=lambda c, inputs: dict.fromkeys(c.gives, next(iter(inputs.values()))),
)


def _deal(config: DealConfig) -> Behaviour:
    def deal(_port: str, event: dict[str, Any], state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
        dealt = state.get(()) or 0
        state.put((), dealt + 1)
        yield config.gives[dealt % len(config.gives)], event

    def outputs(schema: pa.Schema) -> Mapping[str, pa.Schema]:
        return dict.fromkeys(config.gives, schema)

    return each_event(deal, outputs)


IMPLEMENTATION = Implementation(type=DEAL, make=_deal)


def test_a_behaviour_gives_at_the_ports_of_its_config() -> None:
    """Two tasks of one type have their own ports, and take events at those with streams."""
    events = [("a", {"n": 1}), ("c", {"n": 2}), ("a", {"n": 3})]
    config = {"takes": ["a"], "may": ["b", "c"], "gives": ["x", "y"]}
    assert {"x": [{"n": 1}, {"n": 3}], "y": [{"n": 2}]} == try_out(IMPLEMENTATION, config, events)
    assert {"out": [{"n": 1}]} == try_out(IMPLEMENTATION, {}, [{"n": 1}])


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


def test_a_behaviour_may_refuse_some_of_the_events_of_a_call() -> None:
    """They are parked with its reasons, whichever calls they come in, and no event is written again."""
    came: list[int] = []

    def act(_port: str, events: pa.RecordBatch, _state: Staged, _names: EventNames) -> PartlyWritten:
        numbers = events.column("b").to_pylist()
        came.extend(numbers)
        written = np.array([at for at, b in enumerate(numbers) if b % 3], np.int64)
        refusals = [Refusal(at, f"{b} is refused") for at, b in enumerate(numbers) if b % 3 == 0]
        return PartlyWritten({"out": PortEmission(events.take(pa.array(written)), written)}, refusals)

    running = machine(Recorder())
    running.made = {4: ActingBehaviour(act=act)}
    record = running.run([arrived([{"b": n} for n in range(20)])])
    assert list(range(20)) == came
    assert [(n, f"{n} is refused") for n in range(0, 20, 3)] == [(b, reason) for _, _, reason, b in dead(record)]
    assert (20, 13, 7) == (record.meters[4].taken, record.meters[4].emitted, record.meters[4].dead)


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
    for (topic, sent), wanted in zip(published[0], [("a", [(1, 5), (None, 6)]), ("b", [(3, 7)])], strict=True):
        assert wanted == (topic, [(each.get("n"), each["_from"]["number"]) for each in sent])
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
