"""The law of the types that emit once by some fields: one event at most for all that has the same values in them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind, Schema
from engine.behaviour import AnyImplementation, implementation_of, installed_behaviours
from engine.implementations.windows import join_by_id
from engine.tasks import TYPES
from engine.trial import Event, Trial
from tests.tasks.agreeing import few
from tests.tasks.references.windows import EPOCH

UNIQUE = [kind.name for kind in TYPES if kind.unique_by is not None]
NAMES = ["dust", "light"]
SCHEMA = Schema.of(field=Kind.STRING, id=Kind.STRING, number=Kind.INTEGER, time=Kind.TIMESTAMP, value=Kind.FLOAT)
CONFIGS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "self_join": st.fixed_dictionaries(
        {
            "by": st.sampled_from([["id"], ["id", "number"]]),
            "expected": st.integers(1, 3),
            "expiry_ms": st.integers(1, 8),
            "most_known": st.integers(1, 4),
            "observed": st.sampled_from([[], NAMES]),
        }
    )
}
"""Configs of each type that emits once."""
PIECES = st.fixed_dictionaries(
    {
        "id": st.sampled_from("ab"),
        "number": st.integers(0, 1),
        "time": st.integers(0, 12).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
        "field": st.sampled_from(NAMES),
        "value": st.none() | st.floats(-1e6, 1e6),
    }
)


def emissions(
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    pieces: Sequence[tuple[int, Event]],
    cuts: Sequence[int] = (),
) -> Counter[int]:
    """How many events leave by all ports for each event of a source; the pieces come with the number of theirs.

    They enter by the input ports in turn, in batches that end at the cuts.
    """
    ports = implementation.type.inputs
    trial = Trial(implementation, config, dict.fromkeys(ports, SCHEMA))
    entering = [(ports[place % len(ports)], piece) for place, (_, piece) in enumerate(pieces)]
    emitted = Counter[int]()
    for begin, end in pairwise([0, *cuts, len(pieces)]):
        outcome = trial.take(entering[begin:end])
        assert not outcome.dead
        emitted.update(pieces[cause][0] for stream in outcome.emitted.values() for cause in stream.causes.tolist())
    return emitted


def test_every_type_that_emits_once_is_held_by_the_law() -> None:
    """The library has such types, and configs of each are drawn."""
    assert sorted(CONFIGS) == sorted(UNIQUE) != []


@pytest.mark.parametrize("name", UNIQUE)
@few
@given(st.data())
def test_one_event_at_most_leaves_for_an_event_of_a_source(name: str, data: st.DataObject) -> None:
    """However many pieces of it come, in whatever order, among those of others, and in whatever batches.

    All pieces of one have the values of its first in the fields that the type names, and any values in the others.
    Several events of sources may have the same values there.
    """
    implementation = implementation_of(name, installed_behaviours())
    config = data.draw(CONFIGS[name])
    kind = implementation.type
    assert kind.unique_by is not None
    fields = kind.unique_by(Trial(implementation, config, {"in": SCHEMA}).config)
    assert fields is not None
    events = data.draw(st.lists(PIECES, min_size=1, max_size=5))
    drawn = data.draw(st.lists(st.tuples(st.integers(0, len(events) - 1), PIECES), max_size=30))
    pieces = [(number, piece | {name: events[number][name] for name in fields}) for number, piece in drawn]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=5)))
    emitted = emissions(implementation, config, pieces, cuts)
    assert max(emitted.values(), default=0) <= 1
    same = Counter(tuple(events[number][name] for name in fields) for number in emitted.elements())
    assert max(same.values(), default=0) <= 1


def test_a_join_that_forgets_what_it_has_joined_emits_twice() -> None:
    """Of two events of sources with one id the later one gets two joined events, so such a type may not declare it."""
    piece = {"id": "a", "time": EPOCH, "number": 0}
    pieces = [(number, piece) for number in (0, 1, 0, 1)]
    assert {1: 2} == emissions(join_by_id, {"by": ["id"], "expected": 2}, pieces)
    once = implementation_of("self_join", installed_behaviours())
    assert {1: 1} == emissions(once, {"by": ["id"], "expected": 2}, pieces)
