"""Computation for measurements, checked against its definitions."""

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Kind, Schema
from dags.task_type import MOST_PORTS
from engine.catalogue import installed_catalogue
from engine.implementations.compute import noop, opmw, opmw_join, pi_viete
from engine.plan import Slot
from engine.trial import At, Trial, try_out
from tests.tasks.agreeing import agrees, few

EVENTS = st.lists(st.fixed_dictionaries({"a": st.none() | st.floats(allow_nan=False)}), max_size=12)


def viete(events: Iterator[Any], iterations: int) -> Iterator[At]:
    """The product as the benchmark has it: each factor nested anew, the deepest first."""
    for _ in events:
        pi = 1.0
        for factor in range(iterations, 1, -1):
            root = 2.0
            for _ in range(1, factor):
                root = 2 + math.sqrt(root)
            pi = pi * math.sqrt(root) / 2
        yield "out", {"pi": 2 / (pi * math.sqrt(2) / 2)}


@few
@given(events=EVENTS, iterations=st.integers(1, 30))
def test_pi_is_the_product_of_nested_roots(events: list[dict[str, Any]], iterations: int) -> None:
    """To the last bit, for any number of events at once."""
    agrees(pi_viete, {"iterations": iterations}, events, lambda seen: viete(seen, iterations), exact=True)


def test_with_the_steps_of_the_benchmark_it_is_pi() -> None:
    """Within the rounding of its factors. Many events at once give the same as one."""
    (one,) = try_out(pi_viete, {}, [{"a": 1}])["out"]
    assert math.isclose(math.pi, one["pi"], rel_tol=1e-12)
    assert [{"pi": 2.0 / (math.sqrt(2.0) / 2.0)}] * 5_000 == try_out(pi_viete, {"iterations": 1}, [{"a": 1}] * 5_000)[
        "out"
    ]


@few
@given(events=EVENTS)
def test_a_noop_passes_everything_on(events: list[dict[str, Any]]) -> None:
    """Including nulls and infinities."""
    agrees(noop, {}, events, lambda seen: (("out", event) for event in seen), exact=True)


def test_a_step_of_any_name_computes_pi() -> None:
    """With parameters of any name, whose values affect sharing. A step needs a name."""
    catalogue = installed_catalogue()
    found = catalogue.find("opmw:Stemmer")
    assert found is not None
    config = found.config.model_validate({"language": "en", "iterations": 3})
    assert {"iterations": 3, "language": "en"} == config.model_dump()
    assert {"pi": Kind.FLOAT} == dict(found.output_schema(config, {})["out"].fields)
    assert catalogue.find("opmw:") is None
    assert try_out(pi_viete, {"iterations": 3}, [{}, {}]) == try_out(
        opmw, {"iterations": 3, "language": "en"}, [{}, {}]
    )


def sets(events: Iterator[At], ports: int, iterations: int) -> Iterator[At]:
    """Each complete set as it becomes so: one event of each port, taken in the order in which they came there."""
    waiting: dict[str, deque[Any]] = {f"in{number + 1}": deque() for number in range(ports)}
    for port, event in events:
        waiting[port].append(event)
        if all(waiting.values()):
            yield from viete(iter([[each.popleft() for each in waiting.values()]]), iterations)


@few
@given(data=st.data(), ports=st.integers(2, 4), iterations=st.integers(1, 5))
def test_a_joining_step_fires_once_per_complete_set(data: st.DataObject, ports: int, iterations: int) -> None:
    """At the event that completes it, even if many events of one input come first."""
    port = st.integers(1, ports).map("in{}".format)
    events = data.draw(
        st.lists(st.tuples(port, st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)})), max_size=24)
    )
    agrees(
        opmw_join,
        {"inputs": ports, "iterations": iterations},
        events,
        lambda seen: sets(seen, ports, iterations),
        {f"in{number + 1}": Schema.of(a=Kind.INTEGER) for number in range(ports)},
        exact=True,
    )


@given(st.lists(st.sampled_from(["in1", "in2", "in3"]), max_size=30), st.randoms())
def test_a_joining_step_gives_the_same_however_its_inputs_interleave(came: list[str], random: Any) -> None:
    """As many events as the shortest input has, and the same state."""
    mixed = random.sample(came, len(came))
    found = []
    for ports in (came, mixed):
        schemas = dict.fromkeys(("in1", "in2", "in3"), Schema.of(a=Kind.INTEGER))
        trial = Trial(opmw_join, {"inputs": 3, "iterations": 1}, schemas)
        emitted = trial.take([(port, {"a": 1}) for port in ports]).emitted
        found.append((sum(len(stream.rows) for stream in emitted.values()), trial.state.changes()))
    assert found[0] == found[1]
    assert min(map(came.count, ("in1", "in2", "in3"))) == found[0][0]


def test_the_config_of_a_joining_step_sets_its_inputs() -> None:
    """Each has its own port. One input is refused, and a type needs a name."""
    catalogue = installed_catalogue()
    found = catalogue.find("opmw-join:Merge")
    assert found is not None
    config = found.config.model_validate({"inputs": 3, "language": "en"})
    assert ("in1", "in2", "in3") == found.of(config).inputs
    for inputs in ({"inputs": 1}, {"inputs": MOST_PORTS + 1}, {}):
        with pytest.raises(ValidationError):
            found.config.model_validate(inputs)
    assert catalogue.find("opmw-join:") is None


@pytest.mark.parametrize("type_", ["opmw:Stemmer", "opmw:a b", "noop", "pi_viete"])
def test_its_implementation_is_found_by_name(type_: str) -> None:
    """One entry point implements a namespace, whose steps run under their own names."""
    slot = Slot(instance=1, type=type_, version=2 if type_ == "pi_viete" else 1, config="{}", inputs=())
    assert slot.type == type_
    assert len(try_out(type_, {"iterations": 2} if type_ != "noop" else {}, [{"a": 1}])["out"]) == 1
