"""Dynamic documents: laws of resolution, and that every problem names its place and says what to do."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation import document_checks
from adaptation.document_reader import is_dynamic, read_dynamic, read_policy
from adaptation.documents import NotAResolution, Selection, choices_in, resolve
from dags import InvalidDocument, Problem
from tests.adaptation.drawn import canonical, dynamic_documents, module, read
from tests.documentation.pages import page

ABOVE = {"metric": "rate", "above": 5}
SLOW = {"metric": "latency", "above": 5}
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "n",
    "tasks": [
        {"id": "s", "type": "source", "config": {"source": "meters"}},
        {
            "id": "a",
            "alternates": [
                {"name": "x", "type": "noop", "value": 1, "cost": 1000, "when": {"activate": ABOVE}},
                {"name": "y", "type": "where", "config": {"expression": "kw > 1"}, "value": 0.5, "cost": 500},
                {"name": "z", "module": "plausible@1", "config": {"max": 9}, "value": 0.5, "cost": 500},
            ],
        },
        {"id": "b", "type": "noop"},
        {"id": "k", "type": "output"},
    ],
    "streams": [
        {"from": "s", "to": "a"},
        {"from": "a", "to": "b", "when": {"activate": {"event": "peak"}, "deactivate": {"event": "calm"}}},
        {"from": "b", "to": "k"},
    ],
    "policy": {
        "cores": 1,
        "events": {"peak": {"output": "k"}, "calm": {"dataflow": "other", "output": "k"}},
        "rules": [{"name": "busy", "activate": ABOVE, "choose": {"a": "y", "a>b": False}}],
    },
}
ALTERNATE = "/tasks/1/alternates/0"
FIRST_RULE = "/policy/rules/0"


def changed(place: str, value: Any, document: Any = DOCUMENT) -> Any:
    """The document with another value at a place; without it, if the value is None."""
    made = copy.deepcopy(document)
    *path, last = [int(each) if each.isdecimal() else each for each in place.split("/")[1:]]
    inside = made
    for each in path:
        inside = inside[each]
    if isinstance(inside, list) and last == len(inside):
        inside.append(value)
    elif value is None:
        del inside[last]
    else:
        inside[last] = value
    return made


def problems(document: Any) -> tuple[Problem, ...]:
    """What is wrong with a document, at rates of 1,000 events a second."""
    with pytest.raises(InvalidDocument) as refused:
        read(document, module=module, rates={"s": 1_000.0})
    return refused.value.problems


def test_the_document_is_sound() -> None:
    """Else the cases below would hold nothing."""
    assert "n" == read(DOCUMENT, module=module, rates={"s": 1_000.0}).name


CASES: list[tuple[str, Any, str, str]] = [
    # where, what, the place that is named, the code
    ("/tasks/1/alternates", DOCUMENT["tasks"][1]["alternates"][:1], "/tasks/1/alternates", "single-alternate"),
    (f"{ALTERNATE}/name", "y", "/tasks/1/alternates/1/name", "repeated-alternate"),
    ("/tasks/1/alternates/1", {**DOCUMENT["tasks"][1]["alternates"][0], "name": "y"}, "/tasks/1/alternates/1",
     "alternates-alike"),
    ("/tasks/1/first", "q", "/tasks/1/first", "unknown-alternate"),
    ("/tasks/1/id", "b", "/tasks/1/id", "repeated-id"),
    (f"{ALTERNATE}/type", "nop", f"{ALTERNATE}/type", "unknown-type"),
    (f"{ALTERNATE}/config", {"a": 1}, f"{ALTERNATE}/config/a", "unknown-field"),
    (f"{ALTERNATE}/value", 0, f"{ALTERNATE}/value", "wrong-value"),
    (f"{ALTERNATE}/value", {"event": "peek", "field": "f", "otherwise": 1}, f"{ALTERNATE}/value/event",
     "unknown-event"),
    (f"{ALTERNATE}/cost", None, f"{ALTERNATE}/cost", "missing-field"),
    (f"{ALTERNATE}/module", "m@1", ALTERNATE, "wrong-value"),
    ("/tasks/1/alternates/1/config/expression", "kv > 1", "/tasks/1/alternates/1/config/expression",
     "unknown-field-upstream"),
    ("/tasks/1/alternates/1", {"name": "y", "type": "pi_viete", "value": 1, "cost": 1}, "/tasks/1/alternates/1",
     "alternates-differ"),
    ("/tasks/1/alternates/1", {"name": "y", "type": "output", "value": 1, "cost": 1}, "/tasks/1/alternates/1",
     "alternates-differ"),
    ("/tasks/1/alternates/2/module", "plausible@2", "/tasks/1/alternates/2/module", "unknown-module"),
    ("/tasks/1/alternates/2/config", {}, "/tasks/1/alternates/2/module", "missing-field"),
    ("/tasks/1/alternates/2/config/max", "x", "/tasks/1/alternates/2/config/max", "wrong-type"),
    ("/tasks/3", {"id": "k", "alternates": [
        {"name": "o", "type": "output", "value": 1, "cost": 1},
        {"name": "n", "type": "null_sink", "value": 1, "cost": 1},
    ]}, "/tasks/3", "dynamic-end"),
    ("/tasks/2", {"id": "b", "point": {}}, "", "open-and-dynamic"),
    ("/streams/1/to", "q", "/streams/1/to", "unknown-task"),
    ("/streams/1/from", "q", "/streams/1/from", "unknown-task"),
    ("/streams/3", DOCUMENT["streams"][1], "/streams/3", "repeated-stream"),
    (f"{ALTERNATE}/when/activate", {"metric": "speed", "above": 5}, f"{ALTERNATE}/when/activate/metric",
     "unknown-metric"),
    (f"{ALTERNATE}/when/activate/task", "q", f"{ALTERNATE}/when/activate/task", "unknown-task"),
    (f"{ALTERNATE}/when/activate", {"not": {"all": [ABOVE, {"metric": "rate"}]}},
     f"{ALTERNATE}/when/activate/not/all/1", "wrong-value"),
    (f"{ALTERNATE}/when/activate", {"rate": 3}, f"{ALTERNATE}/when/activate", "wrong-value"),
    (f"{ALTERNATE}/when/activate", {"clock": {"from": "1:00", "to": "02:00"}},
     f"{ALTERNATE}/when/activate/clock/from", "wrong-value"),
    (f"{ALTERNATE}/when/activate", {"clock": {"from": "01:00", "to": "02:00", "zone": "Mars"}},
     f"{ALTERNATE}/when/activate/clock/zone", "wrong-value"),
    (f"{ALTERNATE}/when/activate", {"event": "peak"}, f"{ALTERNATE}/when/activate", "momentary"),
    (f"{ALTERNATE}/when/activate", SLOW, f"{ALTERNATE}/when/activate", "oscillates"),
    (f"{ALTERNATE}/when", {"activate": SLOW, "deactivate": {"metric": "latency", "below": 5}},
     f"{ALTERNATE}/when/activate", "oscillates"),
    (f"{ALTERNATE}/when", {"activate": SLOW, "deactivate": {"not": SLOW}}, f"{ALTERNATE}/when/activate", "oscillates"),
    (f"{ALTERNATE}/when", {"activate": {"sequence": [SLOW, ABOVE], "within": 9}}, f"{ALTERNATE}/when/activate",
     "oscillates"),
    (f"{ALTERNATE}/when/activate", {"all": [ABOVE, {"metric": "rate", "below": 5}]}, f"{ALTERNATE}/when/activate",
     "never-fires"),
    (f"{ALTERNATE}/when/activate", {"metric": "rate", "below": 0}, f"{ALTERNATE}/when/activate", "never-fires"),
    (f"{ALTERNATE}/when/activate", {"clock": {"from": "02:00", "to": "02:00"}}, f"{ALTERNATE}/when/activate",
     "never-fires"),
    (f"{ALTERNATE}/when/deactivate", {"all": [ABOVE, {"not": ABOVE}]}, f"{ALTERNATE}/when/deactivate", "never-fires"),
    (f"{ALTERNATE}/when/activate", {"all": [{"any": [
        {"metric": metric, "task": task, "above": 2},
        {"metric": metric, "task": task, "below": 1},
    ]} for task in "sabk" for metric in ("rate", "backlog")]}, f"{ALTERNATE}/when/activate", "too-many-cases"),
    ("/policy/events/peak/output", "q", "/policy/events/peak/output", "unknown-task"),
    ("/policy/throughput", 2, "/policy/throughput", "wrong-value"),
    ("/policy/cores", 0.1, "/policy/cores", "unattainable-budget"),
    (f"{FIRST_RULE}/choose", {"a": "q"}, f"{FIRST_RULE}/choose/a", "unknown-alternate"),
    (f"{FIRST_RULE}/choose", {"a": True}, f"{FIRST_RULE}/choose/a", "wrong-type"),
    (f"{FIRST_RULE}/choose", {"a>b": "y"}, f"{FIRST_RULE}/choose/a>b", "wrong-type"),
    (f"{FIRST_RULE}/choose", {"b": "y"}, f"{FIRST_RULE}/choose/b", "not-dynamic"),
    (f"{FIRST_RULE}/choose", {"a": 5}, f"{FIRST_RULE}/choose/a", "wrong-value"),
    (f"{FIRST_RULE}/activate", {"event": "peek"}, f"{FIRST_RULE}/activate/event", "unknown-event"),
    ("/policy/rules/1", {"name": "busy", "activate": {"not": ABOVE}, "choose": {"a": "z"}}, "/policy/rules/1/name",
     "repeated-rule"),
    ("/policy/rules/1", {"name": "busier", "activate": {"metric": "rate", "above": 9}, "choose": {"a": "z"}},
     "/policy/rules/1", "shadowed-rule"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "value", "place", "code"), CASES, ids=[f"{each[3]}-{each[0]}" for each in CASES])
def test_a_bad_document_is_refused(at: str, value: Any, place: str, code: str) -> None:
    """With the place and a remedy."""
    found = problems(changed(at, value))
    assert (place, code) in {(each.pointer, each.code) for each in found}
    assert all(each.remedy for each in found)


def test_every_problem_of_a_document_is_found_at_once() -> None:
    """Of alternates, guards, rules and what is plain."""
    document = changed("/tasks/2/type", "nop")
    document = changed(f"{ALTERNATE}/config", {"a": 1}, document)
    document = changed("/streams/1/when/activate/event", "peek", document)
    document = changed(f"{FIRST_RULE}/choose", {"a": "q"}, document)
    assert ["unknown-field", "unknown-type", "unknown-event", "unknown-alternate"] == [
        each.code for each in problems(document)
    ]


def test_a_gap_is_proposed_where_a_guard_can_oscillate() -> None:
    """With a bound that leaves it, which is then accepted."""
    (found,) = problems(changed(f"{ALTERNATE}/when/activate", SLOW))
    assert 'let it deactivate at a lower bound, such as {"metric": "latency", "below": 4}' == found.remedy
    better = {"activate": SLOW, "deactivate": {"metric": "latency", "below": 4}}
    read(changed(f"{ALTERNATE}/when", better), module=module)


def test_another_policy_must_go_with_the_document() -> None:
    """It names the events that guards of the document need; places are those in the policy."""
    dynamic = read_dynamic(json.dumps(DOCUMENT), module=module, canonical=canonical)
    other = read_policy(json.dumps({**DOCUMENT["policy"], "throughput": 0.9}), dynamic)
    assert 0.9 == other.throughput
    with pytest.raises(InvalidDocument) as refused:
        read_policy('{"cores": 0.1, "rules": [{"name": "r", "activate": {"event": "x"}, "choose": {}}]}', dynamic)
    assert ["/rules/0/choose"] == [each.pointer for each in refused.value.problems]
    with pytest.raises(InvalidDocument) as refused:
        read_policy('{"cores": 0.1}', dynamic, rates={"s": 1_000.0})
    assert [("/cores", "unattainable-budget"), ("/events", "unknown-event"), ("/events", "unknown-event")] == [
        (each.pointer, each.code) for each in refused.value.problems
    ]


def test_every_code_is_described() -> None:
    """The page has a row for each code that only dynamic documents get, and a case above gives it."""
    described = {
        code for table in page("docs/adaptation.md").tables if table.heading == "Problems" for code in table.column()
    }
    general = {code for table in page("docs/documents.md").tables for code in table.column()}
    given = {each[3] for each in CASES}
    assert described == given - general


def test_a_large_document_is_refused_though_not_every_alternate_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is wrong in any of them."""
    monkeypatch.setattr(document_checks, "_MOST_ALONE", 0)
    alternates = copy.deepcopy(DOCUMENT["tasks"][1]["alternates"])
    document = changed("/tasks/2", {"id": "b", "alternates": alternates})
    document = changed("/tasks/2/alternates/1/config/expression", "kv > 1", document)
    assert ["/tasks/2/alternates/1/config/expression"] == [each.pointer for each in problems(document)]


