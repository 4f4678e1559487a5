"""The decision which alternates run: what is permitted, meets the target, is worth most, and stays."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from adaptation.decision import (
    ChoiceDecision,
    ChoiceSpace,
    Ground,
    Patience,
    Permission,
    StandingChoice,
    best_choice,
    decide,
)
from adaptation.documents import Policy, Selection
from adaptation.flow import ONLY, FlowAlternate, FlowEdge, FlowGraph, FlowTask
from tests.adaptation.flows import CORES, GATED, POLICIES, dynamic_in, flows, permissions

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
