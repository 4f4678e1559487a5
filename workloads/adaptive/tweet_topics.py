"""Topics of tweets: three classifiers, and how often the active one is right."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from dags import Kind, Schema
from dags.builder import Program, alternate, metric, value_of
from workloads.adaptive.published.topics import BACKGROUND, MISLEADING, OWN, PHRASES, TOPICS
from workloads.workload import Event

TWEET_SCHEMAS: Mapping[str, Schema] = {
    "tweets": Schema.of(id=Kind.INTEGER, at=Kind.TIMESTAMP, text=Kind.STRING, topic=Kind.STRING)
}
_START = datetime(2026, 1, 12, tzinfo=UTC)
_BETWEEN = timedelta(seconds=1)


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
        yield {"tweets": {"id": number, "at": _START + number * _BETWEEN, "text": text, "topic": topic}}


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
