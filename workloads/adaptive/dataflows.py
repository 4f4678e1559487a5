"""Four dataflows that adapt, written with the builder, and seeded rounds of events for their sources.

- Demand response in a smart grid forecasts each meter's load, and calls for curtailment while a peak is expected.
- A toll road, after the Linear Road Benchmark: congestion, accidents, tolls, and how long a segment takes.
- Word count says how often each word came in each minute, of two streams of lines.
- Topics of tweets has three classifiers, and says how often the active one is right.
"""

import math
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from dags import Kind, Schema
from dags.builder import Program, alternate, clock, event, metric, rule, value_of
from workloads.adaptive.published.load import mean_load
from workloads.adaptive.published.topics import BACKGROUND, MISLEADING, OWN, PHRASES, TOPICS
from workloads.adaptive.published.traffic import FREE, JAMMED, SEGMENTS, jam_share
from workloads.workload import Event

_CALENDAR = ("sine", "cosine", "sine_twice", "cosine_twice")
"""The hour as numbers that begin again each day, and each half."""
_KNOWN_AHEAD = [*_CALENDAR, "temperature"]
GRID_SCHEMAS: Mapping[str, Schema] = {
    "grid.history": Schema.of(dict.fromkeys([*_KNOWN_AHEAD, "load"], Kind.FLOAT)),
    "grid.meters": Schema.of(
        meter=Kind.STRING,
        at=Kind.TIMESTAMP,
        slot=Kind.INTEGER,
        hour=Kind.FLOAT,
        temperature=Kind.FLOAT,
        persons=Kind.FLOAT,
        kw=Kind.FLOAT,
    ),
    "grid.weather": Schema.of(dict.fromkeys(_KNOWN_AHEAD, Kind.FLOAT), at=Kind.TIMESTAMP),
}
METERS = 12
_GRID_START = datetime(2026, 1, 12, 4, tzinfo=UTC)
_SLOT = timedelta(minutes=5)
_SLOTS_A_DAY = 288


def demand_response() -> Program:
    """The dataflow.

    A regression that is trained on loads of the past and applied to the forecast of the weather says when a peak is
    expected.
    """
    program = Program("Demand response")
    meters = program.stream("grid.meters").filter("kw >= 0 and kw < 100", name="plausible")
    forecast = meters.dynamic(
        alternate(
            "typical",
            module="typical@1",
            value=value_of("errors", "mean", factor=-1.0, plus=1.0, otherwise=1.0),
            cost=230,
            when=metric("rate").below(2_000).until(metric("rate").above(2_500)),
        ),
        alternate("hourly", module="hourly@1", value=0.9, cost=60),
        alternate(
            "trend",
            "sliding_linear_regression",
            {"field": "kw", "by": ["meter"], "train": 12, "predict": 1},
            value=0.8,
            cost=2,
        ),
        first="trend",
        name="forecast",
    )
    model = (
        program.stream("grid.history")
        .window(300)
        .process("linear_regression_train", {"fields": _KNOWN_AHEAD, "target": "load"}, name="model of the load")
    )
    expected = program.stream("grid.weather").process(
        "linear_regression_predict", {"fields": _KNOWN_AHEAD}, ports={"model": model}, name="expected load"
    )
    peaks = expected.filter("prediction > 1.2").output("peaks")
    calm = expected.filter("prediction < 1").output("calm")
    expecting = forecast.when(event("peak").until(event("calm")))
    expecting.filter("predicted > 4").project("meter", "at", "predicted").output("curtailments")
    shifted = forecast.project("meter", "at", "predicted", computed={"slot": "slot + 1"}, name="of the next slot")
    errors = (
        meters.window(time="at", seconds=3_600)
        .group_by("meter", "slot")
        .join("kw", (shifted, "predicted"))
        .project("at", computed={"error": "(kw - predicted) * (kw - predicted)"})
        .window(time="at", seconds=3 * 3_600)
        .summary("error")
        .output("errors")
    )
    program.policy(
        throughput=0.8,
        events={"peak": peaks, "calm": calm, "errors": errors},
        rules=[rule("night", clock("00:00", "05:00"), {forecast: "trend"})],
    )
    return program


def grid_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A reading of the next meter, the forecast of the weather five minutes later, and a load of the past."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        slot, meter = divmod(number, METERS)
        at = _GRID_START + slot * _SLOT
        persons = 1.0 + meter % 4
        temperature = _temperature(at) + draw.gauss(0, 0.5)
        hour = _hour(at)
        reading = {
            "meter": f"m{meter}",
            "at": at,
            "slot": slot,
            "hour": hour,
            "temperature": temperature,
            "persons": persons,
            "kw": max(0.0, persons * mean_load(hour, temperature) + draw.gauss(0, 0.25)),
        }
        later = at + _SLOT
        past = _GRID_START + draw.randrange(_SLOTS_A_DAY) * _SLOT
        degrees = _temperature(past) + draw.gauss(0, 2)
        yield {
            "grid.history": {
                **_calendar(past),
                "temperature": degrees,
                "load": mean_load(_hour(past), degrees) + draw.gauss(0, 0.1),
            },
            "grid.meters": reading,
            "grid.weather": {"at": at, **_calendar(later), "temperature": _temperature(later)},
        }


