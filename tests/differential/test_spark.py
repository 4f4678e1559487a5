"""A job on Spark against its twin in memory: random plans over the same spools, in three kinds of batches."""

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bridge import commit
from bridge.output_messages import event_texts, output_message
from dags import Kind
from engine.behaviour import installed_behaviours
from engine.plan import Delivery, Edge, Limits, Plan, Slot
from engine.records.job_folder import spool_folder
from engine.records.record import Table
from tests.integration.hosting import HOST, QUICK, Hosting, deliveries, raw, slot
from tests.twins.twin_job import TwinJob

pytestmark = pytest.mark.spark

FIELDS = {"a": Kind.FLOAT, "n": Kind.INTEGER, "k": Kind.STRING}
EVENTS = 120
JOBS = 8
"""How many run at once."""


@dataclass(frozen=True)
class Case:
    """A plan, the one that follows it at a position, and the events of its streams."""

    plan: Plan
    then: Plan
    events: Mapping[str, Sequence[Mapping[str, Any]]]
    """By topic."""

    @property
    def deliveries(self) -> Sequence[Delivery]:
        """What leaves under either plan."""
        return tuple(dict.fromkeys((*self.plan.deliveries, *self.then.deliveries)))


def _task(drawn: random.Random, instance: int, parents: Mapping[int, Sequence[str]], *, ordered: bool) -> Slot:
    """A task behind one or two others that have what it needs."""
    kinds = ["range_filter", "count", "pi_viete", "output"] + (["block_window_average"] if ordered else [])
    chosen = drawn.sample(sorted(parents), k=drawn.choice([1, 1, min(2, len(parents))]))
    fields = sorted(set.intersection(*(set(parents[each]) for each in chosen)))
    numbers = [name for name in fields if name in {"a", "n", "count", "pi"}]
    kind = drawn.choice(kinds if numbers else ["count", "pi_viete", "output"])
    edges = tuple(Edge(parent=each, times=drawn.choice([1, 1, 1, 2])) for each in sorted(chosen))
    by = drawn.choice([[], ["k"]]) if "k" in fields else []
    match kind:
        case "range_filter":
            config = {"field": drawn.choice(numbers), "min": -1, "max": 6, "outside": drawn.choice(["drop", "null"])}
        case "count":
            config = {"by": by}
        case "block_window_average":
            config = {"field": drawn.choice(numbers), "by": by, "window": drawn.randint(1, 7)}
        case "pi_viete" if len(edges) > 1:
            ports = [replace(edge, port=f"in{number}") for number, edge in enumerate(edges, start=1)]
            return slot(instance, "opmw-join:Merge", *ports, inputs=2, iterations=3)
        case "pi_viete":
            config = {"iterations": 3}
        case _:
            config = {}
    return slot(instance, kind, *edges, **config)


def _gives(task: Slot, parents: Mapping[int, Sequence[str]]) -> Sequence[str]:
    config = json.loads(task.config)
    match task.type:
        case "count":
            return [*config["by"], "count"]
        case "block_window_average":
            return [*config["by"], config["field"]]
        case "pi_viete" | "opmw-join:Merge":
            return ["pi"]
    return sorted(set.intersection(*(set(parents[edge.parent]) for edge in task.inputs)))


def _case(hosting: Hosting, drawn: random.Random) -> Case:
    streams = drawn.choice([1, 1, 2])
    sources = [hosting.fresh() for _ in range(streams)]
    known: dict[int, Sequence[str]] = {each: [*FIELDS, "_rest"] for each in sources}
    slots: list[Slot] = []
    for _ in range(drawn.randint(2, 6)):
        task = _task(drawn, hosting.fresh(), known, ordered=streams == 1)
        slots.append(task)
        if task.type != "output":
            known[task.instance] = _gives(task, known)
    early = tuple(slots)
    for _ in range(drawn.randint(1, 3)):
        slots.append(_task(drawn, hosting.fresh(), known, ordered=streams == 1))
        if slots[-1].type != "output":
            known[slots[-1].instance] = _gives(slots[-1], known)
    # Whatever a task gives is delivered, so that it can be compared.
    ends = {each.instance: slot(hosting.fresh(), "output", each.instance) for each in slots if each.type != "output"}
    plans = []
    for chosen in (early, tuple(slots)):
        all_of = (*chosen, *(ends[each.instance] for each in chosen if each.instance in ends))
        plans.append(
            Plan(
                job=f"differs{sources[0]}",
                host=HOST,
                version=0,
                slots=all_of,
                ingress=tuple(raw(f"differs-{each}", each, FIELDS) for each in sources),
                deliveries=deliveries(all_of),
                pace=drawn.choice([QUICK, 2 * QUICK]),
                limits=Limits(batch_bytes=drawn.choice([1_000, 64_000_000])),
            )
        )
    at = {each.stream: drawn.randint(0, EVENTS) for each in plans[0].ingress}
    events = {
        f"differs-{each}": [
            {
                "a": drawn.choice([None, drawn.uniform(-5, 10), 0.1]),
                "n": drawn.choice([None, drawn.randint(-3, 9)]),
                "k": drawn.choice([None, "x", "y", "ü"]),
                **({"else": n} if n % 7 == 0 else {}),
            }
            for n in range(EVENTS)
        ]
        for each in sources
    }
    return Case(plans[0], replace(plans[1], at=at), events)


