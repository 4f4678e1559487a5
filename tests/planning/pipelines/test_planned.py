"""Planned pipelines: which modules fill the places, and which document runs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import InvalidDocument
from planning.pipelines.module import read_module
from planning.pipelines.planned import plan_pipeline
from planning.pipelines.reader import computes, read_pipeline
from planning.problem import Inflow, Outlet, RunningVertex
from tests.notation import flow
from tests.planning.pipelines.open_places import (
    MODULES,
    UNITS,
    check,
    module,
    pipeline_document,
    planned,
    refusal,
    surroundings,
)

KELVIN = [{"holds": {"unit": "kelvin"}}]
CELSIUS = {"s": {"unit": "celsius"}}


def test_a_goal_is_reached() -> None:
    """The module whose effect is the goal fills the point, as a task with its type and config."""
    found = planned("s:source > p:point > k:sink", goals=KELVIN, given=CELSIUS)
    assert {"p": "to-kelvin@1"} == found.fillings
    plain = flow("s:source > p:map{'add': 273} > k:sink")
    assert plain.tasks == flow(dict(found.assembled.document)).tasks


def test_a_place_that_holds_nothing_costs_nothing() -> None:
    """Where the goal holds already, the canonical form is that of the dataflow without the place."""
    found = planned("s:source > p:point > k:sink", goals=KELVIN, given={"s": {"unit": "kelvin"}})
    assert {"p": "nothing"} == found.fillings
    assert flow("s:source > k:sink").tasks == flow(dict(found.assembled.document)).tasks


def test_conditions_chain() -> None:
    """What one module requires, another before it ensures; the cheaper of two that do."""
    found = planned("s:source > p:point > q:point > k:sink", goals=[{"fields": {"value": "float"}}])
    assert {"p": "wipe@1", "q": "measure@1"} == found.fillings


@pytest.mark.parametrize(
    ("goal", "fillings"),
    [
        ({"at": "p", "holds": {"clean": True}}, {"p": "wipe@1", "q": "nothing"}),
        ({"at": "q", "holds": {"clean": True}}, None),
        ({"since": "p", "holds": {"clean": True}}, {"p": "wipe@1", "q": "nothing"}),
        ({"at": "p", "holds": {"not": {"clean": True}}}, {"p": "nothing", "q": "nothing"}),
        ({"at": "everywhere", "holds": {"clean": True}}, "refused"),
        ({"since": "s", "holds": {"clean": True}}, "refused"),
    ],
)
def test_goals_hold_where_they_are_aimed(goal: dict[str, Any], fillings: Any) -> None:
    """At one stream, from one on, or everywhere, the source included."""
    text = "s:source > p:point{'modules': ['wipe']} > q:point{'modules': ['wipe']} > k:sink"
    if fillings == "refused":
        assert "no-plan" in {each.code for each in refusal(text, goals=[goal])}
        return
    found = planned(text, goals=[goal])
    if fillings is None:
        assert 1 == list(found.fillings.values()).count("wipe@1")
    else:
        assert fillings == found.fillings


def test_tags_and_versions_choose() -> None:
    """A point takes the newest of a name, a version that it names, or any with a tag."""
    modules = [*MODULES, module("wipe", "lab:wipenew", version=2, ensure={"clean": True}, cost=0.9)]
    goal = [{"holds": {"clean": True}}]
    for wanted, expected in (("wipe", "wipe@2"), ("wipe@1", "wipe@1"), ("tag:thorough", "clean@1")):
        text = f"s:source > p:point{{'modules': ['{wanted}']}} > k:sink"
        assert {"p": expected} == planned(text, surroundings(modules), goals=goal).fillings


def test_what_runs_is_used_again() -> None:
    """Of two modules that reach the goal, the one that runs already is chosen, though it costs more."""
    goal = [{"holds": {"clean": True}}]
    text = "s:source > p:point > k:sink"
    assert {"p": "wipe@1"} == planned(text, goals=goal).fillings
    running = [
        RunningVertex(id="1", computes=computes("source", 1, b'{"source":"weather"}')),
        RunningVertex(
            id="2",
            computes=computes("lab:clean", 1, b'{"add":0}'),
            inputs=(Inflow("in", (Outlet("1"),)),),
        ),
    ]
    assert {"p": "clean@1"} == planned(text, surroundings(running=running), goals=goal).fillings


def test_a_gap_is_filled_by_as_many_as_needed() -> None:
    """By a chain of modules up to the most, or by nothing."""
    text = "s:source > g:gap{'most': 3} > k:sink"
    found = planned(text, goals=[{"fields": {"value": "float"}}, *KELVIN], given=CELSIUS)
    assert ["to-kelvin@1", "wipe@1", "measure@1"] == sorted(
        found.fillings.values(), key=["to-kelvin@1", "wipe@1", "measure@1"].index
    )
    assert {"nothing"} == set(planned(text).fillings.values())
    assert refusal(
        "s:source > g:gap{'most': 2} > k:sink", goals=[{"fields": {"value": "float"}}, *KELVIN], given=CELSIUS
    )


def test_streams_meet_as_the_document_says() -> None:
    """Equal values are needed where streams meet, unless either may do."""
    text = "s:source > p:point > k:sink t:source{'source': 'traffic'} > k"
    given = {"s": {"unit": "kelvin"}, "t": {"unit": "celsius"}}
    found = planned(text, given=given)
    assert {"p": "to-celsius@1"} == found.fillings
    assert {"p": "nothing"} == planned(text, given=given, meets={"k": "either"}).fillings


def test_the_same_module_fills_points_that_are_one() -> None:
    """Both points hold it, or both nothing."""
    text = "s:source > p:point > k:sink s > q:point{'same': 'p', 'ensure': {'unit': 'kelvin'}} > l:sink"
    assert {"p": "to-kelvin@1", "q": "to-kelvin@1"} == planned(text, given=CELSIUS).fillings


def test_a_point_holds_the_same_as_one_below_it() -> None:
    """Wherever the two are listed."""
    text = "s:source > q:point{'same': 'p'} > p:point > k:sink"
    goals = [{"at": "q", "holds": {"clean": True}}]
    assert {"q": "wipe@1", "p": "wipe@1"} == planned(text, goals=goals).fillings
    document = pipeline_document(text, goals=goals)
    document["tasks"].sort(key=lambda task: task["id"])
    made = plan_pipeline(read_pipeline(json.dumps(document), surroundings()), check)
    assert {"q": "wipe@1", "p": "wipe@1"} == made.fillings


@given(st.data())
def test_the_order_in_a_document_does_not_matter(data: st.DataObject) -> None:
    """However tasks and streams are listed, and whichever point names which as the same, the plan is the same."""
    names = ["a", "b", "c", "d"]
    partners = st.none() | st.sampled_from(names)
    points = {name: {} if (same := data.draw(partners)) in {None, name} else {"same": same} for name in names}
    document = pipeline_document(
        f"s:source > a:point{points['a']} > b:point{points['b']} > k:sink "
        f"s > c:point{points['c']} > d:point{points['d']} > k t:source{{'source': 'traffic'}} > d",
        goals=[{"at": data.draw(st.sampled_from(names)), "holds": {"clean": True}}],
        meets=dict.fromkeys("dk", "either"),
    )
    plans = []
    for _ in range(2):
        plan: Any = None
        try:
            plan = plan_pipeline(read_pipeline(json.dumps(document), surroundings()), check, reasons=False).fillings
        except InvalidDocument as refused:
            plan = {each.code for each in refused.problems}
        plans.append(plan)
        document = {**document, **{part: data.draw(st.permutations(document[part])) for part in ("tasks", "streams")}}
    assert plans[0] == plans[1]


def test_a_module_that_states_too_much_is_not_added_up() -> None:
    """One published before there was a bound fills no place, and a point that names it is refused with the field."""
    form = {**MODULES[3].form.model_dump(mode="json", exclude_none=True), "name": "big", "cost": 1e17}
    modules = (*MODULES, read_module(json.dumps(form)))
    clean = [{"holds": {"clean": True}}]
    assert {"p": "wipe@1"} == planned("s:source > p:point > k:sink", surroundings(modules), goals=clean).fillings
    (problem, *_) = refusal("s:source > p:point{'modules': ['big']} > k:sink", surroundings(modules), goals=clean)
    assert ("/tasks/1/point/modules", "wrong-value") == (problem.pointer, problem.code)
    assert "the cost of the module 'big@1' is 1e+17, more than 1,000,000,000" == problem.message


def test_a_task_that_is_wanted_fresh_is_no_reuse() -> None:
    """An equal task runs, but a fresh one and all below it are started, as merging does."""
    running = [
        RunningVertex(id="1", computes=computes("source", 1, b'{"source":"weather"}')),
        RunningVertex(id="2", computes=computes("lab:clean", 1, b'{"add":0}'), inputs=(Inflow("in", (Outlet("1"),)),)),
    ]
    for text, started in (("s:source > a:lab:clean > k:sink", 1), ("s:source > a!:lab:clean > k:sink", 2)):
        found = planned(text, surroundings(running=running), prefer=["residue"])
        assert [started] == [each.value for each in found.plan.reached]


def test_an_event_never_enters_twice() -> None:
    """Of two ways to one port, at most one holds nothing."""
    found = planned("s:source > p:point > k:sink s > q:point > k", meets={"k": "either"})
    assert 1 == list(found.fillings.values()).count("nothing")


def test_ways_that_nothing_tells_apart_are_refused() -> None:
    """Without a module for either of two ways, the answer names the places that would hold nothing."""
    (problem,) = refusal("s:source > p:point > k:sink s > q:point > k", surroundings([]))
    assert "no-plan" == problem.code
    assert "a stream enters one port twice if 'p', 'q' hold nothing" in problem.message


def test_fixed_tasks_have_the_effects_of_their_modules() -> None:
    """A task of a module's type and config requires and ensures what the module does."""
    text = "s:source > a:map{'add': 273} > p:point > k:sink"
    assert {"p": "nothing"} == planned(text, goals=KELVIN, given=CELSIUS).fillings
    assert refusal(text, goals=KELVIN, given={"s": {"unit": "kelvin"}})


