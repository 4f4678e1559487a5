"""The components of a reconfiguration, unique tasks, and serial histories, in the paper's examples."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Catalogue, Config, Dataflow
from dags.canonical import canonicalise
from merge import Instance, RunningGraph, merge
from merge.reconfiguration.covering import components
from merge.reconfiguration.switches import unique_tasks
from merge.tasks import RunningTask
from tests.catalogue import OWN, SOURCES, TYPES, UNIQUE_TYPES, FieldsConfig, OnceConfig
from tests.graphs import applied
from tests.notation import document
from tests.serialisability import History, Processed, violation

FRAUD = "source>FC FC>FM FM>MC MC>sink"
"""Figures 1 and 2."""
SCOPE = "A>C B>G C>D C>E D>F E>F F>H G>H"
"""Figures 5 and 7."""
EITHER = "X>C X>D"
"""Figure 6."""
JOIN = "FC>J J>SP SP>FMX SP>FMY FMX>U FMY>U"
"""Figure 8."""
APART = "RE>C RE>D C>E D>F"
"""Figure 9 (I) and (II)."""
TOGETHER = "RE>C RE>D C>X D>X"
"""Figure 9 (III)."""
SELF_JOIN = "RE>C RE>D C>SJ D>SJ SJ>E"
"""Figure 10."""
W2 = "J1>J2 J2>J3 J3>J4"
W3 = "J5>U1 J6>U1 J7>U1 U1>J8 J8>J9"
W4 = "F1>U2 U2>FD1 U2>FD2 FD1>F2 FD2>F2"
W5 = "RE>FD3 FD3>S1 S1>F3 F3>SJ RE>F4 F4>FD4 FD4>SJ SJ>E1"


def found(edges: str, changed: str, several: str = "", per_edge: str = "", unique: str = "") -> list[tuple[str, str]]:
    """The scope and the heads of each component, in alphabetical order."""
    streams = [(above, below) for above, _, below in (edge.partition(">") for edge in edges.split())]
    return [
        (_sorted(each.scope), _sorted(each.heads))
        for each in components(streams, changed.split(), several.split(), per_edge.split(), unique.split())
    ]


def _sorted(names: Collection[str]) -> str:
    return " ".join(sorted(names))


@pytest.mark.parametrize(
    ("edges", "changed", "expected"),
    [
        pytest.param(FRAUD, "FM MC", [("FM MC", "FM")], id="figure 2"),
        pytest.param(EITHER, "C D", [("C", "C"), ("D", "D")], id="figure 6"),
        pytest.param(SCOPE, "C F G", [("C D E F", "C"), ("G", "G")], id="figure 7"),
        pytest.param(JOIN, "FMX", [("FMX", "FMX")], id="figure 8, blue"),
        pytest.param(W2, "J1", [("J1", "J1")], id="table 4, J1"),
        pytest.param(W2, "J2", [("J2", "J2")], id="table 4, J2"),
        pytest.param(W2, "J1 J3", [("J1 J2 J3", "J1")], id="table 4, J1 J3"),
        pytest.param(W2, "J1 J4", [("J1 J2 J3 J4", "J1")], id="table 4, J1 J4"),
        pytest.param(W2, "J3 J4", [("J3 J4", "J3")], id="table 4, J3 J4"),
        pytest.param(W3, "J5", [("J5", "J5")], id="table 4, J5"),
        pytest.param(W3, "J5 J6", [("J5", "J5"), ("J6", "J6")], id="table 4, J5 J6"),
        pytest.param(W3, "J5 J6 J7 J8", [("J5 J6 J7 J8 U1", "J5 J6 J7")], id="table 4, J5 to J8"),
        pytest.param(W3, "J5 J6 J7 J9", [("J5 J6 J7 J8 J9 U1", "J5 J6 J7")], id="table 4, J5 to J9"),
        pytest.param(W3, "J7 J8 J9", [("J7 J8 J9 U1", "J7")], id="table 4, J7 J8 J9"),
    ],
)
def test_one_to_one_tasks(edges: str, changed: str, expected: list[tuple[str, str]]) -> None:
    """A component holds changed tasks, and all on paths between them."""
    assert expected == found(edges, changed)


@pytest.mark.parametrize(
    ("edges", "changed", "several", "expected"),
    [
        pytest.param(JOIN, "FMX", "J", [("FMX J SP", "J")], id="figure 8, red"),
        pytest.param(JOIN, "U", "FMX FMY", [("FMX FMY U", "FMX FMY")], id="figure 8, two earliest"),
        pytest.param(APART, "E", "RE", [("C E RE", "RE")], id="figure 9 (I), red"),
        pytest.param(SELF_JOIN, "E", "RE", [("C D E RE SJ", "RE")], id="figure 10, red"),
        pytest.param(W4, "F1 U2", "U2", [("F1 U2", "F1")], id="table 5, F1 U2"),
        pytest.param(W4, "FD1", "U2", [("FD1 U2", "U2")], id="table 5, FD1"),
        pytest.param(W4, "F2", "U2", [("F2 FD1 FD2 U2", "U2")], id="table 5, F2"),
        pytest.param(W5, "FD4", "RE", [("F4 FD4 RE", "RE")], id="table 6, FD4"),
        pytest.param(W5, "F3", "RE", [("F3 FD3 RE S1", "RE")], id="table 6, F3"),
        pytest.param(W5, "F4", "RE", [("F4 RE", "RE")], id="table 6, F4"),
        pytest.param(W5, "FD3 FD4", "RE", [("F4 FD3 FD4 RE", "RE")], id="table 6, FD3 FD4"),
        pytest.param(W5, "E1", "RE", [("E1 F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="table 6, E1"),
        pytest.param("a>b b>c c>d", "d", "a c", [("a b c d", "a")], id="only the earliest is a head"),
    ],
)
def test_one_to_many_tasks_before_changed_ones(
    edges: str, changed: str, several: str, expected: list[tuple[str, str]]
) -> None:
    """The earliest of them start the markers."""
    assert expected == found(edges, changed, several)


@pytest.mark.parametrize(
    ("edges", "changed", "per_edge", "expected"),
    [
        pytest.param(APART, "E", "RE", [("E", "E")], id="figure 9 (I)"),
        pytest.param(APART, "E F", "RE", [("C D E F RE", "RE")], id="figure 9 (II)"),
        pytest.param(TOGETHER, "X", "RE", [("C D RE X", "RE")], id="figure 9 (III)"),
        pytest.param(W5, "FD4", "RE", [("FD4", "FD4")], id="table 6, FD4"),
        pytest.param(W5, "F3", "RE", [("F3", "F3")], id="table 6, F3"),
        pytest.param(W5, "F4", "RE", [("F4", "F4")], id="table 6, F4"),
        pytest.param(W5, "FD3 FD4", "RE", [("F4 FD3 FD4 RE", "RE")], id="table 6, FD3 FD4"),
        pytest.param("a>b a>b", "b", "a", [("a b", "a")], id="two edges to one task"),
        pytest.param("a>b a>z b>c b>d", "c d", "a b", [("b c d", "b")], id="a later task splits the one path again"),
        pytest.param("a>b a>z b>c b>d", "c d", "a", [("c", "c"), ("d", "d")], id="a later task goes either way"),
        pytest.param("a>b a>c b>c", "b c", "a", [("a b c", "a")], id="both edges lead to the later of two"),
    ],
)
def test_edge_wise_pruning(edges: str, changed: str, per_edge: str, expected: list[tuple[str, str]]) -> None:
    """A task that emits one tuple on each edge counts only if several edges lead to changed tasks."""
    assert expected == found(edges, changed, per_edge, per_edge)


@pytest.mark.parametrize(
    ("edges", "changed", "unique", "expected"),
    [
        pytest.param(SELF_JOIN, "E", "SJ", [("E", "E")], id="figure 10"),
        pytest.param(W5, "E1", "SJ", [("E1", "E1")], id="table 6, E1"),
        pytest.param(W5, "F3 E1", "SJ", [("E1 F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="another is changed before the join"),
        pytest.param(W5, "SJ", "SJ", [("F3 F4 FD3 FD4 RE S1 SJ", "RE")], id="the join itself is changed"),
        pytest.param(TOGETHER, "X", "RE", [("X", "X")], id="the task itself is unique"),
        pytest.param(TOGETHER, "X", "C D", [("C D RE X", "RE")], id="two unique tasks give two tuples"),
        pytest.param(APART, "E F", "C D", [("C D E F RE", "RE")], id="two unique tasks give one tuple each"),
        pytest.param("RE>C RE>D C>X D>X X>E", "E", "C D X", [("E", "E")], id="two unique tasks meet in a third"),
        pytest.param(
            "RE>C RE>D C>SJ D>SJ SJ>E J>C J>F", "E F", "SJ", [("C E F J SJ", "J")], id="markers pass the join"
        ),
        pytest.param("RE>C RE>D C>U D>U U>SJ", "SJ", "U SJ", [("SJ", "SJ")], id="the later of two is changed"),
        pytest.param(
            "RE>C RE>D C>U D>U U>SJ G>SJ SJ>E", "G E", "U SJ", [("E G SJ", "G")], id="the later of two is covered"
        ),
    ],
)
def test_uniqueness_pruning(edges: str, changed: str, unique: str, expected: list[tuple[str, str]]) -> None:
    """A task counts only if its tuples can reach changed tasks past the unique one."""
    assert expected == found(edges, changed, "RE J", unique=unique)


@pytest.mark.parametrize(
    ("edges", "changed", "expected"),
    [
        pytest.param(f"{SELF_JOIN} SJ>F", "E", [("E", "E")], id="one of two leads to a changed task"),
        pytest.param(f"{SELF_JOIN} SJ>F", "E F", [("C D E F RE SJ", "RE")], id="both do"),
        pytest.param("RE>C RE>D", "C", [("C", "C")], id="the task itself, towards one"),
        pytest.param("RE>C RE>D", "C D", [("C D RE", "RE")], id="the task itself, towards both"),
    ],
)
def test_a_task_that_is_unique_on_each_edge(edges: str, changed: str, expected: list[tuple[str, str]]) -> None:
    """It counts as unique if one edge alone leads to changed tasks: it gives a copy to each."""
    assert expected == found(edges, changed, "RE SJ", "SJ RE", "SJ RE")


def test_changed_tasks_without_streams_are_components() -> None:
    """They are their own heads, and components come by name."""
    assert [("B", "B"), ("J2 J3", "J2"), ("Z", "Z")] == found(W2, "Z J3 B J2")


def test_nothing_changes() -> None:
    """Then there are no components."""
    assert [] == found(W5, "", "RE")


def test_a_cycle_is_named() -> None:
    """Also one that has nothing to do with the changed tasks."""
    with pytest.raises(ValueError, match=r"^streams lead in a circle, (b > c > b|c > b > c); a dataflow has none$"):
        found("a>b b>c c>b c>d e>f", "f")


NOW = datetime(2024, 3, 1, tzinfo=UTC)
FORK = "s:source > re:pass > a:pass > j:once > k:sink re"


def flow(text: str) -> Dataflow:
    return canonicalise(
        json.dumps(document(text)), dataflow="flow", tenant="ann", catalogue=UNIQUE_TYPES, sources=SOURCES
    )


def running(text: str) -> tuple[Mapping[Instance, RunningTask], Mapping[str, Instance]]:
    """The tasks of a dataflow as they run, and where each runs."""
    graph = RunningGraph()
    graph = applied(graph, merge(graph, flow(text), NOW))
    return graph.tasks, graph.dataflow("flow").places


def unique(text: str) -> str:
    """The unique tasks of a dataflow."""
    tasks, places = running(text)
    known = unique_tasks(tasks.values())
    return " ".join(sorted(task for task, instance in places.items() if instance in known))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{FORK} > b:set{{'fields': ['value']}} > j", "j", id="another field is set on one way"),
        pytest.param(f"{FORK} > b:set{{'fields': ['place']}} > j", "", id="the field is set on one way"),
        pytest.param(f"{FORK} > b:map > j", "", id="nobody knows what is set on one way"),
        pytest.param(f"{FORK} > b:count > j", "", id="a type with state that does not say what it sets"),
        pytest.param("s:source > p:map > a:pass > j:once > k:sink p > j", "j", id="set before the fork"),
        pytest.param(
            "s:source > p:map > q:map{'add': 1} > a:pass > j:once > k:sink q > j", "j", id="set twice before the fork"
        ),
        pytest.param("s:source > p:map > j:once > k:sink s > j", "", id="the fork is at the source"),
        pytest.param(
            "s:source > p:spread{'fields': ['place']} > a:pass > j:once > k:sink p > j",
            "",
            id="set for each",
        ),
        pytest.param("s:source > p:spread > a:pass > j:once > k:sink p > j", "j", id="several with the same value"),
        pytest.param("s:source > l:map > j:once > k:sink t:source{'source': 'traffic'} > j", "j", id="two sources"),
        pytest.param(
            "s:source > l:map > j:once > k:sink s > j t:source{'source': 'traffic'} > j", "", id="two, and one forks"
        ),
        pytest.param(f"{FORK} > b:map > j > i:once{{'by': []}} > m:sink", "i", id="once for ever"),
        pytest.param("s:source > j:once{'again': True} > k:sink", "", id="the config decides"),
        pytest.param("s:source > j:pass > k:sink", "", id="a type without state"),
        pytest.param(
            "s:source > re:pass > a:pass > j:once > i:once > k:sink re > j",
            "j",
            id="a join after a join",
        ),
    ],
)
def test_unique_tasks(text: str, expected: str) -> None:
    """A task is unique if the fields by which it emits once have one value in all that an event of a source led to."""
    assert expected == unique(text)


def test_a_config_that_its_type_does_not_read_makes_no_task_unique() -> None:
    """Of a type that has changed since, nothing is known."""
    tasks, places = running(f"{FORK} > b:pass{{'generation': 1}} > j")
    for name in ("j", "a"):
        odd = replace(tasks[places[name]], type=replace(tasks[places[name]].type, config=Other))
        assert not unique_tasks([*(each for each in tasks.values() if each.instance != places[name]), odd])


@pytest.mark.parametrize(("unsteady", "expected"), [("j", False), ("a", False), ("p", False), ("k", True)])
def test_a_task_that_is_about_to_change_makes_none_unique(unsteady: str, expected: bool) -> None:  # noqa: FBT001 - expected
    """Neither itself nor those below, since nobody knows what it sets and how often it emits."""
    tasks, places = running("s:source > p:pass > re:pass > a:pass > j:once > k:sink re > j")
    assert expected == (places["j"] in unique_tasks(tasks.values(), {places[unsteady]}))


def test_what_a_type_declares_is_no_part_of_a_signature() -> None:
    """Tasks of a type run on as they are when it says that it emits once."""
    silent = Catalogue.of([*TYPES, *(replace(kind, unique_by=None) for kind in OWN)])
    text = json.dumps(document(f"{FORK} > b:set > j"))
    one, other = (
        canonicalise(text, dataflow="flow", tenant="ann", catalogue=catalogue, sources=SOURCES)
        for catalogue in (UNIQUE_TYPES, silent)
    )
    assert [task.key for task in one.tasks] == [task.key for task in other.tasks]
    assert [task.text for task in one.tasks] == [task.text for task in other.tasks]


class Other(Config):
    """A config that no task has."""

    missing: int


@dataclass(slots=True)
class Piece:
    """A piece of an event of a source."""

    cause: int
    values: dict[str, int] = field(default_factory=dict)


def emitted(task: RunningTask, piece: Piece, seen: set[object], chance: Random) -> Iterator[Piece]:
    """What a task gives for a piece, as its type says; it sets fields to anything."""
    config = task.typed_config
    if task.type.name == "once":
        assert isinstance(config, OnceConfig)
        key = (task.instance, *(piece.values[name] for name in config.by))
        if chance.randrange(4) and key not in seen:
            seen.add(key)
            yield Piece(piece.cause, {name: chance.randrange(2) for name in piece.values})
        return
    for _ in range(chance.randrange(3) if task.type.name == "spread" else 1):
        fields = config.fields if isinstance(config, FieldsConfig) else ()
        yield Piece(piece.cause, piece.values | {name: chance.randrange(50) for name in fields})


@given(st.integers(0, 2**32))
def test_a_unique_task_emits_once_for_an_event_of_a_source(seed: int) -> None:
    """In dataflows of any form, whatever tasks set, in whatever order pieces arrive; events may have equal values."""
    chance = Random(seed)
    for _ in range(3):
        passage(chance)


def passage(chance: Random) -> None:
    """Eight events of sources pass a drawn dataflow, and no unique task emits twice for one."""
    streams: list[str] = []
    above = ["s:source", "t:source{'source': 'traffic'}"]
    for number in range(chance.randrange(2, 7)):
        fields = chance.choice(["", "{'fields': ['value']}", "{'fields': ['place']}"])
        kind = chance.choice([f"set{fields}", f"spread{fields}", "pass", "once", "once{'by': ['value']}"])
        name = f"n{number}"
        named = f"{name}:{kind}"
        parents = {chance.choice(above[-3:]) for _ in range(chance.choice([1, 1, 2, 3]))}
        streams += [f"{parent} > {named}" for parent in sorted(parents)]
        above.append(named)
    read = {stream.partition(" > ")[0] for stream in streams}
    ends = [f"{name} > k{place}:sink" for place, name in enumerate(above) if name not in read]
    tasks, _ = running(" ".join([*streams, *ends]))
    known = unique_tasks(tasks.values())
    readers: dict[int, list[RunningTask]] = {}
    for task in tasks.values():
        for edge in task.inputs:
            readers.setdefault(edge.parent, []).extend([task] * edge.times)
    sources = [task for task in tasks.values() if not task.inputs]
    counted: Counter[tuple[Instance, int]] = Counter()
    seen: set[object] = set()
    waiting: list[tuple[RunningTask, Piece]] = []
    for cause in range(8):
        values = {"place": chance.randrange(4), "value": chance.randrange(2)}
        waiting += [(task, Piece(cause, values)) for task in readers.get(chance.choice(sources).instance, ())]
    while waiting:
        task, piece = waiting.pop(chance.randrange(len(waiting)))
        for new in emitted(task, piece, seen, chance):
            counted[task.instance, piece.cause] += 1
            waiting += [(reader, new) for reader in readers.get(task.instance, ())]
    assert {} == {key: count for key, count in counted.items() if key[0] in known and count > 1}


Run = list[tuple[str, str]]
"""A run in the paper's notation: (event, task) for an event at a task, ("", task) for the only reconfiguration."""