def _twin(case: Case, hosting: Hosting, folder: Path, batch_bytes: int) -> tuple[dict[Delivery, list[Any]], Table]:
    """What the twin delivers and keeps, over a copy of the spools."""
    for ingress in case.plan.ingress:
        copied = spool_folder(folder, ingress.stream)
        shutil.copytree(
            spool_folder(hosting.root, ingress.stream), copied, ignore=shutil.ignore_patterns("lease", "tmp")
        )
    twin = TwinJob(folder, case.plan.job, installed_behaviours())
    for version, plan in enumerate((case.plan, case.then), 1):
        twin.log(replace(plan, version=version, limits=Limits(batch_bytes=batch_bytes)))
    twin.settle()
    found: dict[Delivery, list[Any]] = {each: [] for each in case.deliveries}
    for batch in twin.store.batches():
        record = twin.store.file(batch)
        assert () == record.dead()
        for emitted in record.emitted():
            for each in case.deliveries:
                if each.origin == emitted.origin and emitted.events is not None:
                    assert len(found[each]) == emitted.first
                    for _, payload in output_message(each.sink, 1, emitted.first, event_texts(emitted.events)):
                        found[each] += json.loads(payload)["events"]
    return found, twin.store.state(twin.store.batches().stop).kept


def _multiset(events: Sequence[Any]) -> Counter[str]:
    return Counter(json.dumps(event, sort_keys=True) for event in events)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_spark_gives_what_the_twin_gives(hosting: Hosting, tmp_path: Path, seed: int) -> None:
    """Equal outputs, in equal order for one ingress stream, else as multisets, and equal states at the end."""
    drawn = random.Random(seed)
    cases = [_case(hosting, drawn) for _ in range(JOBS)]
    for case in cases:
        for stream in case.plan.streams:
            # Somebody who never reads on keeps the whole stream for the twin.
            commit(spool_folder(hosting.root, stream), "the twin", 0)
        hosting.send(case.plan)
    for case in cases:
        _until(hosting, case, lambda status, _: bool(status.get("in_effect")))
        sent = hosting.send(case.then)
        # Events come another way than plans, and must not be past where this one takes effect before it is there.
        _until(hosting, case, partial(_is_logged, sent.version))
    _feed(hosting, drawn, cases)
    for at, case in enumerate(cases):
        for batch_bytes in (1, 1_000_000):
            delivered, kept = _twin(case, hosting, tmp_path / f"{at}-{batch_bytes}", batch_bytes)
            for each, expected in delivered.items():
                found = hosting.until_delivered(each, len(expected))
                if len(case.events) == 1:
                    assert expected == found, case.plan
                else:
                    assert _multiset(expected) == _multiset(found), case.plan
            assert kept == hosting.state(case.plan.job), case.plan


def _feed(hosting: Hosting, drawn: random.Random, cases: Sequence[Case]) -> None:
    """Publish all events, in pieces that are read before the next ones come."""
    first = 0
    while first < EVENTS:
        end = min(EVENTS, first + drawn.randint(1, 60))
        for case in cases:
            for topic, events in case.events.items():
                hosting.publish(topic, events[first:end])
        first = end
        for case in cases:
            # A stream that has come to where the plan changes waits there for the other.
            _until(hosting, case, partial(_is_read, end))


def _until(hosting: Hosting, case: Case, is_so: Callable[[dict[str, Any], Mapping[str, int]], bool]) -> None:
    hosting.until(lambda: is_so(hosting.status(case.plan.job), case.then.at), f"job {case.plan.job} to be so far")


def _is_logged(version: int, status: Mapping[str, Any], _stops: Mapping[str, int]) -> bool:
    return bool(status["version"] == version)


def _is_read(end: int, status: Mapping[str, Any], stops: Mapping[str, int]) -> bool:
    positions = status["positions"]
    return all(positions.get(each, 0) >= (end if end == EVENTS else min(end, stop)) for each, stop in stops.items())
