"""The thesis' dataflows: each alternate computes what an oracle does, and better ones are better."""

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from statistics import mean
from typing import Any, Protocol

import pytest

from adaptation.documents import DynamicDocument, Selection, resolve
from adaptation.guard_states import BEFORE_ANY_LOOK, DomainEvent, Observed, advance
from adaptation.guards import ValueGuard
from benchmarks.planner.memory_job import MemoryJob, batches_of
from tests.workloads.adaptive.oracle import ORACLES, Left
from workloads.adaptive.dataflows import lines_with_lemmas, road_with_jams
from workloads.adaptive.published import traffic, words
from workloads.adaptive.scenario import (
    ADAPTIVE,
    AdaptiveScenario,
    adaptive_scenario,
    canonical_dataflow,
    dynamic_document,
)

BATCHES, ROUNDS = 15, 40
HALF_MORNING = 60
"""Rounds of a batch with which demand response comes from night to noon, and so past a peak."""
SEED = 7
EACH = pytest.mark.parametrize("name", ADAPTIVE)


@cache
def read(name: str) -> tuple[AdaptiveScenario, DynamicDocument]:
    scenario = adaptive_scenario(name)
    return scenario, dynamic_document(scenario)


def selections(dynamic: DynamicDocument) -> list[tuple[str, str]]:
    """Each alternate once, the others as they are first."""
    return [(task.id, each) for task in dynamic.tasks.values() for each in task.alternates]


def rounds_of(name: str) -> int:
    return HALF_MORNING if name == "demand_response" else ROUNDS


class LeftBy(Protocol):
    def __call__(self, name: str, /, *chosen: tuple[str, str], is_open: bool = True, rounds: int = 0) -> Left:
        """What reaches the sinks of a scenario with some alternates; the others are as they are first."""


@pytest.fixture(scope="module")
def left_by(tmp_path_factory: pytest.TempPathFactory) -> LeftBy:
    @cache
    def left(name: str, /, *chosen: tuple[str, str], is_open: bool = True, rounds: int = 0) -> Left:
        scenario, dynamic = read(name)
        choice = Selection(
            alternates={**dynamic.first.alternates, **dict(chosen)}, opened=dict.fromkeys(dynamic.streams, is_open)
        )
        flow = canonical_dataflow(json.dumps(resolve(dynamic, choice)).encode(), scenario)
        job = MemoryJob(tmp_path_factory.mktemp(name), scenario, flow)
        return job.left(batches_of(scenario, SEED, batches=BATCHES, rounds=rounds or rounds_of(name)))

    return left


@EACH
def test_each_alternate_gives_what_the_oracle_gives(name: str, left_by: LeftBy) -> None:
    """Over events in many batches, with all paths open; nothing is parked, and every sink gets something."""
    scenario, dynamic = read(name)
    drawn, rounds = scenario.rounds(SEED), rounds_of(name)
    batches = [list(islice(drawn, rounds)) for _ in range(BATCHES)]
    for chosen in selections(dynamic):
        left = left_by(name, chosen)
        for sink, events in ORACLES[name](batches, {**dynamic.first.alternates, **dict([chosen])}).items():
            assert events, f"{sink} of {chosen} gets something"
            came = [{field: each[field] for field in events[0]} for each in left[sink]]
            assert [_rounded(each) for each in events] == [_rounded(each) for each in came], f"{sink} of {chosen}"


def _rounded(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float | int) else value for name, value in event.items()}


@pytest.mark.parametrize(("name", "sink"), [("demand_response", "curtailments"), ("linear_road", "detours")])
def test_nothing_takes_a_path_that_is_closed(name: str, sink: str, left_by: LeftBy) -> None:
    """Dataflows begin with their paths closed, and all other outputs are as with open ones."""
    closed, opened = (dict(found) for found in (left_by(name, is_open=False), left_by(name)))
    assert closed.pop(sink) == []
    assert opened.pop(sink)
    assert opened == closed


@EACH
def test_a_seed_draws_the_same_rounds_of_an_adaptive_dataflow(name: str) -> None:
    """Each has an event of every source, with the fields that the source declares; another seed draws others."""
    scenario = adaptive_scenario(name)
    first, again, others = ([*islice(scenario.rounds(seed), 50)] for seed in (1, 1, 2))
    assert first == again != others
    for each in first:
        assert {source: set(schema.fields) for source, schema in scenario.schemas.items()} == {
            source: set(event) for source, event in each.items()
        }


