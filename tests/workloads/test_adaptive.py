"""The dataflows of the thesis on adaptation: each alternate computes what an oracle does.

A batch's events arrive source by source, in the order of the sources' names.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from statistics import mean
from typing import Any, Protocol

import numpy as np
import pytest

from adaptation.documents import DynamicDocument, Selection, resolve
from adaptation.guard_states import BEFORE_ANY_LOOK, DomainEvent, Observed, advance
from adaptation.guards import ValueGuard
from benchmarks.planner.memory_job import MemoryJob, batches_of
from workloads.adaptive.dataflows import lines_with_lemmas, road_with_jams
from workloads.adaptive.published import load, topics, traffic, words
from workloads.adaptive.scenario import (
    ADAPTIVE,
    AdaptiveScenario,
    adaptive_scenario,
    canonical_dataflow,
    dynamic_document,
)
from workloads.workload import Event

Batches = Sequence[Sequence[Mapping[str, Event]]]
Chosen = Mapping[str, str]
"""The alternates of dynamic tasks. All guarded streams are open."""
Forecast = Callable[[Event], float | None]
Left = dict[str, list[dict[str, Any]]]
"""What reaches each sink: the fields that identify an event, and the results."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MODEL_EVENTS = 300
_FEATURES = ("sine", "cosine", "sine_twice", "cosine_twice", "temperature")


def demand_response(batches: Batches, chosen: Chosen) -> Left:
    forecasts: dict[str, Forecast] = {"typical": _typical, "hourly": _hourly, "trend": _Trend("kw", "meter", 12)}
    forecast = forecasts[chosen["forecast"]]
    expected = list(_expected_loads(batches))
    curtailments = []
    before: dict[str, tuple[datetime, float | None]] = {}
    errors: list[tuple[datetime, float | None]] = []
    for event in (each["grid.meters"] for batch in batches for each in batch):
        predicted = forecast(event)
        if predicted is not None and predicted > 4:
            curtailments.append({"meter": event["meter"], "at": event["at"], "predicted": predicted})
        if event["meter"] in before:
            at, wanted = before[event["meter"]]
            errors.append((at, None if wanted is None else (event["kw"] - wanted) ** 2))
        before[event["meter"]] = event["at"], predicted
    return {
        "peaks": [{"at": at, "prediction": load} for at, load in expected if load > 1.2],
        "calm": [{"at": at, "prediction": load} for at, load in expected if load < 1],
        "curtailments": curtailments,
        "errors": [
            {"window_start": start, "count": len(found), "mean": sum(found) / len(found)}
            for start, found in ((at, _known(each)) for at, each in _windows(errors, timedelta(hours=3)))
            if found
        ],
    }


def _expected_loads(batches: Batches) -> Iterator[tuple[datetime, float]]:
    """By the newest model, from the first one on."""
    learnt: list[Event] = []
    model = None
    for batch in batches:
        for event in (each["grid.history"] for each in batch):
            learnt.append(event)
            if len(learnt) == _MODEL_EVENTS:
                features = np.array([[1.0, *(each[name] for name in _FEATURES)] for each in learnt])
                model = np.linalg.lstsq(features, np.array([each["load"] for each in learnt]), rcond=None)[0]
                learnt = []
        for event in (each["grid.weather"] for each in batch):
            if model is not None:
                yield event["at"], float(np.dot(model, [1.0, *(event[name] for name in _FEATURES)]))


def linear_road(batches: Batches, chosen: Chosen) -> Left:
    jam = {"history": _by_history, "speed": _by_speed, "threshold": _by_threshold}[chosen["congestion"]]
    forecasts: dict[str, Forecast] = {"trees": _forest, "series": _Trend("mean", "segment", 3)}
    following = forecasts[chosen["next speed"]]
    reports = [each["road.reports"] for batch in batches for each in batch]
    left: Left = {"tolls": [], "accidents": [], "times": [], "detours": []}
    for each in reports:
        if (found := jam(each)) > 0.5:
            kept = {name: each[name] for name in ("vehicle", "segment", "at")}
            left["tolls"].append({**kept, "toll": 2 * (found - 0.5) ** 2})
    five = timedelta(minutes=5)
    for start, standing in _windows(((each["at"], each) for each in reports if each["speed"] < 1), five):
        for segment, group in _grouped(standing, "segment").items():
            if len(group) >= 2:
                left["accidents"].append({"segment": segment, "window_end": start + five, "count": len(group)})
    for start, moving in _windows(((each["at"], each) for each in reports), five):
        for segment, group in _grouped(moving, "segment").items():
            speeds = [each["speed"] for each in group]
            predicted = following({"segment": segment, "mean": sum(speeds) / len(speeds), "min": min(speeds)})
            place = {"segment": segment, "window_end": start + five}
            left["times"].append({**place, "minutes": None if predicted is None else 60 / predicted})
            if predicted is not None and predicted < 30:
                left["detours"].append(place)
    return left