def history(run: Run) -> History:
    """The history of a run with one reconfiguration, `r`."""
    changed = [task for event, task in run if not event]
    processed = [
        Processed(event=event, task=task, configuration="r" if ("", task) in run[:place] else None)
        for place, (event, task) in enumerate(run)
        if event
    ]
    return History(applied={task: ["r"] for task in changed}, processed=processed)


S1: Run = [("t", "FC"), ("", "FM"), ("t", "FM"), ("", "MC"), ("t", "MC")]
S3: Run = [("t", "FC"), ("t", "FM"), ("", "FM"), ("", "MC"), ("t", "MC")]
S4: Run = [("t1", "X"), ("", "C"), ("t1", "C"), ("t2", "X"), ("", "D"), ("t2", "D")]
S5: Run = [("t", "FC"), ("t", "J"), *[("t", "SP")] * 3, ("t", "FMX"), ("", "FMX"), ("t", "FMX"), ("t", "FMY")]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        pytest.param(S1, None, id="S1"),
        pytest.param(S3, "event t met FM before r and MC after it", id="S3"),
        pytest.param(S4, None, id="S4"),
        pytest.param([*S5, *[("t", "U")] * 3], "event t met FMX before r and again after it", id="S5"),
    ],
)
def test_the_schedules_of_the_paper(run: Run, expected: str | None) -> None:
    """The schedules of Fries are decided as there, and a violation says which event met what."""
    found = violation(history(run))
    assert expected == (None if found is None else str(found))


