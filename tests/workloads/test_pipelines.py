"""The paper's pipelines: each is planned as the plain dataflow beside it, and both compute what an oracle does."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planner.memory_job import MemoryJob, batches_of
from dags import InvalidDocument
from planning.explanation import supports
from planning.pipelines.planned import PlannedPipeline
from workloads.pipelines.scenario import (
    SCENARIOS,
    PipelineScenario,
    canonical_form,
    load_scenario,
    planned_scenario,
    surroundings_of,
)
from workloads.workload import Event

Rounds = Iterable[Mapping[str, Event]]
Left = dict[str, list[dict[str, Any]]]
"""What reaches each sink: the fields that identify an event, and the results."""


def house(rounds: Rounds) -> Left:
    found = []
    for each in rounds:
        reading = each["house"]
        inside, outside = ((reading[name] - 32) / 1.8 for name in ("inside", "outside"))
        if -10 <= inside <= 45:
            ideal = 21 if 6 <= reading["time"].hour < 22 else 17
            power = 180 * (ideal - outside) + 900 * (ideal - inside)
            found.append({"house": reading["house"], "time": reading["time"], "power": max(0, power)})
    return {"out": found}


def highway(rounds: Rounds) -> Left:
    found = []
    for each in rounds:
        vehicle, accident = each["highway.vehicles"], each["highway.accidents"]
        gap = vehicle["ahead_position"] - vehicle["position"]
        distance = accident["site"] - vehicle["position"]
        wanted = 50 + 100 * max(0, 1 - distance / 2000)
        advice = min(36, max(0, vehicle["ahead_speed"] + (gap - wanted) / 10))
        found.append({"reading": vehicle["reading"], "distance": distance, "advice": advice})
    return {"out": found}


def patients(rounds: Rounds) -> Left:
    """A patient in a round is assessed only if the heart rate is plausible."""
    estimates: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 30.0))
    risks: dict[str, list[float]] = defaultdict(list)
    left: Left = {"alarms": [], "means": []}
    for each in rounds:
        patient = each["ward.heart"]["patient"]
        estimate, variance = estimates[patient]
        gain = (variance + 0.5) / (variance + 0.5 + 0.32)
        estimate += gain * (each["ward.movement"]["movement"] - estimate)
        estimates[patient] = estimate, (1 - gain) * (variance + 0.5)
        bpm = each["ward.heart"]["bpm"]
        if not 25 <= bpm <= 230:
            continue
        heart, pressure = _part((bpm - 90) / 60), _part((105 - each["ward.pressure"]["systolic"]) / 30)
        still, gone = _part(1 - estimate / 2), not each["ward.bed"]["in_bed"]
        risk = max(heart * still, still * gone, heart * pressure)
        if risk >= 0.6:
            left["alarms"].append({"patient": patient, "round": each["ward.heart"]["round"], "risk": risk})
        risks[patient].append(risk)
        if len(risks[patient]) == 10:
            left["means"].append({"patient": patient, "risk": sum(risks.pop(patient)) / 10})
    return left


def _part(value: float) -> float:
    return min(1.0, max(0.0, value))


ORACLES = {"house": house, "highway": highway, "patients": patients}


EACH = pytest.mark.parametrize("name", SCENARIOS)
BATCHES, ROUNDS = 3, 500
FILLINGS = {
    "house": {
        "unit": "in-celsius@1",
        "check": "plausible-house@2",
        "ideal": "comfort-by-hour@1",
        "power": "heating-power@1",
    },
    "highway": {
        "spare-entry": "nothing",
        "gap": "vehicle-gap@1",
        "place": "vehicle-place@1",
        "pace": "pace-ahead@1",
        "spare-gap": "nothing",
        "accident": "accident-place@1",
        "meeting": "same-reading@2",
        "distance": "accident-distance@1",
        "spare-distance": "nothing",
        "advice": "advised-speed@1",
    },
    "patients": {
        "heart-check": "plausible-heart@1",
        "pressure-check": "plausible-pressure@1",
        "movement-check": "steady-movement@2",
        "heart-level": "fast-heart@1",
        "pressure-level": "low-pressure@1",
        "movement-level": "stillness@1",
        "bed-level": "out-of-bed@1",
        "heart-and-movement": "same-round@1",
        "movement-and-bed": "same-round@1",
        "heart-and-pressure": "same-round@1",
        "collapse": "collapse@1",
        "fall": "fall@1",
        "shock": "shock@1",
        "risks": "same-round@1",
        "risk": "greatest-risk@1",
        "alarm": "at-risk@1",
        "mean": "mean-risk@1",
    },
}
SUPPORTS = {
    "house": [("power",), ("ideal",)],
    "highway": [("advice",), ("distance",)],
    "patients": [("alarm", "mean"), ("alarm",), ("mean",)],
}


def planned(scenario: PipelineScenario) -> PlannedPipeline:
    return planned_scenario(scenario.pipeline, surroundings_of(scenario))


def without(scenario: PipelineScenario, *modules: str) -> PipelineScenario:
    left = tuple(each for each in scenario.modules if each["name"] not in modules)
    assert len(left) < len(scenario.modules)
    return dataclasses.replace(scenario, modules=left)


@EACH
def test_the_best_plan_is_the_plain_dataflow(name: str) -> None:
    """In canonical form, which has no labels of modules, and no places that hold nothing."""
    scenario = load_scenario(name)
    around = surroundings_of(scenario)
    made = planned_scenario(scenario.pipeline, around)
    assert made.plan.is_optimal
    assert FILLINGS[name] == made.fillings
    assert canonical_form(scenario.static, around) == canonical_form(made.assembled.document, around)


@EACH
def test_goals_rest_on_the_places_that_reach_them(name: str) -> None:
    """Each goal on the last ones that set what it speaks of."""
    made = planned(load_scenario(name))
    problem = made.pipeline.problem
    assert SUPPORTS[name] == [supports(problem, made.plan, goal) for goal in problem.goals]


@pytest.mark.parametrize(
    ("name", "withdrawn", "place", "other"),
    [
        ("house", ["plausible-house"], "check", "plausible-difference@1"),
        ("house", ["heating-power"], "power", "heating-power-at-most@1"),
        ("patients", ["plausible-heart"], "heart-check", "plausible-heart-at-rest@1"),
        ("patients", ["fast-heart"], "heart-level", "fast-heart-in-steps@1"),
        ("patients", ["same-round"], "risks", "same-round-at-last@1"),
        ("patients", ["greatest-risk"], "risk", "mean-of-risks@1"),
    ],
)
def test_another_module_takes_the_place_of_one_that_is_withdrawn(
    name: str, withdrawn: list[str], place: str, other: str
) -> None:
    """It costs more, so it is not chosen before."""
    assert other == planned(without(load_scenario(name), *withdrawn)).fillings[place]


def test_a_house_may_be_heated_in_another_unit() -> None:
    """If the ideal may be the same all day, kelvin do as well as degrees Celsius, with another check and ideal."""
    scenario = without(load_scenario("house"), "in-celsius")
    with pytest.raises(InvalidDocument, match="no plan"):
        planned(scenario)
    relaxed = dataclasses.replace(scenario, pipeline={**scenario.pipeline, "goals": [{"fields": {"power": "float"}}]})
    expected = ["in-kelvin@1", "plausible-difference@1", "comfort-in-kelvin@1", "heating-power@1"]
    assert expected == list(planned(relaxed).fillings.values())


@pytest.mark.parametrize(
    ("place", "module", "goal"),
    [
        ("spare-entry", "steady-speed@1", {"at": "spare-entry", "holds": {"steady": True}}),
        ("spare-gap", "plausible-measure@1", {"at": "spare-gap", "holds": {"plausible": True}}),
        ("spare-distance", "near-accident@1", {"holds": {"near": True}}),
    ],
)
def test_spare_points_are_filled_once_a_goal_needs_them(place: str, module: str, goal: Mapping[str, Any]) -> None:
    """The other places stay as they are."""
    scenario = load_scenario("highway")
    pipeline = {**scenario.pipeline, "goals": [*scenario.pipeline["goals"], goal]}
    assert FILLINGS["highway"] | {place: module} == planned(dataclasses.replace(scenario, pipeline=pipeline)).fillings


@EACH
def test_planned_and_plain_give_what_the_oracle_gives(name: str, tmp_path: Path) -> None:
    """Over events in several batches; nothing is parked, and every sink gets something."""
    scenario = load_scenario(name)
    around = surroundings_of(scenario)
    documents = {"planned": planned_scenario(scenario.pipeline, around).assembled.document, "static": scenario.static}
    batches = batches_of(scenario, 7, batches=BATCHES, rounds=ROUNDS)
    left = {
        way: MemoryJob(tmp_path / way, scenario, canonical_form(document, around)).left(batches)
        for way, document in documents.items()
    }
    assert left["planned"] == left["static"]
    expected = ORACLES[name](islice(scenario.rounds(7), BATCHES * ROUNDS))
    assert all(expected.values())
    for sink, events in expected.items():
        came = [{field: each[field] for field in events[0]} for each in left["static"][sink]]
        assert len(events) == len(came)
        assert [_rounded(each) for each in events] == [_rounded(each) for each in came]


def _rounded(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float | int) else value for name, value in event.items()}


@EACH
def test_a_seed_draws_the_same_rounds_again(name: str) -> None:
    """Each has an event of every source, with the fields that the source declares; another seed draws others."""
    scenario = load_scenario(name)
    first, again, others = ([*islice(scenario.rounds(seed), 50)] for seed in (1, 1, 2))
    assert first == again != others
    for each in first:
        assert {source: set(schema.fields) for source, schema in scenario.schemas.items()} == {
            source: set(event) for source, event in each.items()
        }
