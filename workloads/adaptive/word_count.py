"""Word count: how often each word came in each minute, of two streams of lines."""

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from dags import Kind, Schema
from dags.builder import Program, alternate, metric
from workloads.workload import Event

LINE_SCHEMAS: Mapping[str, Schema] = dict.fromkeys(
    ("text.news", "text.chat"), Schema.of(at=Kind.TIMESTAMP, line=Kind.STRING)
)
LEMMAS = ("count", "river", "jump", "walk", "city", "party", "press", "stop", "run", "quick", "cloud", "paint")
"""The words behind those of the lines."""
_SILENT = ("the", "of", "and", "to", "in")
_START = datetime(2026, 1, 12, tzinfo=UTC)
_BETWEEN = timedelta(seconds=2)


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
        found = {}
        for source in LINE_SCHEMAS:
            lemmas = draw.choices(LEMMAS, weights=range(len(LEMMAS), 0, -1), k=draw.randrange(3, 9))
            parts = [_inflected(each, draw) for each in lemmas]
            for _ in range(draw.randrange(4)):
                parts.insert(draw.randrange(len(parts)), draw.choice(_SILENT))
            line = " ".join(parts).capitalize() + draw.choice([".", "!", "", "..."])
            found[source] = {"at": _START + number * _BETWEEN, "line": line}, lemmas
        yield found


def _inflected(lemma: str, draw: random.Random) -> str:
    if lemma in {"stop", "run"}:
        return draw.choice([lemma, f"{lemma}s", f"{lemma}{lemma[-1]}ing"])
    if lemma.endswith("y"):
        return draw.choice([lemma, f"{lemma[:-1]}ies"])
    if lemma in {"quick", "river", "cloud"}:
        return draw.choice([lemma, f"{lemma}ly" if lemma == "quick" else f"{lemma}s"])
    return draw.choice([lemma, f"{lemma}ed", f"{lemma}ing"])
