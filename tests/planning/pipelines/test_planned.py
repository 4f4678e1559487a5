"""Planned pipelines: which modules fill the places, alone and together, and by which passages and targets."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.task_configs import CONFIGS, EVENT_FIELDS
from dags import AnyTaskType, Config, InvalidDocument, Kind, Schema
from engine import installed_catalogue
from planning.pipelines.module import read_module, target
from planning.pipelines.passages import Passage, passages_of_type
from planning.pipelines.planned import InvalidDocuments, PlannedPipeline, joint_problem, plan_pipeline, plan_together
from planning.pipelines.reader import Pipeline, computes, read_pipeline
from planning.problem import Inflow, Outlet, RunningVertex
from tests.catalogue import TYPES
from tests.notation import flow
from tests.planning.pipelines.open_places import (
    MODULES,
    UNITS,
    check,
    module,
    pipeline,
    pipeline_document,
    planned,
    refusal,
    surroundings,
)
from tests.planning.problems import violations

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


CLEAN = [{"holds": {"clean": True}}]
LINES = (
    "s:source > p:point{'modules': ['wipe', 'clean']} > k:sink",
    "s:source > p:point{'modules': ['clean']} > k:sink",
    "s:source > p:point > q:point{'modules': ['wipe']} > k:sink",
    "s:source > a:lab:clean > p:point > k:sink",
)


def started(plans: Sequence[PlannedPipeline]) -> int:
    """The distinct tasks of documents that begin at one source, by all that is above them."""
    found: set[object] = set()
    for each in plans:
        tasks = {task["id"]: task for task in each.assembled.document["tasks"]}
        above = {stream["to"]: stream["from"] for stream in each.assembled.document["streams"]}

        def key(name: str, tasks: dict = tasks, above: dict = above) -> object:  # type: ignore[type-arg]  # documents
            task = tasks[name]
            return task["type"], str(task.get("config", {})), key(above[name], tasks, above) if name in above else None

        found |= {key(name) for name in tasks}
    return len(found)


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=3))
def test_together_never_more_starts_than_alone(lines: list[str]) -> None:
    """And each document reaches its goals."""
    pipelines = [pipeline(each, goals=CLEAN) for each in lines]
    alone = [plan_pipeline(each, check) for each in pipelines]
    together = plan_together(pipelines, [check] * len(pipelines))
    assert started(together) <= started(alone)
    for each in together:
        assert not list(violations(each.pipeline.problem, each.plan))


def test_of_two_the_first_gives_up_what_is_cheaper() -> None:
    """Since the other cannot share it."""
    pipelines = [pipeline(each, goals=CLEAN) for each in LINES[:2]]
    assert ["wipe@1", "clean@1"] == [plan_pipeline(each, check).fillings["p"] for each in pipelines]
    assert ["clean@1"] * 2 == [each.fillings["p"] for each in plan_together(pipelines, [check] * 2)]


def test_those_without_a_plan_are_named() -> None:
    """Not the one between them, which has one."""
    without = "s:source > p:point{'modules': ['measure']} > k:sink"
    pipelines = [pipeline(each, goals=CLEAN) for each in (without, LINES[0], without)]
    with pytest.raises(InvalidDocuments) as refused:
        plan_together(pipelines, [check] * 3)
    assert {0, 2} == set(refused.value.refusals)


def test_problems_keep_apart() -> None:
    """A name in one is not that of another."""
    one: Pipeline = pipeline(LINES[0], goals=CLEAN)
    joint = joint_problem([one.problem, one.problem])
    assert 2 * len(one.problem.vertices) == len({each.id for each in joint.vertices})
    assert {"/0/goals/0", "/1/goals/0"} == {each.name for each in joint.goals}


CATALOGUE = installed_catalogue()
KINDS = st.sampled_from(Kind)


def configured(kind: AnyTaskType, config: object) -> tuple[AnyTaskType, Config]:
    """A type with the ports that its config gives it, and the config."""
    made: Config = kind.config.model_validate_json(json.dumps(config))
    return kind.of(made), made


def installed() -> list[tuple[str, AnyTaskType, Config]]:
    """Every installed type with a config, and those of the tests that need none."""
    found = [(name, CATALOGUE.find(name), config) for name, config in CONFIGS.items()]
    plain: list[tuple[str, AnyTaskType, object]] = [
        (each.name, each, {})
        for each in TYPES
        if each.name not in {"source", "fetch", "clock", "connecting_code", "stateful_code"}
    ]
    return [
        (name, *configured(kind, _unowned(config))) for name, kind, config in [*found, *plain] if kind and kind.inputs
    ]


def _unowned(config: object) -> object:
    """Without owners of places and secrets, which only plans of jobs name."""
    if isinstance(config, dict):
        named = config.keys() & {"place", "secret"}
        return {key: _unowned(each) for key, each in config.items() if not (named and key == "owner")}
    return config


@pytest.mark.parametrize(
    ("kind", "config"), [pytest.param(kind, config, id=name) for name, kind, config in installed()]
)
@settings(max_examples=10)
@given(data=st.data())
def test_fields_leave_as_predicted(kind: AnyTaskType, config: Config, data: st.DataObject) -> None:
    """Whatever fields of whatever kinds enter: if a case takes them, those leave that the type says."""
    cases = passages_of_type(kind, config, kind.inputs)
    if kind.is_sink:
        assert all(not case.leaves for case in cases)
        return
    case = data.draw(st.sampled_from(cases))
    entering = {port: _drawn(data, case, port) for port in kind.inputs}
    expected = kind.output_schema(config, entering)
    for port, leaving in case.leaves.items():
        rest = entering[leaving.rest].fields if leaving.rest else {}
        base = entering[leaving.rest or kind.inputs[0]].fields
        predicted = {name: each for name, each in rest.items() if name not in leaving.drops}
        predicted |= {name: base[name] for name in leaving.keeps} | dict(leaving.sets)
        assert predicted == dict(expected[port].fields)


def _drawn(data: st.DataObject, case: Passage, port: str) -> Schema:
    """A schema that a case takes: what it needs, and anything else."""
    needs = case.needs.get(port, {})
    known = case.fields() | set(EVENT_FIELDS)
    others = data.draw(
        st.dictionaries(st.text("uvw", min_size=1, max_size=3).filter(lambda name: name not in known), KINDS)
    )
    needed = {name: data.draw(st.sampled_from(sorted(kinds))) for name, kinds in needs.items()}
    return Schema.of({**others, **needed})


@given(st.text(max_size=40) | st.from_regex(r"[A-Za-z0-9.:\[\]-]{1,30}:[0-9]{1,6}", fullmatch=True))
def test_a_target_has_one_spelling_or_is_refused(text: str) -> None:
    """What is taken stays as it is when it is taken again."""
    try:
        found = target(text)
    except ValueError:
        return
    assert found == target(found)


@pytest.mark.parametrize(
    "text",
    [
        *("", "host", "host:", ":80", "host:0", "host:65536", "host:080", "a b:80", "-a:80", "[::1:80", "[::g]:80"),
        *("::1:80", "http://host:80", "host:80/path", "user@host:80", "host:\u0661", "[fe80::1%eth0]:80"),
        "a" * 254 + ":80",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    """URLs, ranges, wildcards, and ports that there are not."""
    with pytest.raises(ValueError):  # noqa: PT011 - the parser of the module says what is wrong
        target(text)
