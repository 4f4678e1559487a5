"""What the engine's benchmark runs: plans, and the events for them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dags import Kind
from engine.behaviour import Behaviour, behaviours_of, installed_behaviours
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Plan, Rated, Slot, Subscribed, Supply
from engine.records.state import InstanceStates

HOST = "bench"
SENSORS = 50
SENSOR_FIELDS = {"sensor": Kind.STRING, "t": Kind.FLOAT, "sent": Kind.FLOAT}
_SCHEMA = pa.schema({"sensor": pa.string(), "t": pa.float64(), "sent": pa.float64()})
_PASSES = {"field": "t", "min": 0, "max": 100}
_HALVES = {"field": "t", "min": 0, "max": 50, "outside": "drop"}
_BY = {"by": ["sensor"]}
_TWELVE: Sequence[tuple[str, int, Mapping[str, Any]]] = (
    ("range_filter", 0, _PASSES),
    ("range_filter", 1, _PASSES),
    ("range_filter", 2, _PASSES),
    ("range_filter", 3, _PASSES),
    ("range_filter", 1, _HALVES),
    ("range_filter", 5, _PASSES),
    ("range_filter", 2, _HALVES),
    ("range_filter", 7, _PASSES),
    ("count", 4, _BY),
    ("count", 6, _BY),
    ("block_window_average", 4, {"field": "t", **_BY}),
    ("block_window_average", 8, {"field": "t", **_BY}),
)
"""Type, place of the parent and config; place 0 is what enters."""


def twelve(job: str, first: int, supply: Supply) -> Plan:
    """Twelve light tasks below one stream; nothing leaves the job."""
    slots = tuple(
        slot(first + at, name, first + parent, config) for at, (name, parent, config) in enumerate(_TWELVE, 1)
    )
    return Plan(job=job, host=HOST, version=1, ingress=(_ingress(job, first, supply),), slots=slots)


def quiet(job: str, first: int, per_second: float) -> Plan:
    """A count of generated events, of which nothing leaves; hardly any events make an idle job."""
    ingress = (_ingress(job, first, Rated(per_second=per_second)),)
    return Plan(job=job, host=HOST, version=1, ingress=ingress, slots=(slot(first + 1, "count", first),))


def delivering(job: str, first: int, supply: Supply, *, pace: float, version: int = 1) -> Plan:
    """A filter that lets all pass, to a sink."""
    sieve = {**_PASSES, "max": 1_000 + version}
    return Plan(
        job=job,
        host=HOST,
        version=version,
        ingress=(_ingress(job, first, supply),),
        slots=(slot(first + 1, "range_filter", first, sieve), slot(first + 2, "output", first + 1)),
        deliveries=(delivery(first + 2, job),),
        pace=pace,
    )


def chain(first: int, name: str, *, pace: float) -> tuple[Plan, Plan]:
    """Two jobs, the second of which delivers what the first forwards; it wakes a little later."""
    above = Plan(
        job=f"{name} above",
        host=HOST,
        version=1,
        ingress=(_ingress(f"{name} above", first, subscribed(f"{name} above")),),
        slots=(slot(first + 1, "range_filter", first, _PASSES),),
        forwards=(Forward(instance=first + 1),),
        pace=pace,
    )
    below = delivering(f"{name} below", first + 1, Bridged(), pace=pace)
    return above, below


def slot(instance: int, kind: str, parent: int, config: Mapping[str, Any] = MappingProxyType({})) -> Slot:
    """A task behind one other."""
    return Slot(instance=instance, type=kind, config=json.dumps(dict(config)), inputs=(Edge(parent=parent),))


def delivery(instance: int, dataflow: str) -> Delivery:
    """The delivery of an output, in topics of the dataflow."""
    return Delivery(instance=instance, tenant="bench", dataflow=dataflow, sink="out")


def subscribed(job: str) -> Subscribed:
    """Raw events for a job."""
    return Subscribed(topic=topic(job), fields=SENSOR_FIELDS)


def topic(job: str) -> str:
    """Where raw events for a job are published."""
    return f"raw/{job}"


def _ingress(job: str, instance: int, supply: Supply) -> Ingress:
    return Ingress(stream=f"to {job}", instance=instance, supply=supply)


def event(number: int, sent: float) -> dict[str, Any]:
    """One raw event."""
    return {"sensor": f"s{number % SENSORS}", "t": float(number % 100), "sent": sent}


def events(count: int) -> pa.RecordBatch:
    """Events as another job forwards them."""
    return pa.RecordBatch.from_pylist([event(number, 0.0) for number in range(count)], schema=_SCHEMA)


class Twelve:
    """The twelve tasks in a bare loop, without anything around them."""

    def __init__(self) -> None:
        plan = twelve("bare", 0, Bridged())
        self._state = InstanceStates()
        self._behaviours: Mapping[int, Behaviour] = behaviours_of(plan.active, installed_behaviours())

    def run(self, batch: pa.RecordBatch) -> None:
        """All tasks over some events."""
        streams = {0: batch}
        for at, (_, parent, _) in enumerate(_TWELVE, 1):
            streams[at] = self._behaviours[at]("in", streams[parent], self._state.of(at))["out"].rows


@cache
def _twelve() -> Twelve:
    return Twelve()


def bare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The twelve tasks as a plain query of Spark runs them."""
    for batch in batches:
        _twelve().run(batch)
    yield from ()