@settings(max_examples=40)
@given(value=dynamic_documents(), data=st.data())
def test_any_selection_resolves_to_a_sound_document_that_says_which_it_is(value: dict[str, Any], data: Any) -> None:
    """Whatever is chosen together, since each alternate passed alone."""
    dynamic = read(value)
    choice = Selection(
        alternates={task.id: data.draw(st.sampled_from(list(task.alternates))) for task in dynamic.tasks.values()},
        opened={stream: data.draw(st.booleans()) for stream in dynamic.streams},
    )
    plain = json.loads(json.dumps(resolve(dynamic, choice)))
    dataflow = canonical(json.dumps(plain).encode())
    assert not is_dynamic(plain)
    assert choice == choices_in(plain, dynamic)
    # Tasks keep their positions, so that problems and reconfigurations name the same ones.
    assert [each["id"] for each in value["tasks"]] == [each["id"] for each in plain["tasks"][: len(value["tasks"])]]
    gates = {stream.gate for stream in dynamic.streams.values()}
    assert gates == {each["id"] for each in plain["tasks"] if each["type"] == "gate"} == gates & dataflow.places.keys()


def test_a_document_of_something_else_is_no_resolution() -> None:
    """It is refused rather than taken for the first alternate."""
    dynamic = read(
        {
            "version": 1,
            "name": "n",
            "tasks": [
                {"id": "s", "type": "source", "config": {"source": "meters"}},
                {
                    "id": "a",
                    "alternates": [
                        {"name": "x", "type": "noop", "value": 1, "cost": 1},
                        {"name": "y", "type": "where", "config": {"expression": "kw > 1"}, "value": 1, "cost": 1},
                    ],
                },
                {"id": "k", "type": "output"},
            ],
            "streams": [
                {"from": "s", "to": "a", "when": {"activate": {"metric": "rate", "above": 1}}},
                {"from": "a", "to": "k"},
            ],
        }
    )
    plain = resolve(dynamic, dynamic.first)
    for change in ({"type": "map"}, {"config": {"a": 1}}):
        with pytest.raises(NotAResolution):
            choices_in({**plain, "tasks": [plain["tasks"][0], {**plain["tasks"][1], **change}]}, dynamic)
    with pytest.raises(NotAResolution):
        choices_in({**plain, "tasks": plain["tasks"][:3]}, dynamic)


@pytest.mark.parametrize("long", ["x" * 100, "x"])
def test_gates_have_ids_of_their_own(long: str) -> None:
    """Also where the name of a stream is too long or taken, and where two streams join the same tasks."""
    guard = {"when": {"activate": {"metric": "rate", "above": 1}}}
    value = {
        "version": 1,
        "name": "n",
        "tasks": [
            {"id": long, "type": "source", "config": {"source": "meters"}},
            {"id": f"{long}>k", "type": "noop"},
            {"id": "k", "type": "output"},
            {"id": "l" * 100, "type": "output"},
        ],
        "streams": [
            {"from": long, "to": f"{long}>k"},
            {"from": f"{long}>k", "to": "k"},
            {"from": long, "to": "k", **guard},
            {"from": long, "to": "l" * 100, **guard},
        ],
    }
    dynamic = read(value)
    plain = resolve(dynamic, dynamic.first)
    ids = [each["id"] for each in plain["tasks"]]
    assert len(ids) == len(set(ids)) == 6
    assert [f"{long}>k", f"{long}>{'l' * 100}"] == list(dynamic.streams)
    canonical(json.dumps(plain).encode())