def test_each_reconfiguration_alone_may_be_consistent() -> None:
    """Two events that each met one of two reconfigurations contradict each other, though no event met half of one."""
    seen = [("1", "a", None), ("1", "b", "r2"), ("2", "a", "r1"), ("2", "b", None)]
    processed = [Processed(event=event, task=task, configuration=last) for event, task, last in seen]
    found = violation(History(applied={"a": ["r1"], "b": ["r2"]}, processed=processed))
    expected = {"event 1 met a before r1 and b after r2", "event 2 met b before r2 and a after r1"}
    assert found is not None
    assert expected == set(str(found).split("; "))


def test_reconfigurations_may_contradict_each_other() -> None:
    """Two tasks that got two reconfigurations in different orders need no event for a cycle."""
    found = violation(History(applied={"a": ["r1", "r2"], "b": ["r2", "r1"]}, processed=[]))
    assert found is not None
    assert {"a got r1 before r2", "b got r2 before r1"} == set(str(found).split("; "))


def test_a_cycle_is_short() -> None:
    """Reconfigurations between the first and the last one that an event met in the wrong order are left out."""
    names = [f"r{number}" for number in range(1, 10)]
    seen = [("b", None), ("c", "r8")]
    processed = [Processed(event=17, task=task, configuration=last) for task, last in seen]
    found = violation(History(applied={"a": names, "b": names, "c": names}, processed=processed))
    assert "event 17 met b before r8 and c after it" == str(found)