def test_a_plan_is_a_document_that_runs() -> None:
    """What is planned passes every check, whatever planning knows of its types."""
    found = planned("s:source > p:point > q:point > c:count > k:sink", goals=[{"fields": {"value": "float"}}])
    assert 5 == len(flow(dict(found.assembled.document)).tasks)


def test_a_refusal_names_what_cannot_hold_and_what_would_help() -> None:
    """The goal and the conditions at fault, as few as possible, and the nearest module."""
    (goal, *_), text = KELVIN, "s:source > p:point{'modules': ['wipe']} > k:sink"
    (problem,) = refusal(text, goals=[goal, {"holds": {"clean": True}}], given=CELSIUS)
    assert ("/goals/0", "no-plan") == (problem.pointer, problem.code)
    assert "the goal /goals/0 cannot hold" in problem.message
    assert "publish a module for 'p' that ensures clean = true and unit = 'kelvin'" == problem.remedy


def test_a_refusal_offers_to_meet_by_either() -> None:
    """Where only equal values stand in the way."""
    text = "s:source > k:sink t:source{'source': 'traffic'} > k"
    (problem,) = refusal(text, variables=UNITS, given={"s": {"unit": "kelvin"}, "t": {"unit": "celsius"}})
    assert "let streams meet by either at 'k'" == problem.remedy


def test_a_pipeline_keeps_the_rest_of_its_document() -> None:
    """Tasks, ports and streams around the places stay as they are written."""
    text = "s:source > a:split..even > p:point > k:sink a.odd > l:sink"
    at_p = [{"at": "p", **KELVIN[0]}]
    document = pipeline_document(text, goals=at_p, given=CELSIUS)
    found = planned(text, goals=at_p, given=CELSIUS)
    assert [each["id"] for each in document["tasks"]] == [each["id"] for each in found.assembled.document["tasks"]]
    assert flow("s:source > a:split..even > p:map{'add': 273} > k:sink a.odd > l:sink").tasks == (
        flow(dict(found.assembled.document)).tasks
    )