def _hour(at: datetime) -> float:
    return at.hour + at.minute / 60


def _calendar(at: datetime) -> dict[str, float]:
    phase = 2 * math.pi * _hour(at) / 24
    return dict(
        zip(_CALENDAR, (math.sin(phase), math.cos(phase), math.sin(2 * phase), math.cos(2 * phase)), strict=True)
    )


def _temperature(at: datetime) -> float:
    return 8.0 - 6.0 * math.cos(2 * math.pi * (_hour(at) - 3) / 24)


ROAD_SCHEMAS: Mapping[str, Schema] = {
    "road.reports": Schema.of(
        vehicle=Kind.STRING, at=Kind.TIMESTAMP, hour=Kind.FLOAT, segment=Kind.INTEGER, speed=Kind.FLOAT
    )
}
REPORTS_A_BLOCK = 60
"""A block is five minutes, in which no jam begins or ends."""
_ROAD_START = datetime(2026, 1, 12, 6, tzinfo=UTC)
_BETWEEN_REPORTS = timedelta(seconds=5)
_STAYS = 0.8
"""The probability that a jam lasts another block."""
_STOPPED = 0.3
"""How often a vehicle in the segment of an accident reports that it stands."""


def linear_road() -> Program:
    """The dataflow."""
    program = Program("Linear Road")
    reports = program.stream("road.reports").filter("speed >= 0 and speed < 150", name="plausible")
    congestion = reports.dynamic(
        alternate(
            "history",
            module="by-history@1",
            value=1.0,
            cost=30,
            when=metric("rate").below(5_000).until(metric("rate").above(6_000)),
        ),
        alternate("speed", module="by-speed@1", value=0.8, cost=6),
        alternate("threshold", module="by-threshold@1", value=0.5, cost=4),
        first="threshold",
        name="congestion",
    )
    standing = reports.filter("speed < 1").window(time="at", seconds=300).group_by("segment").summary("speed")
    accidents = standing.filter("count >= 2", name="accident").output("accidents")
    congestion.filter("jam > 0.5").project(
        "vehicle", "segment", "at", computed={"toll": "2 * (jam - 0.5) * (jam - 0.5)"}, name="toll"
    ).output("tolls")
    speeds = reports.window(time="at", seconds=300).group_by("segment").summary("speed", name="speeds")
    travel = speeds.dynamic(
        alternate("trees", module="forest@1", value=1.0, cost=22),
        alternate(
            "series",
            "sliding_linear_regression",
            {"field": "mean", "by": ["segment"], "train": 3, "predict": 1},
            value=0.6,
            cost=2,
        ),
        first="series",
        name="next speed",
    )
    travel.project("segment", "window_end", computed={"minutes": "60 / predicted"}, name="travel time").output("times")
    # Nobody needs the way round while nothing stands.
    detour = travel.when(event("accident", within=600))
    detour.filter("predicted < 30").project("segment", "window_end").output("detours")
    program.policy(throughput=0.8, tolerance=0.05, latency=5.0, events={"accident": accidents})
    return program


def road_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A report of a vehicle every five seconds."""
    for report, _ in road_with_jams(seed):
        yield {"road.reports": report}


def road_with_jams(seed: int) -> Iterator[tuple[Event, bool]]:
    """The reports, each with whether there is a jam."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    jammed = [draw.random() < jam_share(_ROAD_START.hour, segment) for segment in range(SEGMENTS)]
    accident = -1
    for number in count():
        at = _ROAD_START + number * _BETWEEN_REPORTS
        hour = at.hour + at.minute / 60
        if number % REPORTS_A_BLOCK == 0:
            for segment in range(SEGMENTS):
                share = jam_share(hour, segment)
                jammed[segment] = draw.random() < (_STAYS if jammed[segment] else (1 - _STAYS) * share / (1 - share))
            accident = draw.randrange(SEGMENTS) if draw.random() < _STOPPED else -1
        segment = draw.randrange(SEGMENTS)
        stands = segment == accident and draw.random() < _STOPPED
        speed = 0.0 if stands else min(120.0, max(1.0, draw.gauss(*(JAMMED if jammed[segment] else FREE))))
        vehicle = f"v{draw.randrange(40)}"
        report = {"vehicle": vehicle, "at": at, "hour": hour, "segment": segment, "speed": speed}
        yield report, jammed[segment]