def test_impossible_histories_are_refused() -> None:
    """A task cannot work as a reconfiguration left it that it never got, nor get one twice."""
    with pytest.raises(ValueError, match="did not get that"):
        violation(History(applied={}, processed=[Processed(event=1, task="a", configuration="r")]))
    with pytest.raises(ValueError, match="twice"):
        violation(History(applied={"a": ["r", "r"]}, processed=[]))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Histories of up to three reconfigurations, three events and three tasks; no serial order explains a quarter."""
    names = ["r1", "r2", "r3"][: draw(st.integers(1, 3))]
    applied = {
        task: draw(st.lists(st.sampled_from(names), unique=True)) for task in ("a", "b", "c")[: draw(st.integers(1, 3))]
    }
    work = st.sampled_from(sorted(applied)).flatmap(
        lambda task: st.builds(
            Processed,
            event=st.integers(1, 3),
            task=st.just(task),
            configuration=st.sampled_from([None, *applied[task]]),
        )
    )
    return History(applied=applied, processed=draw(st.lists(work, max_size=6)))


def explained(history: History, order: tuple[int | str, ...]) -> bool:
    """Whether transactions that run one after the other in this order leave the history."""
    for task, names in history.applied.items():
        if list(names) != [name for name in order if name in names]:
            return False
        for work in history.processed:
            if work.task == task:
                got = [name for name in order[: order.index(work.event)] if name in names]
                if work.configuration != (got[-1] if got else None):
                    return False
    return True


@given(history=histories())
def test_a_violation_means_that_no_serial_order_explains_the_history(history: History) -> None:
    """The checker agrees with the trial of all serial orders."""
    transactions = {work.event for work in history.processed} | {
        name for got in history.applied.values() for name in got
    }
    serial = any(explained(history, order) for order in permutations(transactions))
    assert serial == (violation(history) is None)


@given(history=histories())
def test_a_cycle_is_one(history: History) -> None:
    """Each precedence of a violation is seen in the history, and ends where the next begins."""
    found = violation(history)
    if found is None:
        return
    steps = found.precedences
    assert [step.later for step in steps] == [step.earlier for step in (*steps[1:], steps[0])]
    for step in steps:
        got = list(history.applied[step.task])
        seen = {(work.event, work.configuration) for work in history.processed if work.task == step.task}
        if step.earlier.is_event:
            before = [None, *got[: got.index(str(step.later.name))]]
            assert seen & {(step.earlier.name, name) for name in before}
        elif step.later.is_event:
            assert seen & {(step.later.name, name) for name in got[got.index(str(step.earlier.name)) :]}
        else:
            assert got.index(str(step.earlier.name)) < got.index(str(step.later.name))
