"""A job with shards against the same job with one: random plans, batches, and changes of the number of shards."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.spools.log import packed
from dags.dataflow import GROUPS
from engine.behaviour import installed_behaviours
from engine.catalogue import installed_catalogue
from engine.job.plan_log import divided
from engine.plan import Delivery, Forward, Limits, Plan, Port, Slot
from engine.records.job_folder import spool_folder
from engine.records.record import Table
from tests.engine.kernels import enters, slot
from tests.engine.kernels import events as arrow_events
from tests.twins.twin_job import TwinJob

BEHAVIOURS, CATALOGUE = installed_behaviours(), installed_catalogue()
KEYS = [None, "x", "y", "z", "ü"]


@dataclass(frozen=True)
class Case:
    """A plan without shards, what enters it, and for each piece of the events how the job is divided."""

    plan: Plan
    events: Mapping[str, Sequence[Mapping[str, Any]]]
    pieces: Sequence[tuple[int, tuple[int, ...], int]]
    """Shards, groups, and bytes of a batch."""


@st.composite
def parts(draw: st.DrawFn, source: int) -> list[Slot]:
    """The tasks behind one stream: some that keep nothing, some by key, now and then one for the whole stream."""
    slots: list[Slot] = []
    fields: dict[int, set[str]] = {source: {"a", "b", "k"}}
    by = draw(st.sampled_from([["k"], ["k"], ["k", "b"], []]))
    for number in range(1, draw(st.integers(1, 5)) + 1):
        parent = draw(st.sampled_from(sorted(fields)))
        has = fields[parent]
        kinds = ["range_filter", "kalman_filter", "where"] if "a" in has else []
        kinds += ["count"] if set(by) <= has else []
        instance = source * 100 + number
        match draw(st.sampled_from([*kinds, "noop"])):
            case "range_filter":
                config: dict[str, Any] = {"field": "a", "min": -1, "max": 6, "outside": "drop"}
                slots.append(slot(instance, "range_filter", parent, **config))
                fields[instance] = has
            case "where":
                slots.append(slot(instance, "where", parent, expression="a > 0"))
                fields[instance] = has
            case "kalman_filter" if set(by) <= has:
                slots.append(slot(instance, "kalman_filter", parent, field="a", by=by))
                fields[instance] = has
            case "count":
                slots.append(slot(instance, "count", parent, by=by))
                fields[instance] = {*by, "count"}
            case _:
                slots.append(slot(instance, "noop", parent))
                fields[instance] = has
    return [*slots, *(slot(each.instance + 50, "output", each.instance) for each in slots)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two parts, up to sixty events each, up to four pieces."""
    sources = [1, 2]
    slots = [each for source in sources for each in draw(parts(source))]
    outputs = [each for each in slots if each.type == "output"]
    event = st.fixed_dictionaries(
        {"a": st.none() | st.floats(-5, 10), "b": st.none() | st.integers(0, 3), "k": st.sampled_from(KEYS)}
    )
    pieces = draw(st.integers(1, 4))
    streams = {f"s{each}": draw(st.lists(event, min_size=pieces, max_size=60)) for each in sources}
    shards = st.integers(1, 4)
    return Case(
        Plan(
            job="j",
            host="h",
            version=1,
            slots=tuple(slots),
            ingress=tuple(enters(f"s{each}", each) for each in sources),
            forwards=(Forward(instance=1), Forward(instance=2)),
            deliveries=tuple(
                Delivery(instance=each.instance, tenant="t", dataflow="d", sink=str(each)) for each in outputs
            ),
        ),
        streams,
        [_piece(draw, draw(shards)) for _ in range(pieces)],
    )


def _piece(draw: st.DrawFn, shards: int) -> tuple[int, tuple[int, ...], int]:
    groups = draw(st.lists(st.integers(0, shards - 1), min_size=GROUPS, max_size=GROUPS)) if draw(st.booleans()) else ()
    return shards, tuple(groups), draw(st.sampled_from([200, 2_000, 1_000_000]))


class Outcome:
    """What a job emitted and kept."""

    def __init__(self, case: Case, folder: Path, *, shards: bool) -> None:
        self.emitted: dict[Port, list[dict[str, Any]]] = {}
        twin = TwinJob(folder, "j", BEHAVIOURS, CATALOGUE)
        spools = {stream: Spool(spool_folder(folder, stream), most_bytes=10_000_000) for stream in case.events}
        for number, (count, groups, size) in enumerate(case.pieces):
            plan = replace(case.plan, version=number + 1, limits=Limits(batch_bytes=size))
            twin.log(replace(plan, shards=count, groups=groups) if shards else plan)
            for stream, events in case.events.items():
                length = len(events)
                piece = events[length * number // len(case.pieces) : length * (number + 1) // len(case.pieces)]
                if piece:
                    rows = arrow_events(piece)
                    spools[stream].append([Item(count=len(rows), stamp=number, payload=packed(rows))])
            twin.settle()
        for batch in twin.store.batches():
            record = twin.store.file(batch)
            assert () == record.dead()
            for each in record.emitted():
                assert each.events is not None
                rows = self.emitted.setdefault(each.origin, [])
                assert len(rows) == each.first
                rows += each.events.to_pylist()
        self.kept = _without_notes(twin.store.state(twin.store.batches().stop).kept)
        for spool in spools.values():
            spool.close()


def _without_notes(kept: Table) -> Table:
    return {instance: dict(groups) for instance, groups in kept.items()}


def by_key(rows: Sequence[Mapping[str, Any]]) -> dict[Any, list[str]]:
    """The events of each key, in order."""
    found: dict[Any, list[str]] = {}
    for row in rows:
        found.setdefault((row.get("k"), row.get("b")), []).append(json.dumps(row, sort_keys=True))
    return found


def multiset(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The events, in no order."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@settings(deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(cases())
def test_shards_change_nothing_but_the_order_between_keys(case: Case) -> None:
    """Whatever the batches and shards over time, events are equal and in order for each key, and so are the states."""
    with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as apart:
        expected = Outcome(case, Path(alone), shards=False)
        found = Outcome(case, Path(apart), shards=True)
    assert {port: multiset(rows) for port, rows in expected.emitted.items()} == {
        port: multiset(rows) for port, rows in found.emitted.items()
    }
    division = divided(replace(case.plan, shards=2), CATALOGUE)
    for port, rows in expected.emitted.items():
        if port.instance in division.keyed and {"k", "b"} <= set(rows[0] if rows else {}):
            assert by_key(rows) == by_key(found.emitted[port])
    assert expected.kept == found.kept