def test_a_forecast_of_more_value_errs_less(left_by: LeftBy) -> None:
    """The mean squared error of each, over a night and a morning."""
    found = []
    for alternate in ("typical", "hourly", "trend"):
        left = left_by("demand_response", ("forecast", alternate))
        found.append(mean(each["mean"] for each in left["errors"]))
    assert sorted(found) == found


def test_a_classifier_of_more_value_is_right_more_often(left_by: LeftBy) -> None:
    """The share of tweets with their topics."""
    found = []
    for alternate in ("phrases", "lda", "bayes"):
        left = left_by("tweet_topics", ("classifier", alternate))
        found.append(mean(each["mean"] for each in left["accuracy"]))
    assert sorted(found, reverse=True) == found


def test_congestion_of_more_value_is_nearer_to_the_truth() -> None:
    """The mean squared distance of the probability from whether there is a jam."""
    reports = list(islice(road_with_jams(SEED), 3_000))
    found = [
        mean((entry(dict(report))["jam"] - jammed) ** 2 for report, jammed in reports)
        for entry in (traffic.by_history, traffic.by_speed, traffic.by_threshold)
    ]
    assert sorted(found) == found


def test_travel_times_of_more_value_are_nearer_to_the_next(left_by: LeftBy) -> None:
    """The trees know that jams dissolve; a line through three means does not."""
    speeds: dict[tuple[int, datetime], list[float]] = defaultdict(list)
    for report, _ in islice(road_with_jams(SEED), BATCHES * ROUNDS):
        at = report["at"]
        speeds[report["segment"], at - timedelta(minutes=at.minute % 5, seconds=at.second)].append(report["speed"])
    errors = {}
    for alternate in ("trees", "series"):
        left = left_by("linear_road", ("next speed", alternate))
        errors[alternate] = mean(
            (60 / each["minutes"] - mean(speeds[place])) ** 2
            for each in left["times"]
            if (place := (each["segment"], each["window_end"])) in speeds and each["minutes"] is not None
        )
    assert errors["trees"] < errors["series"]


def test_stems_are_the_words_behind_the_lines() -> None:
    """What stands between spaces is that much less often."""
    lines = [pair for each in islice(lines_with_lemmas(SEED), 300) for pair in each.values()]
    assert all(words.stemmed(dict(line))["word"] == lemmas for line, lemmas in lines)
    same = mean(words.plain(dict(line))["word"] == lemmas for line, lemmas in lines)
    assert same < 0.5


def test_a_learnt_model_opens_and_closes_a_path(left_by: LeftBy) -> None:
    """The peaks that a regression on the meters expects open the path to curtailments while meters draw more."""
    scenario, dynamic = read("demand_response")
    left = left_by("demand_response", rounds=200)
    guards = [each.when for each in dynamic.streams.values()]
    values = [
        each.value
        for task in dynamic.tasks.values()
        for each in task.alternates.values()
        if isinstance(each.value, ValueGuard)
    ]
    events = [
        DomainEvent(name=name, at=each["at"].timestamp(), fields=each)
        for name, sink in (("peak", "peaks"), ("calm", "calm"))
        for each in left[sink]
    ]
    events += [DomainEvent(name="errors", at=each["window_end"].timestamp(), fields=each) for each in left["errors"]]
    drawn = [each["grid.meters"] for each in islice(scenario.rounds(SEED), BATCHES * 200)]
    states, by_state, looks = BEFORE_ANY_LOOK, {True: list[float](), False: list[float]()}, list[bool]()
    for number in range(0, len(drawn), 12):
        now = drawn[number]["at"].timestamp()
        since = tuple(each for each in events if now - 300 < each.at <= now)
        states = advance(guards, values, states, Observed(now=now, events=since))
        looks.append(states.is_active(guards[0]))
        by_state[looks[-1]] += [each["kw"] / each["persons"] for each in drawn[number : number + 12]]
    assert {True, False} == set(looks)
    assert mean(by_state[True]) > 1.3 * mean(by_state[False])
    assert 0 < states.numbers["errors", "mean"] < 0.2
