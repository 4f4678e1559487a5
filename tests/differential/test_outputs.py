"""Outputs: those of a dataflow alone, as its tenant wrote it, against those of the merged one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dags import Dataflow
from tests.interpreter import Event, Machine, N, Node, Raw, as_merged, as_written
from tests.notation import document, flow
from tests.strategies import ANNS, SHARED, Document, Remove, Submit, Walk, documents, families, replay, walks

Outputs: TypeAlias = dict[str, list[tuple[int, Event]]]
"""For each sink of a document what reached it, in order, with the position of the raw event that caused it."""
Feeds: TypeAlias = list[list[Raw]]
"""The raw events after each step of a walk."""


@dataclass(kw_only=True)
class Stay:
    """A dataflow's time in the running graph; made by `run`."""

    document: Document
    canonical: Dataflow
    starts: dict[str, int]
    """For each task of the document the position at which the instance started that serves it."""
    since: int
    until: int
    got: Outputs = field(default_factory=dict)


def run(walk: Walk, feeds: Feeds) -> list[Stay]:
    """Do a walk with events in between; every dataflow's stay, in the order of submission."""
    machine: Machine[int] = Machine({})
    stays: list[Stay] = []
    present: dict[str, Stay] = {}
    started: dict[int, int] = {}
    end = sum(map(len, feeds))
    position = 0
    for step, stage, feed in zip(walk.steps, replay(walk), feeds, strict=True):
        machine.become(as_merged(stage.running.tasks.items()))
        started |= dict.fromkeys(stage.change.residue, position)
        if isinstance(step, Remove):
            present.pop(step.dataflow).until = position
        else:
            places = stage.running.dataflow(step.dataflow).places
            stay = Stay(
                document=walk.documents[step.document],
                canonical=stage.dataflows[step.dataflow],
                starts={task: started[instance] for task, instance in places.items()},
                since=position,
                until=end,
            )
            stay.got = {sink: [] for sink in stage.running.produced(step.dataflow)}
            present[step.dataflow] = stay
            stays.append(stay)
        for raw in feed:
            taken = machine.take(position, raw)
            for dataflow, stay in present.items():
                for sink, instance in stage.running.produced(dataflow).items():
                    stay.got[sink] += [(position, event) for event in taken[instance]]
            position += 1
    return stays


def alone(stay: Stay, raws: Sequence[Raw]) -> Outputs:
    """What the document gives where nothing else runs, each task started when the instance was that served it."""
    outputs = results(as_written(stay.document, stay.canonical, stay.starts), raws)
    return {
        sink: [(position, event) for position, event in outputs[sink] if stay.since <= position < stay.until]
        for sink in outputs
    }


def results(nodes: dict[N, Node[N]], raws: Sequence[Raw]) -> dict[N, list[tuple[int, Event]]]:
    """What reaches each sink of some tasks."""
    machine = Machine(nodes)
    outputs: dict[N, list[tuple[int, Event]]] = {name: [] for name in machine.sinks}
    for position, raw in enumerate(raws):
        for sink, events in machine.take(position, raw).items():
            outputs[sink] += [(position, event) for event in events]
    return outputs


def raw_events(sources: Sequence[str], most: int = 4) -> st.SearchStrategy[list[Raw]]:
    """A few events of these sources, with few values, so that keys and blocks fill."""
    events = st.builds(Event, st.sampled_from(("north", "south")), st.integers(-3, 9))
    return st.lists(st.builds(Raw, st.sampled_from(sources), events), max_size=most)


@st.composite
def worked_walks(draw: st.DrawFn) -> tuple[Walk, Feeds]:
    """A walk and the raw events after each of its steps."""
    walk = draw(walks(confined=draw(st.booleans())))
    return walk, [draw(raw_events(SHARED)) for _ in walk.steps]


@st.composite
def departures(draw: st.DrawFn) -> tuple[Walk, Feeds, int]:
    """A walk that submits several dataflows and then removes some of them; also how many steps submit."""
    family = draw(families(confined=draw(st.booleans()), sources=SHARED, least=2))
    submits = [Submit(i, f"flow{i}", draw(st.sampled_from(("ann", "bob")))) for i in range(len(family))]
    leavers = draw(st.permutations(submits))[: draw(st.integers(1, len(submits) - 1))]
    walk = Walk(documents=family, steps=(*submits, *(Remove(leaver.dataflow) for leaver in leavers)))
    return walk, [draw(raw_events(SHARED)) for _ in walk.steps], len(submits)


