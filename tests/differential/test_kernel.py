"""The kernel against an interpreter that knows dicts and lists alone: random plans over random events.

The interpreter works off one raw event in the whole plan before the next comes, and knows no batches. So wherever the
kernel's batches are cut, it must give the same, in the same order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind
from engine.kernel import task_run
from engine.kernel.batch import Arrived
from engine.offset import Offset
from engine.plan import Edge, Entry, Forward, Port, Slot, SlotState
from tests.engine.kernels import FIELDS, Machine, arrived, dead, enters, entry, events, left, slot

Event = dict[str, Any]
Kinds = Mapping[str, str]
"""The fields of a stream, with what they hold."""
FIRST_SLOT = 10


class Raw(NamedTuple):
    """An event as it arrives."""

    stream: str
    event: Event


@dataclass(kw_only=True)
class Case:
    """A plan, and the fields of its streams."""

    streams: dict[str, Kinds]
    slots: list[Slot] = field(default_factory=list)
    kinds: dict[Port, Kinds] = field(default_factory=dict)

    def entry(self) -> Entry:
        ingress = [
            enters(stream, at, {name: FIELDS[name] for name in kinds if name in FIELDS})
            for at, (stream, kinds) in enumerate(self.streams.items(), 1)
        ]
        forwards = [
            Forward(instance=1),
            *(Forward(instance=p.instance, port=p.port) for p in self.kinds if p.instance > 1),
        ]
        return entry(self.slots, ingress, forwards)


def common(streams: Sequence[Kinds]) -> Kinds:
    first, *others = streams
    return {name: kind for name, kind in first.items() if all(each.get(name) == kind for each in others)}


class Interpreter:
    """A plan as it is defined."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._state: dict[tuple[int, Any], Any] = {}
        self.left: dict[Port, list[Event]] = {}
        self.dead: list[tuple[int, Any]] = []
        self.taken: Counter[int] = Counter()

    def take(self, raw: Raw) -> None:
        at = list(self._case.streams).index(raw.stream) + 1
        emitted: dict[Port, list[Event]] = {Port(at, "out"): [raw.event]}
        for each in self._case.slots:
            if each.state is not SlotState.ACTIVE:
                continue
            for port in dict.fromkeys(edge.port for edge in each.inputs):
                edges = [edge for edge in each.inputs if edge.port == port]
                fields = common([self._case.kinds[edge.origin] for edge in edges])
                for edge in edges:
                    for event in emitted.get(edge.origin, []):
                        for _ in range(edge.times):
                            self._run(each, port, {name: event[name] for name in fields}, emitted)
        for origin, found in emitted.items():
            self.left.setdefault(origin, []).extend(found)

    def _run(self, each: Slot, port: str, event: Event, emitted: dict[Port, list[Event]]) -> None:
        self.taken[each.instance] += 1
        try:
            for out, given_ in BEHAVIOURS[each.type](self, each, port, event):
                emitted.setdefault(Port(each.instance, out), []).append(given_)
        except ValueError:
            self.dead.append((each.instance, event["b"]))

    def _filter(self, each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        config = configs[each.config]
        value = event[config["field"]]
        inside = value is not None and config["min"] <= value <= config["max"]
        if inside:
            yield "out", event
        elif config["outside"] == "null":
            yield "out", {**event, config["field"]: None}

    def _count(self, each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        by = configs[each.config]["by"]
        key = (each.instance, tuple(event[name] for name in by))
        self._state[key] = self._state.get(key, 0) + 1
        yield "out", {**{name: event[name] for name in by}, "count": self._state[key]}

    def _average(self, each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        config = configs[each.config]
        if event[config["field"]] is None:
            return
        block = self._state.setdefault((each.instance, tuple(event[name] for name in config["by"])), [])
        block.append(event[config["field"]])
        if len(block) == config["window"]:
            total = 0.0
            for value in block:
                total += value
            block.clear()
            yield "out", {**{name: event[name] for name in config["by"]}, config["field"]: total / config["window"]}

    def _pi(self, _each: Slot, _port: str, _event: Event) -> Iterable[tuple[str, Event]]:
        root, product = 2.0**0.5, 2.0
        product = product * 2.0 / root
        yield "out", {"pi": product}

    def _output(self, _each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        yield "out", event

    def _echo(self, _each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        yield "out", {**event, "copy": 0}
        yield "out", {**event, "copy": 1}

    def _split(self, _each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        yield "odd" if (event["b"] or 0) % 2 else "even", event

    def _join(self, each: Slot, port: str, event: Event) -> Iterable[tuple[str, Event]]:
        if port == "right":
            self._state[each.instance, ()] = event["b"]
        else:
            yield "out", {"left": event["b"], "right": self._state.get((each.instance, ()))}

    def _picky(self, each: Slot, _port: str, event: Event) -> Iterable[tuple[str, Event]]:
        if (event["b"] or 0) % 5 == 4:
            raise ValueError
        key = (each.instance, ())
        self._state[key] = self._state.get(key, 0) + 1
        yield "out", {"seen": self._state[key], "b": event["b"]}


BEHAVIOURS: Mapping[str, Callable[..., Iterable[tuple[str, Event]]]] = {
    "range_filter": Interpreter._filter,
    "count": Interpreter._count,
    "block_window_average": Interpreter._average,
    "pi_viete": Interpreter._pi,
    "output": Interpreter._output,
    "echo": Interpreter._echo,
    "split": Interpreter._split,
    "join": Interpreter._join,
    "picky": Interpreter._picky,
}
configs: dict[str, dict[str, Any]] = {}
"""Each config by its text."""

floats = st.floats(-1e6, 1e6) | st.sampled_from([0.0, -0.0, 1.0, 5.0])
VALUES = {
    "a": st.none() | floats,
    "b": st.none() | st.integers(-3, 12) | st.integers(-(2**63), 2**63 - 1),
    "k": st.none() | st.sampled_from(["x", "y", "ü"]),
    "_rest": st.just(None),
}
KINDS = {"a": "float", "b": "integer", "k": "string", "_rest": "string"}


@st.composite
def cases(draw: st.DrawFn, most_streams: int = 3, types: Sequence[str] = tuple(BEHAVIOURS)) -> Case:
    count = draw(st.integers(1, most_streams))
    names = st.lists(st.sampled_from(["a", "b", "k"]), min_size=1, unique=True)
    case = Case(
        streams={f"s{at}": {name: KINDS[name] for name in [*sorted(draw(names)), "_rest"]} for at in range(count)}
    )
    case.kinds = {Port(at, "out"): kinds for at, kinds in enumerate(case.streams.values(), 1)}
    for instance in range(FIRST_SLOT, FIRST_SLOT + draw(st.integers(1, 8))):
        _add(draw, case, instance, draw(st.sampled_from(types)))
    paused = {draw(st.sampled_from(case.slots)).instance} if draw(st.booleans()) else set[int]()
    for at, each in enumerate(case.slots):
        if each.instance in paused or any(edge.parent in paused for edge in each.inputs):
            paused.add(each.instance)
            case.slots[at] = replace(each, state=SlotState.PAUSED)
    return case


def _add(draw: st.DrawFn, case: Case, instance: int, type_: str) -> None:
    """A slot of this type, or an output where the type finds no field that it needs."""
    ports = ["left", "right"] if type_ == "join" else ["in"]
    origins = st.lists(st.sampled_from(list(case.kinds)), min_size=1, max_size=3, unique=True)
    edges = [
        Edge(port=port, parent=origin.instance, parent_port=origin.port, times=draw(st.integers(1, 3)))
        for port in ports
        for origin in draw(origins)
    ]
    kinds = [common([case.kinds[edge.origin] for edge in edges if edge.port == port]) for port in ports]
    numbers = [name for name, kind in kinds[0].items() if kind in {"float", "integer"}]
    needs_b = type_ in {"split", "join", "picky"} and any(each.get("b") != "integer" for each in kinds)
    needs_number = type_ in {"range_filter", "block_window_average"} and not numbers
    needs_name = type_ == "echo" and "copy" in kinds[0]
    if needs_b or needs_number or needs_name:
        type_, edges = "output", [replace(edge, port="in") for edge in edges]
        kinds = [common([case.kinds[edge.origin] for edge in edges])]
    config, outputs = _configured(draw, type_, kinds[0], numbers)
    made = slot(instance, type_, *edges, **config)
    configs[made.config] = config
    case.slots.append(made)
    if type_ != "output":
        case.kinds |= {Port(instance, port): kinds for port, kinds in outputs.items()}


def _configured(
    draw: st.DrawFn, type_: str, takes: Kinds, numbers: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Kinds]]:
    """A config for a task of a type, and what it emits at each port."""
    by = draw(st.lists(st.sampled_from(sorted(takes)), max_size=2, unique=True)) if takes else []
    keys = {name: takes[name] for name in by}
    match type_:
        case "range_filter":
            low, high = sorted([draw(floats), draw(floats)])
            outside = draw(st.sampled_from(["drop", "null"]))
            config = {"field": draw(st.sampled_from(numbers)), "min": low, "max": high, "outside": outside}
            return config, {"out": takes}
        case "count":
            return {"by": by}, {"out": {**keys, "count": "integer"}}
        case "block_window_average":
            mean = draw(st.sampled_from(numbers))
            return {"field": mean, "by": by, "window": draw(st.integers(1, 4))}, {"out": {**keys, mean: "float"}}
        case "pi_viete":
            return {"iterations": 1}, {"out": {"pi": "float"}}
        case "split":
            return {}, {"odd": takes, "even": takes}
        case _:
            return {}, {"out": {**takes, "copy": "integer"} if type_ == "echo" else FIXED.get(type_, takes)}


FIXED: Mapping[str, Kinds] = {
    "join": {"left": "integer", "right": "integer"},
    "picky": {"seen": "integer", "b": "integer"},
}
"""What these emit, whatever they take."""


def drawn_events(case: Case) -> st.SearchStrategy[list[Raw]]:
    of_stream = [
        st.builds(Raw, st.just(stream), st.fixed_dictionaries({name: VALUES[name] for name in kinds}))
        for stream, kinds in case.streams.items()
    ]
    return st.lists(st.one_of(of_stream), max_size=30)


def cut(draw: Callable[..., Any], case: Case, raws: Sequence[Raw]) -> list[list[Arrived]]:
    """The events in items, and the items in batches; any of them may be short, and batches empty."""
    batches: list[list[Arrived]] = [[]]
    positions: Counter[str] = Counter()
    at = stamp = 0
    while at < len(raws):
        if draw(st.integers(0, 3)) == 0:
            batches.append([])
        stream = raws[at].stream
        most = at + draw(st.integers(1, 6))
        end = at + 1
        while end < min(most, len(raws)) and raws[end].stream == stream:
            end += 1
        fields = {name: FIELDS[name] for name in case.streams[stream] if name in FIELDS}
        batch = events([raw.event for raw in raws[at:end]], fields)
        batches[-1].append(arrived(batch, stream, positions[stream], stamp))
        positions[stream] += end - at
        at, stamp = end, stamp + 1
    # A batch's items come stream by stream.
    return [sorted(batch) for batch in batches]


@pytest.fixture(autouse=True)
def _no_task_is_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that are parked untried are another test's."""
    monkeypatch.setattr(task_run, "_HOPELESS", 1_000_000)


def _check(case: Case, raws: Sequence[Raw], batches: Sequence[Sequence[Arrived]]) -> None:
    interpreter = Interpreter(case)
    for raw in raws:
        interpreter.take(raw)
    machine = Machine(entry=case.entry())
    records = [machine.run(batch, end=Offset(entry=1)) for batch in batches]
    sinks = [Port(each.instance, "out") for each in case.slots if each.type == "output"]
    leaving = [Port(1, "out"), *(origin for origin in case.kinds if origin.instance > 1), *sinks]
    for origin in leaving:
        found = [row for record in records for row in left(record, *origin)]
        assert interpreter.left.get(origin, []) == found
        # Numbers go on where the batch before ended.
        numbers = [
            n for r in records for e in r.emitted if e.origin == origin for n in range(e.first, e.first + e.count)
        ]
        assert list(range(len(found))) == numbers
    parked = [(instance, b) for record in records for instance, _, _, b in dead(record)]
    assert Counter(interpreter.dead) == Counter(parked)
    taken = Counter[int]()
    for record in records:
        taken.update({instance: meter.taken for instance, meter in record.meters.items()})
    assert interpreter.taken == taken


@given(st.data())
def test_the_kernel_gives_what_the_interpreter_gives(data: st.DataObject) -> None:
    """Equal outputs in equal order for any batches, with the same dead events and numbers."""
    case = data.draw(cases())
    raws = data.draw(drawn_events(case))
    _check(case, raws, cut(data.draw, case, raws))
    _check(case, raws, cut(data.draw, case, raws))


@given(st.data())
def test_one_batch_gives_what_one_event_at_a_time_gives(data: st.DataObject) -> None:
    """With one ingress stream, both extremes of batch sizes agree with the interpreter."""
    case = data.draw(cases(most_streams=1))
    raws = data.draw(drawn_events(case))
    [stream] = case.streams
    fields = {name: Kind(kind) for name, kind in case.streams[stream].items() if name in FIELDS}
    _check(case, raws, [[arrived(events([raw.event for raw in raws], fields), stream)]])
    _check(case, raws, [[arrived(events([raw.event], fields), stream, at, at)] for at, raw in enumerate(raws)])


@given(st.data())
def test_streams_cut_apart_give_the_same_multisets(data: st.DataObject) -> None:
    """Stateless tasks give the same events, in any order, for any batches of each stream."""
    case = data.draw(cases(types=("range_filter", "output", "echo", "split", "pi_viete")))
    raws = data.draw(drawn_events(case))
    interpreter = Interpreter(case)
    machine = Machine(entry=case.entry())
    for raw in raws:
        interpreter.take(raw)
    records = [machine.run([item]) for batch in cut(data.draw, case, sorted(raws, key=str)) for item in batch]
    for origin in case.kinds:
        if origin.instance in {1, *range(FIRST_SLOT, FIRST_SLOT + 8)}:
            found = [str(sorted(row.items())) for record in records for row in left(record, *origin)]
            expected = [str(sorted(row.items())) for row in interpreter.left.get(origin, [])]
            assert Counter(expected) == Counter(found)
