"""The decision which alternates run: permitted, worth most, steady, shared, and by forecasts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation import decision as searched
from adaptation.decision import (
    ChoiceDecision,
    ChoiceSpace,
    Ground,
    Patience,
    Permission,
    StandingChoice,
    best_choice,
    decide,
    guards_of,
    permission,
    value_guards_of,
)
from adaptation.documents import DynamicDocument, Policy, Selection
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowFigures, FlowGraph, FlowTask, TaskMeasure, flow_of
from adaptation.forecast import forecast
from adaptation.guard_states import BEFORE_ANY_LOOK, DomainEvent, GuardStates, Observed, advance
from adaptation.guards import MetricKey
from adaptation.shared_switches import Sharer, allowances, decide_together
from tests.adaptation.drawn import CORES, GATED, POLICIES, dynamic_in, flows, permissions, read, spaces

NEARLY = 1e-9


@st.composite
def grounds(draw: st.DrawFn) -> Ground:
    """What a decision rests on."""
    flow = draw(flows(3))
    permission = draw(permissions(flow))
    return Ground(flow=flow, permission=permission, policy=draw(POLICIES), cores=draw(CORES), now=0.0)


@st.composite
def standing_choices(draw: st.DrawFn, flow: FlowGraph) -> StandingChoice:
    """Anything, permitted or not."""
    alternates = {task: draw(st.sampled_from(names)) for task, names in dynamic_in(flow).items()}
    return StandingChoice(choice=Selection(alternates=alternates, opened={GATED: draw(st.booleans())}))


def decided(ground: Ground, standing: StandingChoice, looks: int, step: float = 10.0) -> Iterator[ChoiceDecision]:
    """The decisions of some looks at the same load."""
    for look in range(looks):
        decision = decide(replace(ground, now=look * step), standing)
        standing = decision.standing
        yield decision


@settings(max_examples=80)
@given(data=st.data(), ground=grounds())
def test_only_what_is_permitted_is_chosen(data: st.DataObject, ground: Ground) -> None:
    """At once, and each change has its reason."""
    standing = data.draw(standing_choices(ground.flow))
    decision = decide(ground, standing)
    before, after = standing.choice, decision.choice
    assert all(name in ground.permission.alternates[task] for task, name in after.alternates.items())
    assert ground.permission.opened == after.opened
    changes = sum(before.alternates[task] != name for task, name in after.alternates.items())
    changes += before.opened != after.opened
    assert changes == len(decision.reasons)
    assert decision.standing.choice == after


@settings(max_examples=80)
@given(data=st.data(), ground=grounds())
def test_under_a_constant_load_it_comes_to_rest_at_what_is_best(data: st.DataObject, ground: Ground) -> None:
    """After two switches at most, at what meets the target if anything does; nothing with the margin has more value."""
    decisions = list(decided(ground, data.draw(standing_choices(ground.flow)), 20))
    assert sum(bool(each.reasons) for each in decisions) <= 2
    assert not any(each.reasons for each in decisions[-10:])
    last, policy = decisions[-1], ground.policy
    permitted = {task: sorted(each) for task, each in ground.permission.alternates.items()}
    space = ChoiceSpace(ground.flow, permitted, ground.permission.opened, {})
    meets = best_choice(space, ground.limit / ground.target)
    least = max(ground.target - policy.tolerance, 0.0)
    if ground.flow.need(meets) * ground.target <= ground.limit * (1 - NEARLY):
        assert last.omega >= least - NEARLY
    margin = best_choice(space, ground.limit / (ground.target + policy.tolerance))
    if ground.flow.need(margin) * (ground.target + policy.tolerance) <= ground.limit * (1 - NEARLY):
        assert last.value >= ground.flow.value(margin.alternates) - NEARLY


LEVELS = {
    "fine": FlowAlternate(0.010, 1.0, 1.0),
    "middle": FlowAlternate(0.004, 1.0, 0.7),
    "coarse": FlowAlternate(0.001, 1.0, 0.4),
}


def flow_at(rate: float) -> FlowGraph:
    """One task with three alternates, at a rate."""
    source = FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=rate)
    return FlowGraph(tasks=(source, FlowTask(id="a", feeds=(FlowEdge(0, None),), alternates=LEVELS)))


def ground_at(rate: float, now: float, *, permitted: frozenset[str] = frozenset(LEVELS)) -> Ground:
    """That flow on one core."""
    return Ground(
        flow=flow_at(rate),
        permission=Permission(alternates={"a": permitted}, opened={}, rules={}, unguarded=frozenset()),
        policy=Policy(),
        cores=1.0,
        now=now,
        patience=Patience(steady_s=20.0, cool_down_s=60.0),
    )


def replayed(rates: dict[float, float]) -> list[tuple[float, str]]:
    """When the flow is switched to what, with a look every five seconds, at rates that change at some moments."""
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}))
    found = []
    for now in range(0, 400, 5):
        rate = rates[max(each for each in rates if each <= now)]
        decision = decide(ground_at(rate, float(now)), standing)
        if decision.reasons:
            found.append((float(now), decision.choice.alternates["a"]))
        standing = decision.standing
    return found


def test_it_gives_way_at_once_and_comes_back_with_patience() -> None:
    """Down when the rate rises; up once there was room for a while, and the last switch is long enough ago."""
    assert [(50.0, "coarse"), (220.0, "fine")] == replayed({0: 100.0, 50: 1_000.0, 200: 50.0})
    assert [(50.0, "middle"), (110.0, "fine")] == replayed({0: 100.0, 50: 300.0, 60: 50.0})


def test_a_rate_that_goes_to_and_fro_does_not_make_it_flutter() -> None:
    """A better choice that comes and goes is not taken."""
    flutter = {float(now): 300.0 if now % 20 else 50.0 for now in range(0, 400, 10)}
    assert [(10.0, "middle")] == replayed(flutter)


def test_what_is_missed_within_the_tolerance_changes_nothing() -> None:
    """At a throughput of 0.8, 0.76 is enough to stay, and 0.74 is not."""
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}))
    assert "fine" == decide(ground_at(100 / 0.76, 0.0), standing).choice.alternates["a"]
    decision = decide(ground_at(100 / 0.74, 0.0), standing)
    assert "middle" == decision.choice.alternates["a"]
    (reason,) = decision.reasons
    assert "a: 'fine' becomes 'middle', since it needs 1.35 cores of 1, so less than the target is done" == reason


def test_a_guard_that_ends_takes_its_alternate_away_at_once() -> None:
    """Whatever was switched before."""
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}), since={"a": 0.0})
    decision = decide(ground_at(10.0, 1.0, permitted=frozenset({"coarse", "middle"})), standing)
    assert ("a: 'fine' becomes 'middle', since the guard of 'fine' is not active",) == decision.reasons


def test_where_the_rest_cannot_stay_all_is_chosen_anew() -> None:
    """A guard takes the cheap alternate of one task away, so the other gives way at once."""
    source = FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=100.0)
    tasks = [FlowTask(id=each, feeds=(FlowEdge(0, None),), alternates=LEVELS) for each in "ab"]
    ground = replace(
        ground_at(100.0, 0.0),
        flow=FlowGraph(tasks=(source, *tasks)),
        permission=Permission(
            alternates={"a": frozenset({"fine"}), "b": frozenset(LEVELS)},
            opened={},
            rules={"a": "alarm"},
            unguarded=frozenset(),
        ),
    )
    decision = decide(ground, StandingChoice(choice=Selection(alternates={"a": "coarse", "b": "fine"})))
    assert {"a": "fine", "b": "coarse"} == decision.choice.alternates
    assert decision.reasons == (
        "a: 'coarse' becomes 'fine', since the rule 'alarm' is active",
        "b: 'fine' becomes 'coarse', since the others need its cores",
    )


def test_a_bound_on_latency_asks_for_everything() -> None:
    """Since what is left over would wait longer and longer."""
    ground = ground_at(110.0, 0.0)
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}))
    assert "fine" == decide(ground, standing).choice.alternates["a"]
    bounded = replace(ground, policy=Policy(latency=5.0))
    assert "middle" == decide(bounded, standing).choice.alternates["a"]


def every_choice(space: ChoiceSpace) -> list[Selection]:
    """All that are permitted."""
    names = product(*space.alternates.values())
    return [space.selection(dict(zip(space.alternates, each, strict=True))) for each in names]


def flow_by_paths(flow: FlowGraph, choice: Selection) -> float:
    """The need of a choice by its definition: along every path that an event may take."""

    def entering(at: int) -> float:
        task = flow.tasks[at]
        total = task.rate
        for edge in task.feeds:
            if edge.stream is None or choice.opened[edge.stream]:
                above = flow.tasks[edge.parent]
                chosen = above.alternates[choice.alternates.get(above.id, ONLY)]
                total += entering(edge.parent) * chosen.selectivity
        return total

    return sum(
        entering(at) * task.alternates[choice.alternates.get(task.id, ONLY)].cost for at, task in enumerate(flow.tasks)
    )


@settings(max_examples=80)
@given(space=spaces(), cores=CORES)
def test_no_permitted_choice_is_better(space: ChoiceSpace, cores: float) -> None:
    """Of those that fit none has more value, and of those with as much none needs less; else none is cheaper."""
    found, flow = best_choice(space, cores), space.flow
    assert all(name in space.alternates[task] for task, name in found.alternates.items())
    needs = {flow.value(each.alternates): flow_by_paths(flow, each) for each in every_choice(space)}
    need, value = flow_by_paths(flow, found), flow.value(found.alternates)
    assert needs
    for each in every_choice(space):
        other, worth = flow_by_paths(flow, each), flow.value(each.alternates)
        if need > cores * (1 + NEARLY):
            assert other >= need * (1 - NEARLY)
        elif other <= cores * (1 - NEARLY):
            assert worth <= value + NEARLY
            assert abs(worth - value) > NEARLY or other >= need * (1 - NEARLY)


@settings(max_examples=60)
@given(space=spaces(), cores=CORES, more=CORES)
def test_more_cores_never_lower_the_value(space: ChoiceSpace, cores: float, more: float) -> None:
    """Of what fits, and of what does not."""
    few, many = (best_choice(space, each) for each in (cores, cores + more))
    assert space.flow.value(few.alternates) <= space.flow.value(many.alternates) + NEARLY


@settings(max_examples=60)
@given(space=spaces(alike=True), cores=CORES, more=CORES)
def test_dividing_the_cores_is_nearly_as_good_as_trying_everything(
    space: ChoiceSpace, cores: float, more: float
) -> None:
    """It fits if anything does, is at least as good as with one percent fewer cores, and more cores help."""
    found, flow = [], space.flow
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        found = [best_choice(space, each) for each in (cores, cores + more)]
    exact, scarce = best_choice(space, cores), best_choice(space, cores * 0.99)
    assert (flow.need(exact) <= cores) == (flow.need(found[0]) <= cores * (1 + NEARLY))
    widest = max(map(flow.need, every_choice(space)))
    if flow.need(exact) <= cores and widest < 10 * cores:
        assert flow.value(found[0].alternates) >= flow.value(scarce.alternates) - NEARLY
    assert flow.value(found[0].alternates) <= flow.value(found[1].alternates) + NEARLY


@settings(max_examples=60)
@given(space=spaces(), cores=CORES)
def test_climbing_fits_if_anything_does(space: ChoiceSpace, cores: float) -> None:
    """And stops where no single change that fits is better."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        patched.setattr(searched, "_is_divisible", lambda _space: False)
        found = best_choice(space, cores)
    flow = space.flow
    assert (flow.need(best_choice(space, cores)) <= cores) == (flow.need(found) <= cores * (1 + NEARLY))
    if flow.need(found) <= cores:
        for task, names in space.alternates.items():
            for name in names:
                other = space.selection({**found.alternates, task: name})
                is_better = flow.value(other.alternates) > flow.value(found.alternates) + NEARLY
                assert not is_better or flow.need(other) > cores * (1 - 1e-6)