WINDOW = document("s:source > w:window > k:sink")
FRESH = document("s:source > w!:window > k:sink")
SOURCE_ONLY = document("s:source > k:sink")
TWICE_AND_ONCE = document("s:source > a:map > k:sink s > b:map > k a > l:sink")
"""A sink fed twice by what feeds another one once."""
CROSSED = document(
    "s:source > w:window s > v!:window w > x:join.left v > x.right v > y:join.left w > y.right x > k:sink y > l:sink"
)
"""Two tasks whose inputs are the same but for scope: each takes a shared and a fresh window the other way round."""


def _values(stay: Stay) -> list[float]:
    return [event.value for _, event in stay.got["k"]]


def _weather(*values: int) -> list[Raw]:
    return [Raw("weather", Event("north", value)) for value in values]


# Worked out by hand: a line, raw events as (source, value), and the values that reach the sink `k`.
EXAMPLES: dict[str, tuple[str, list[tuple[str, int]], list[float]]] = {
    "map adds": ("s:source > m:map{'add': 2} > k:sink", [("weather", 1), ("weather", 2)], [3, 4]),
    "map adds nothing by default": ("s:source > m:map > k:sink", [("weather", 1)], [1]),
    "scale multiplies": ("s:source > f:scale{'factor': 0.5} > k:sink", [("weather", 3)], [1.5]),
    "split sends odd values one way": (
        "s:source > x:split x.odd > k:sink",
        [("weather", 1), ("weather", 2), ("weather", -3)],
        [1, -3],
    ),
    "split sends even values the other way": (
        "s:source > x:split x.even > k:sink",
        [("weather", 1), ("weather", 2), ("weather", 0)],
        [2, 0],
    ),
    "join takes the last right value from each left one": (
        "s:source > j:join.left t:source{'source': 'traffic'} > j.right j > k:sink",
        [("weather", 5), ("traffic", 2), ("traffic", 3), ("weather", 9), ("weather", 4)],
        [5, 6, 1],
    ),
    "the left port comes before the right one": (
        "s:source > j:join.left s > j.right j > k:sink",
        [("weather", 5), ("weather", 9)],
        [5, 4],
    ),
    "echo emits twice": ("s:source > e:echo{'add': 1} > k:sink", [("weather", 1)], [2, 2]),
    "count counts": ("s:source > c:count > k:sink", [("weather", 7), ("weather", 8)], [1, 2]),
    "count counts by key": (
        "s:source > c:count{'by': 'value'} > k:sink",
        [("weather", 7), ("weather", 8), ("weather", 7)],
        [1, 1, 2],
    ),
    "window sums blocks of three": (
        "s:source > w:window > k:sink",
        [("weather", value) for value in (1, 2, 3, 4, 5, 6, 7)],
        [6, 15],
    ),
    "sources are distinguished": (
        "t:source{'source': 'traffic'} > k:sink",
        [("weather", 1), ("traffic", 2), ("power", 3)],
        [2],
    ),
    "streams of two sources interleave as they arrive": (
        "s:source > k:sink t:source{'source': 'traffic'} > k",
        [("weather", 1), ("traffic", 2), ("weather", 3)],
        [1, 2, 3],
    ),
    # Each twin emits 1 and then 2; the window takes 1 1 2 2.
    "equal events of twins meet right after one another": (
        "s:source > e:echo > c:count > w:window{'size': 2} > k:sink e > d:count > w",
        [("weather", 7)],
        [2, 4],
    ),
    "three twins deliver thrice": (
        "s:source > a:map > k:sink s > b:map > k s > c:map{'add': 0} > k",
        [("weather", 1), ("weather", 2)],
        [1, 1, 1, 2, 2, 2],
    ),
}


@pytest.mark.parametrize(("line", "events", "values"), EXAMPLES.values(), ids=EXAMPLES)
def test_examples_have_the_outputs_worked_out_by_hand(
    line: str, events: list[tuple[str, int]], values: list[float]
) -> None:
    """The interpreter follows the catalogue, for the document and for its canonical form."""
    canonical = flow(line)
    raws = [Raw(source, Event("north", value)) for source, value in events]
    written = results(as_written(document(line), canonical), raws)["k"]
    merged = results(as_merged(enumerate(canonical.tasks)), raws)[canonical.places["k"]]
    assert values == [event.value for _, event in written]
    assert values == [event.value for _, event in merged]


