"""A task whose ports depend on its config, from its type to its behaviour."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dags import Config, Ports, TaskType
from engine.behaviour import Behaviour, Implementation, each_event
from engine.records.state import Staged
from engine.trial import try_out


class DealConfig(Config):
    """To whom events are dealt, one after the other, and from whom they come."""

    takes: tuple[str, ...] = ("in",)
    may: tuple[str, ...] = ()
    gives: tuple[str, ...] = ("out",)


DEAL = TaskType(
    name="deal",
    config=DealConfig,
    ports=lambda c: Ports(inputs=c.takes + c.may, outputs=c.gives, optional=frozenset(c.may)),
    output_schema=lambda c, inputs: dict.fromkeys(c.gives, next(iter(inputs.values()))),
)


def _deal(config: DealConfig) -> Behaviour:
    def deal(_port: str, event: dict[str, Any], state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
        dealt = state.get(()) or 0
        state.put((), dealt + 1)
        yield config.gives[dealt % len(config.gives)], event

    def outputs(schema: pa.Schema) -> Mapping[str, pa.Schema]:
        return dict.fromkeys(config.gives, schema)

    return each_event(deal, outputs)


IMPLEMENTATION = Implementation(type=DEAL, make=_deal)


def test_a_behaviour_gives_at_the_ports_of_its_config() -> None:
    """Two tasks of one type have their own ports, and take events at those with streams."""
    events = [("a", {"n": 1}), ("c", {"n": 2}), ("a", {"n": 3})]
    config = {"takes": ["a"], "may": ["b", "c"], "gives": ["x", "y"]}
    assert {"x": [{"n": 1}, {"n": 3}], "y": [{"n": 2}]} == try_out(IMPLEMENTATION, config, events)
    assert {"out": [{"n": 1}]} == try_out(IMPLEMENTATION, {}, [{"n": 1}])