@settings(max_examples=60)
@given(space=spaces())
def test_where_nothing_fits_the_cheapest_is_found_without_trying_everything(space: ChoiceSpace) -> None:
    """With as little need as any choice has."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        found = best_choice(space, 0.0)
    assert flow_by_paths(space.flow, found) == pytest.approx(
        min(flow_by_paths(space.flow, each) for each in every_choice(space))
    )


core_values = st.sampled_from([0.0, 0.1, 1.0, 10.0])


@settings(max_examples=80)
@given(space=spaces(), cores=CORES, core_value=core_values)
def test_no_permitted_choice_has_more_value_less_what_it_costs(
    space: ChoiceSpace, cores: float, core_value: float
) -> None:
    """Of those that fit, however many choices are tried."""
    priced = space._replace(core_value=core_value)
    found = best_choice(priced, cores)
    if space.flow.need(found) <= cores:
        for each in every_choice(space):
            fits = flow_by_paths(space.flow, each) <= cores * (1 - NEARLY)
            assert not fits or priced.merit(each.alternates) <= priced.merit(found.alternates) + 2 * NEARLY


@settings(max_examples=60)
@given(space=spaces(alike=True), cores=CORES, core_value=core_values)
def test_dividing_the_cores_counts_their_price(space: ChoiceSpace, cores: float, core_value: float) -> None:
    """Nearly as much is left of the value as by trying everything."""
    priced, flow = space._replace(core_value=core_value), space.flow
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(searched, "_MOST_WORK", 0)
        found = best_choice(priced, cores)
    scarce, widest = best_choice(priced, cores * 0.99), max(map(flow.need, every_choice(space)))
    if flow.need(scarce) <= cores * 0.99 and widest < 10 * cores:
        assert priced.merit(found.alternates) >= priced.merit(scarce.alternates) - 0.002 * core_value * widest - NEARLY


@settings(max_examples=60)
@given(data=st.data(), ground=grounds())
def test_with_worth_it_comes_to_rest_where_nothing_is_clearly_better(data: st.DataObject, ground: Ground) -> None:
    """After two switches at most, also where money bounds the cores."""
    policy = ground.policy.model_copy(
        update={
            "worth": data.draw(st.sampled_from([0.0, 0.5, 5.0])),
            "budget": data.draw(st.sampled_from([None, 1.0, 24.0])),
        }
    )
    ground = replace(ground, policy=policy, price=data.draw(st.sampled_from([0.0, 0.2, 2.0])))
    decisions = list(decided(ground, data.draw(standing_choices(ground.flow)), 20))
    assert sum(bool(each.reasons) for each in decisions) <= 2
    assert not decisions[-1].reasons


def test_value_that_is_worth_less_than_its_cores_is_not_paid_for() -> None:
    """At the price of an hour of a core; where nobody names a worth, value counts without a price."""
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}), better_since=0.0)
    ground = replace(ground_at(50.0, 30.0), price=1.0)
    assert "fine" == decide(ground, standing).choice.alternates["a"]
    worthy = replace(ground, policy=Policy(worth=5.0))
    assert "fine" == decide(worthy, standing).choice.alternates["a"]
    decision = decide(replace(ground, policy=Policy(worth=0.5)), standing)
    assert "coarse" == decision.choice.alternates["a"]
    (reason,) = decision.reasons
    assert reason.endswith("which is worth less than the 0.45 an hour that it saves")


def test_a_budget_bounds_the_cores_that_it_pays_for() -> None:
    """That of the policy by the day, and what its tenant has left for it by the hour."""
    standing = StandingChoice(choice=Selection(alternates={"a": "fine"}))
    ground = replace(ground_at(100.0, 0.0), price=1.0)
    assert "fine" == decide(replace(ground, policy=Policy(budget=24.0)), standing).choice.alternates["a"]
    poor = decide(replace(ground, policy=Policy(budget=12.0)), standing)
    assert "middle" == poor.choice.alternates["a"]
    assert "that its budget pays for" in poor.reasons[0]
    assert "middle" == decide(replace(ground, allowance=0.5), standing).choice.alternates["a"]
    assert "fine" == decide(replace(ground, allowance=0.5, price=0.0), standing).choice.alternates["a"]


def test_of_one_budget_the_dataflows_of_most_worth_have_their_part_first() -> None:
    """Each may have its cheapest choice; what is left goes down the row, and one budget never pays for too much."""

    def sharer(name: str, worth: float, alternate: str) -> Sharer:
        ground = replace(ground_at(100.0, 0.0), price=1.0, policy=Policy(worth=worth))
        standing = StandingChoice(choice=Selection(alternates={"a": alternate}))
        return Sharer(dataflow=name, ground=ground, standing=standing, running={})

    allowed = allowances([sharer("cheap", 1.0, "coarse"), sharer("dear", 5.0, "fine")], 1.2)
    assert {"dear": pytest.approx(1.1), "cheap": pytest.approx(0.2)} == allowed
    assert {"one": pytest.approx(0.1)} == allowances([sharer("one", 1.0, "fine")], 0.0)


def test_what_is_planned_for_all_is_switched_with_patience() -> None:
    """Up or down; but neither what is not permitted, nor what does not fit in the cores that are there."""
    fine = StandingChoice(choice=Selection(alternates={"a": "fine"}))
    ground = replace(ground_at(50.0, 0.0), planned={"a": "coarse"})
    waiting = decide(ground, fine)
    assert "fine" == waiting.choice.alternates["a"]
    decision = decide(replace(ground, now=20.0), waiting.standing)
    assert "coarse" == decision.choice.alternates["a"]
    assert "by the plan of all machines" in decision.reasons[0]
    kept = replace(ground_at(50.0, 20.0, permitted=frozenset({"fine", "middle"})), planned={"a": "coarse"})
    assert "fine" == decide(kept, waiting.standing).choice.alternates["a"]
    middle = StandingChoice(choice=Selection(alternates={"a": "middle"}), better_since=0.0)
    crowded = replace(ground_at(200.0, 20.0), planned={"a": "fine"})
    assert "middle" == decide(crowded, middle).choice.alternates["a"]
    assert "middle" == decide(replace(ground, planned={"a": "middle"}, now=20.0), middle).choice.alternates["a"]


@given(st.data())
@settings(max_examples=3)
def test_a_hundred_tasks_are_decided(data: st.DataObject) -> None:
    """Within the cores, and with more value than the cheapest choice has."""
    share = data.draw(st.sampled_from([1.0, 0.99]))
    source = FlowTask(id="s", feeds=(), alternates={ONLY: FlowAlternate(0.0, 1.0, 1.0)}, rate=8_000.0)
    levels = {
        "low": FlowAlternate(1e-6, share, 0.2),
        "middle": FlowAlternate(3e-6, 1.0, 0.7),
        "high": FlowAlternate(9e-6, 1.0, 1.0),
    }
    tasks = [FlowTask(id=f"t{at}", feeds=(FlowEdge(at, None),), alternates=levels) for at in range(100)]
    flow = FlowGraph(tasks=(source, *tasks))
    space = ChoiceSpace(flow, {each.id: sorted(levels) for each in tasks}, {}, {})
    found = best_choice(space, 3.0)
    assert flow.need(found) <= 3.0
    assert 0.7 < flow.value(found.alternates)


NIGHT = {"clock": {"from": "22:00", "to": "06:00"}}
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "n",
    "tasks": [
        {"id": "s", "type": "source", "config": {"source": "meters"}},
        {
            "id": "a",
            "alternates": [
                {
                    "name": "fine",
                    "type": "noop",
                    "cost": 900,
                    "value": 2,
                    "when": {
                        "activate": {"metric": "rate", "below": 80},
                        "deactivate": {"metric": "rate", "above": 99},
                    },
                },
                {
                    "name": "learnt",
                    "type": "where",
                    "config": {"expression": "kw > 1"},
                    "cost": 100,
                    "value": {"event": "errors", "field": "mse", "factor": -1, "plus": 1, "otherwise": 0.5},
                    "when": {"activate": {"event": "errors", "within": 50}},
                },
            ],
        },
        {"id": "k", "type": "output"},
    ],
    "streams": [
        {"from": "s", "to": "a"},
        {"from": "a", "to": "k", "when": {"activate": {"event": "peak"}, "deactivate": {"event": "calm"}}},
    ],
    "policy": {
        "events": {name: {"dataflow": "other", "output": name} for name in ("peak", "calm", "errors")},
        "rules": [
            {"name": "night", "activate": NIGHT, "choose": {"a": "learnt"}},
            {"name": "flood", "activate": {"metric": "rate", "above": 500}, "choose": {"a": "fine", "a>k": True}},
        ],
    },
}
NOON, MIDNIGHT = 12 * 3_600.0, 24 * 3_600.0


def looked(dynamic: DynamicDocument, *looks: Observed) -> GuardStates:
    """The states of its guards after some looks."""
    states = BEFORE_ANY_LOOK
    for look in looks:
        guards, values = guards_of(dynamic, dynamic.policy), value_guards_of(dynamic)
        states = advance(guards, values, states, look)
    return states


def at(now: float, rate: float, *events: str) -> Observed:
    """A look, with the rate and some events that came."""
    fields = {"mse": 0.25}
    return Observed(
        now=now,
        metrics={MetricKey("rate", None): rate},
        events=tuple(DomainEvent(name=each, at=now, fields=fields) for each in events),
    )


def test_guards_permit_and_rules_fix() -> None:
    """A rule wins over guards, and an earlier rule over a later one."""
    dynamic = read(DOCUMENT)

    def permitted(*looks: Observed) -> tuple[set[str], bool, set[str]]:
        found = permission(dynamic, dynamic.policy, looked(dynamic, *looks), dynamic.first)
        return set(found.alternates["a"]), found.opened["a>k"], set(found.rules.values())

    assert ({"fine"}, False, set()) == permitted(at(NOON, 50))
    assert ({"fine"}, False, set()) == permitted(at(NOON, 50), at(NOON + 1, 90))
    assert ({"fine", "learnt"}, True, set()) == permitted(at(NOON, 50, "errors", "peak"), at(NOON + 1, 90))
    assert ({"learnt"}, False, set()) == permitted(at(NOON, 200, "errors", "peak"), at(NOON + 1, 200, "calm"))
    assert ({"learnt"}, False, {"night"}) == permitted(at(MIDNIGHT, 50))
    assert ({"learnt"}, True, {"night", "flood"}) == permitted(at(MIDNIGHT, 501))
    assert ({"fine"}, True, {"flood"}) == permitted(at(NOON, 501))


def test_if_no_alternate_is_allowed_the_one_that_runs_stays() -> None:
    """And it is said."""
    dynamic = read(DOCUMENT)
    found = permission(dynamic, dynamic.policy, looked(dynamic, at(NOON, 200)), dynamic.first)
    assert {"a": frozenset({"fine"})} == found.alternates
    assert {"a"} == found.unguarded


def test_a_document_flows_in_declared_numbers_until_others_are_measured() -> None:
    """Values are those of the best, and follow the newest event."""
    dynamic = read(DOCUMENT)
    (task,) = [each for each in flow_of(dynamic).tasks if each.is_dynamic]
    assert {"fine": (0.0009, 1.0, 1.0), "learnt": (0.0001, 1.0, 0.25)} == dict(task.alternates)
    numbers = looked(dynamic, at(NOON, 1, "errors")).numbers
    figures = FlowFigures(rates={"s": 10.0}, measured={("a", "fine"): TaskMeasure(0.002, 0.5)}, numbers=numbers)
    flow = flow_of(dynamic, figures)
    (task,) = [each for each in flow.tasks if each.is_dynamic]
    assert {"fine": (0.002, 0.5, 1.0), "learnt": (0.0001, 1.0, 0.375)} == dict(task.alternates)
    assert 0.02 == flow.need(dynamic.first)


@st.composite
def sharers(draw: st.DrawFn) -> list[Sharer]:
    """Up to three dataflows of the same tasks, each with a policy and guards of its own."""
    flow = draw(flows(3))
    return [
        Sharer(
            dataflow=name,
            ground=Ground(
                flow=flow, permission=draw(permissions(flow)), policy=draw(POLICIES), cores=draw(CORES), now=0.0
            ),
            standing=draw(standing_choices(flow)),
            running={task.id: number for number, task in enumerate(flow.tasks) if draw(st.integers(0, 3))},
        )
        for name in draw(st.sampled_from([["x"], ["x", "y"], ["x", "y", "z"]]))
    ]


@settings(max_examples=60)
@given(data=st.data(), several=sharers())
def test_nobodys_guards_or_policy_change_anothers_choice(data: st.DataObject, several: list[Sharer]) -> None:
    """Whatever the others permit, ask for or have."""
    first, *others = several
    changed = [
        replace(
            each,
            ground=replace(
                each.ground, permission=data.draw(permissions(each.ground.flow)), policy=data.draw(POLICIES)
            ),
            standing=data.draw(standing_choices(each.ground.flow)),
        )
        for each in others
    ]
    alone = decide_together([first]).decisions["x"]
    assert alone == decide_together(several).decisions["x"] == decide_together([first, *changed]).decisions["x"]


@settings(max_examples=60)
@given(several=sharers())
def test_each_change_is_in_one_switch(several: list[Sharer]) -> None:
    """Whoever shares what is switched."""
    found = decide_together(several)
    switched = sorted((dataflow, task) for each in found.switches for dataflow, task in each.items())
    assert switched == sorted(
        (each.dataflow, task)
        for each in several
        for task, name in found.decisions[each.dataflow].choice.alternates.items()
        if each.standing.choice.alternates[task] != name
    )


def sharer(name: str, permitted: frozenset[str], runs: str, instance: int = 1) -> Sharer:
    """A dataflow of a source and one task with alternates, which run as some instances."""
    return Sharer(
        dataflow=name,
        ground=replace(ground_at(50.0, 0.0, permitted=permitted), patience=Patience(steady_s=0.0)),
        standing=StandingChoice(choice=Selection(alternates={"a": runs})),
        running={"s": 0, "a": instance},
    )


@pytest.mark.parametrize(
    ("theirs", "runs", "switches"),
    [
        # Both want the same.
        ("middle", "fine", ({"x": "a", "y": "a"},)),
        # The other goes on.
        ("fine", "fine", ({"x": "a"},)),
        # The other runs it already.
        ("middle", "middle", ({"x": "a"},)),
    ],
)
def test_who_wants_the_same_switches_together(theirs: str, runs: str, switches: tuple[dict[str, str], ...]) -> None:
    """And who differs parts, until they agree again."""
    found = decide_together([sharer("x", frozenset({"middle"}), "fine"), sharer("y", frozenset({theirs}), runs)])
    assert switches == found.switches


RATES = st.lists(st.floats(0, 1e6), max_size=40)


@given(history=RATES, ahead=st.integers(1, 12))
def test_a_forecast_stays_within_bounds(history: list[float], ahead: int) -> None:
    """Never below 0, nor above twice what was ever seen."""
    found = forecast(history, ahead)
    assert ahead == len(found.rates)
    assert all(0 <= each <= 2 * max(history, default=0.0) for each in found.rates)
    assert found.error >= 0


@given(rate=st.floats(0, 1e6), length=st.integers(1, 40))
def test_a_constant_rate_goes_on(rate: float, length: int) -> None:
    """By the simplest method."""
    found = forecast([rate] * length, 3)
    assert ("newest", (rate,) * 3) == (found.method, found.rates)


def test_what_rises_is_expected_to_rise_further() -> None:
    """So that room is made before it is needed."""
    found = forecast([10.0 * step for step in range(20)], 3)
    assert found.method.startswith("trend")
    assert 190 < found.highest < 230