@given(st.booleans().flatmap(lambda confined: documents(confined=confined)), raw_events(ANNS, most=8))
@example(TWICE_AND_ONCE, _weather(1, 2))
def test_a_document_gives_the_same_as_its_canonical_form(written: Document, raws: list[Raw]) -> None:
    """Collapsing equivalent tasks changes neither the order nor the number of any sink's outputs."""
    canonical = flow(written)
    expected = results(as_written(written, canonical), raws)
    actual = results(as_merged(enumerate(canonical.tasks)), raws)
    assert expected == {sink: actual[canonical.places[sink]] for sink in canonical.sinks}


@given(worked_walks())
@example(
    (
        Walk(documents=(WINDOW, CROSSED), steps=(Submit(0, "a", "ann"), Submit(1, "b", "bob"))),
        [_weather(1, 2), _weather(3, 4, 5, 6, 7, 8)],
    )
)
def test_a_dataflow_gives_the_same_from_the_running_graph_as_alone(worked: tuple[Walk, Feeds]) -> None:
    """Whatever is submitted or removed, with tasks that start at the same positions."""
    walk, feeds = worked
    raws = list(chain.from_iterable(feeds))
    stays = run(walk, feeds)
    assert [alone(stay, raws) for stay in stays] == [stay.got for stay in stays]


@given(departures())
def test_removing_others_never_changes_outputs(departing: tuple[Walk, Feeds, int]) -> None:
    """A dataflow that stays gets the same outputs."""
    walk, feeds, submits = departing
    leavers = {step.dataflow for step in walk.steps if isinstance(step, Remove)}
    everybody = Walk(documents=walk.documents, steps=walk.steps[:submits])
    staying = [*feeds[: submits - 1], list(chain.from_iterable(feeds[submits - 1 :]))]
    expected = {stay.canonical.id: stay.got for stay in run(everybody, staying) if stay.canonical.id not in leavers}
    assert expected == {stay.canonical.id: stay.got for stay in run(walk, feeds) if stay.canonical.id not in leavers}


@given(
    st.booleans().flatmap(lambda confined: documents(confined=confined)),
    raw_events(ANNS, most=6),
    raw_events(ANNS, most=6),
)
def test_stopped_tasks_start_empty(written: Document, before: list[Raw], after: list[Raw]) -> None:
    """A dataflow that is removed and submitted again has no state of earlier events."""
    submit = Submit(0, "flow", "ann")
    again = Walk(documents=(written,), steps=(submit, Remove("flow"), submit))
    once = Walk(documents=(written,), steps=(submit,))
    expected = run(once, [after])[0].got
    shifted = {sink: [(position + len(before), event) for position, event in expected[sink]] for sink in expected}
    assert shifted == run(again, [before, [], after])[1].got


def test_a_reused_window_goes_on_with_its_history() -> None:
    """A dataflow that attaches to a half-full window gets its next result."""
    walk = Walk(documents=(WINDOW,), steps=(Submit(0, "a", "ann"), Submit(0, "b", "bob")))
    first, second = run(walk, [_weather(1, 2), _weather(3, 4, 5, 6)])
    expected = [6, 15]
    assert expected == _values(first) == _values(second)


def test_a_fresh_window_begins_empty() -> None:
    """Its results contain only later events."""
    walk = Walk(documents=(WINDOW, FRESH), steps=(Submit(0, "a", "ann"), Submit(1, "b", "bob")))
    first, second = run(walk, [_weather(1, 2), _weather(3, 4, 5, 6)])
    expected = ([6, 15], [12])
    assert expected == (_values(first), _values(second))


def test_a_window_that_stopped_begins_empty_although_its_source_ran_on() -> None:
    """A task that is needed again starts without state, even if its source continued."""
    steps = (Submit(0, "a", "ann"), Submit(1, "b", "bob"), Remove("a"), Submit(0, "a", "ann"))
    first, _, again = run(
        Walk(documents=(WINDOW, SOURCE_ONLY), steps=steps), [_weather(1, 2), _weather(3, 4), [], _weather(5, 6, 7)]
    )
    expected = ([6], [18])
    assert expected == (_values(first), _values(again))


def test_tasks_that_may_not_be_shared_give_each_dataflow_its_own() -> None:
    """The interpreter distinguishes random tasks and secrets of dataflows, so that sharing them would show."""
    random, fetch = (
        document("s:source > r:random > k:sink"),
        document("s:source > f:fetch{'password': {'secret': 'x'}} > k:sink"),
    )
    steps = (Submit(0, "a", "ann"), Submit(0, "b", "ann"), Submit(1, "c", "ann"), Submit(1, "d", "bob"))
    stays = run(Walk(documents=(random, fetch), steps=steps), [[], [], [], _weather(1)])
    values = [value for stay in stays for value in _values(stay)]
    assert len(stays) == len(set(values))