LINE_SCHEMAS: Mapping[str, Schema] = dict.fromkeys(
    ("text.news", "text.chat"), Schema.of(at=Kind.TIMESTAMP, line=Kind.STRING)
)
LEMMAS = ("count", "river", "jump", "walk", "city", "party", "press", "stop", "run", "quick", "cloud", "paint")
"""The words behind those of the lines."""
_SILENT = ("the", "of", "and", "to", "in")
_START = datetime(2026, 1, 12, tzinfo=UTC)
_BETWEEN_LINES = timedelta(seconds=2)


def word_count() -> Program:
    """The dataflow."""
    program = Program("Word count")
    lines = program.stream("text.news").merge(program.stream("text.chat"))
    words = lines.dynamic(
        alternate(
            "stems",
            module="stemmed@1",
            value=1.0,
            cost=70,
            when=metric("rate").below(5_000).until(metric("rate").above(6_000)),
        ),
        alternate("plain", module="plain@1", value=0.4, cost=11),
        first="plain",
        name="words",
    )
    (
        words.process("unnest", {"field": "word", "kind": "string", "keep": ["at"]})
        .project("at", "word", computed={"one": "1"})
        .window(time="at", seconds=60, lateness=120)
        .group_by("word")
        .summary("one", name="counts of a minute")
        .project("window_end", "word", "count")
        .output("counts")
    )
    program.policy(throughput=0.8)
    return program


def line_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A line of each stream every two seconds."""
    for lines in lines_with_lemmas(seed):
        yield {source: line for source, (line, _) in lines.items()}


def lines_with_lemmas(seed: int) -> Iterator[Mapping[str, tuple[Event, list[str]]]]:
    """The lines, each with the words behind it."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        lines = {}
        for source in LINE_SCHEMAS:
            lemmas = draw.choices(LEMMAS, weights=range(len(LEMMAS), 0, -1), k=draw.randrange(3, 9))
            parts = [_inflected(lemma, draw) for lemma in lemmas]
            for _ in range(draw.randrange(4)):
                parts.insert(draw.randrange(len(parts)), draw.choice(_SILENT))
            line = " ".join(parts).capitalize() + draw.choice([".", "!", "", "..."])
            lines[source] = {"at": _START + number * _BETWEEN_LINES, "line": line}, lemmas
        yield lines


def _inflected(lemma: str, draw: random.Random) -> str:
    if lemma in {"stop", "run"}:
        return draw.choice([lemma, f"{lemma}s", f"{lemma}{lemma[-1]}ing"])
    if lemma.endswith("y"):
        return draw.choice([lemma, f"{lemma[:-1]}ies"])
    if lemma in {"quick", "river", "cloud"}:
        return draw.choice([lemma, f"{lemma}ly" if lemma == "quick" else f"{lemma}s"])
    return draw.choice([lemma, f"{lemma}ed", f"{lemma}ing"])


TWEET_SCHEMAS: Mapping[str, Schema] = {
    "tweets": Schema.of(id=Kind.INTEGER, at=Kind.TIMESTAMP, text=Kind.STRING, topic=Kind.STRING)
}
_BETWEEN_TWEETS = timedelta(seconds=1)


def tweet_topics() -> Program:
    """The dataflow. Each tweet brings the topic that a reader gave it."""
    program = Program("Topics of tweets")
    tweets = program.stream("tweets").filter("text != ''", name="with text")
    classified = tweets.dynamic(
        alternate("bayes", module="bayes@1", value=0.65, cost=20),
        alternate("lda", module="mixture@1", value=0.7, cost=250),
        alternate(
            "phrases",
            module="phrases@1",
            value=value_of("accuracy", "mean", otherwise=1.0),
            cost=360,
            when=metric("rate").below(800).until(metric("rate").above(1_000)),
        ),
        first="bayes",
        name="classifier",
    )
    classified.project("id", "found", "score").output("topics")
    right, wrong = classified.split("found = topic")
    accuracy = (
        right.project("at", computed={"hit": "1.0"})
        .merge(wrong.project("at", computed={"hit": "0.0"}))
        .window(time="at", seconds=300)
        .summary("hit")
        .output("accuracy")
    )
    program.policy(throughput=0.8, cores=0.5, events={"accuracy": accuracy})
    return program


def tweet_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A tweet every second."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        topic = draw.choice(TOPICS)
        text = " ".join(_part(topic, draw) for _ in range(draw.randrange(4, 8)))
        yield {"tweets": {"id": number, "at": _START + number * _BETWEEN_TWEETS, "text": text, "topic": topic}}


def _part(topic: str, draw: random.Random) -> str:
    chance = draw.random()
    if chance < 0.5:  # noqa: PLR2004 - half of the words say nothing
        return draw.choice(BACKGROUND)
    if chance < 0.7:  # noqa: PLR2004 - a fifth of them are phrases
        return draw.choice([phrase for phrase, at in PHRASES.items() if at == topic])
    if chance < 0.8:  # noqa: PLR2004 - and a tenth mislead
        return draw.choice(list(MISLEADING))
    own = OWN[topic]
    return draw.choices(own, weights=range(len(own), 0, -1))[0]