def word_count(batches: Batches, chosen: Chosen) -> Left:
    """A window waits for two minutes, so none is complete before an event that is so late."""
    split: Callable[[str], list[str]] = {"plain": lambda line: line.lower().split(), "stems": _stems}[chosen["words"]]
    lines = [each[source] for batch in batches for source in ("text.chat", "text.news") for each in batch]
    windows: dict[datetime, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    latest = _EPOCH
    for line in lines:
        for word in split(line["line"]):
            latest = max(latest, line["at"])
            windows[_start(line["at"], timedelta(minutes=1))][word] += 1
    found = []
    for start, counts in sorted(windows.items()):
        end = start + timedelta(minutes=1)
        if end + timedelta(minutes=2) <= latest:
            found += [{"window_end": end, "word": word, "count": count} for word, count in counts.items()]
    return {"counts": found}


def tweet_topics(batches: Batches, chosen: Chosen) -> Left:
    classify = {"bayes": _bayes, "lda": _mixture, "phrases": _phrases}[chosen["classifier"]]
    left: Left = {"topics": [], "accuracy": []}
    hits: list[tuple[datetime, float]] = []
    for tweet in (each["tweets"] for batch in batches for each in batch):
        found, score = classify(tweet["text"])
        left["topics"].append({"id": tweet["id"], "found": found, "score": score})
        hits.append((tweet["at"], 1.0 if found == tweet["topic"] else 0.0))
    for start, each in _windows(hits, timedelta(minutes=5)):
        left["accuracy"].append({"window_start": start, "count": len(each), "mean": sum(each) / len(each)})
    return left


ORACLES = {each.__name__: each for each in (demand_response, linear_road, word_count, tweet_topics)}


def _kernel(event: Event, hours: Sequence[float], width: float) -> float:
    hour = (event["hour"] + load.AHEAD) % 24
    at, degrees = np.meshgrid(np.array(hours), np.array(load.TEMPERATURES), indexing="ij")
    apart = np.minimum(np.abs(at - hour), 24 - np.abs(at - hour)) / width
    weights = np.exp(-(apart**2 + ((degrees - event["temperature"]) / load.TEMPERATURE_WIDTH) ** 2) / 2)
    morning, evening = np.exp(-(((at - 7.5) / 1.5) ** 2)), np.exp(-(((at - 19) / 2) ** 2))
    loads = 0.4 + 0.6 * morning + 1.8 * evening + 0.03 * np.maximum(0, 18 - degrees)
    return float(event["persons"] * (weights * loads).sum() / weights.sum())


def _typical(event: Event) -> float:
    return _kernel(event, [quarter / 4 for quarter in range(96)], 0.25)


def _hourly(event: Event) -> float:
    return _kernel(event, list(range(24)), 0.4)


class _Trend:
    """The next value of a line through the last ones of a key."""

    def __init__(self, field: str, by: str, length: int) -> None:
        self._field, self._by, self._length = field, by, length
        self._seen: dict[Any, list[float]] = defaultdict(list)

    def __call__(self, event: Event) -> float | None:
        values = self._seen[event[self._by]]
        values.append(event[self._field])
        if len(values) < self._length:
            return None
        slope, intercept = np.polyfit(range(self._length), values[-self._length :], 1)
        return float(intercept + slope * self._length)


def _by_history(event: Event) -> float:
    quarters = np.arange(96) / 4
    weights = np.exp(-(((quarters - event["hour"]) / 0.25) ** 2) / 2)
    shares = np.array([traffic.jam_share(quarter, event["segment"]) for quarter in quarters.tolist()])
    return _jam(event["speed"], float((weights * shares).sum() / weights.sum()))


def _by_speed(event: Event) -> float:
    return _jam(event["speed"], traffic.USUALLY)


def _by_threshold(event: Event) -> float:
    return float(event["speed"] < traffic.SLOW_SPEED)


def _jam(speed: float, share: float) -> float:
    """By the odds instead of both densities."""
    (mean, deviation), (free, spread) = traffic.JAMMED, traffic.FREE
    log = ((speed - free) / spread) ** 2 / 2 - ((speed - mean) / deviation) ** 2 / 2
    odds = share / (1 - share) * spread / deviation * np.exp(log)
    return float(odds / (1 + odds))


def _forest(event: Event) -> float:
    mean, free, jammed = event["mean"], traffic.FREE[0], traffic.JAMMED[0]
    trees = np.arange(traffic.TREES) / traffic.TREES
    slow, split = mean < traffic.SLOW_SPEED - 4 + 8 * trees, event["min"] < jammed - 8 + 8 * trees
    keeps = np.where(slow, 0.75, np.where(split, 0.5, 0.15))
    return float((keeps * mean + (1 - keeps) * free).mean())


def _stems(line: str) -> list[str]:
    """Of words that are inflected as those of the scenario are."""
    found = []
    for word in "".join(letter if letter.isalpha() else " " for letter in line.lower()).split():
        if word in words.SILENT:
            continue
        stem = word[:-3] + "y" if word.endswith("ies") else word
        for ending in ("ing", "ed", "ly"):
            stem = stem.removesuffix(ending) if stem == word else stem
        if stem == word and not word.endswith("ss"):
            stem = word.removesuffix("s")
        found.append({"runn": "run", "stopp": "stop"}.get(stem, stem))
    return found


def _bayes(text: str) -> tuple[str, float]:
    chances = {}
    for topic in topics.TOPICS:
        counts = topics.SAMPLE_COUNTS[topic]
        known = [counts.get(word, 0) + 1 for word in text.split()]
        chances[topic] = float(np.prod(np.array(known) / (topics.TOTALS[topic] + topics.VOCABULARY)))
    return _best(chances)


def _mixture(text: str) -> tuple[str, float]:
    return _best(_maximised(text.split(), 12))


def _phrases(text: str) -> tuple[str, float]:
    known = "|".join(topics.PHRASES)
    text = re.sub(rf"\b({known})\b", lambda found: found[0].replace(" ", "_"), text)
    return _best(_maximised([word.replace("_", " ") for word in text.split()], 25))


def _maximised(found: Sequence[str], rounds: int) -> Mapping[str, float]:
    kinds = list(topics.SHARES)
    chances = np.array(
        [[topics.SHARES[kind].get(word, topics.RARE) / topics.SUMS[kind] for kind in kinds] for word in found]
    )
    shares = np.full(len(kinds), 1 / len(kinds))
    for _ in range(rounds):
        joint = chances * shares
        sums = topics.PRIOR + (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        shares = sums / sums.sum()
    return {kind: share for kind, share in zip(kinds, shares.tolist(), strict=True) if kind in topics.TOPICS}


def _best(chances: Mapping[str, float]) -> tuple[str, float]:
    most = max(chances.values())
    found = max(topics.TOPICS, key=lambda topic: round(chances[topic] / most, 9))
    return found, chances[found] / sum(chances.values())


def _start(at: datetime, size: timedelta) -> datetime:
    return at - (at - _EPOCH) % size


def _windows(events: Iterable[tuple[datetime, Any]], size: timedelta) -> Iterator[tuple[datetime, list[Any]]]:
    """What is in each window that a later event closes, of events in the order of their times."""
    found: dict[datetime, list[Any]] = defaultdict(list)
    for at, each in events:
        found[_start(at, size)].append(each)
    yield from list(found.items())[:-1]


def _grouped(events: Iterable[Event], field: str) -> Mapping[Any, list[Event]]:
    found: dict[Any, list[Event]] = defaultdict(list)
    for each in events:
        found[each[field]].append(each)
    return found


def _known(values: Iterable[float | None]) -> list[float]:
    return [each for each in values if each is not None]


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
