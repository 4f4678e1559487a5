"""A job with shards against the same job with one: batches, states that change and move, dead letters."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bridge import Item, Spool
from bridge.output_messages import dead_letter
from bridge.spools.log import ItemKind, packed
from dags import Catalogue, Config, Schema, State, TaskType
from dags.dataflow import GROUPS
from engine.behaviour import Behaviour, Implementation, each_event, installed_behaviours
from engine.catalogue import installed_catalogue
from engine.code.store import CodeStore, digest_of
from engine.job.plan_log import divided
from engine.plan import Delivery, Feed, FormerTask, Forward, Limits, Plan, Port, Slot, StateChange, StateImport, Switch
from engine.records.job_folder import KeptCut, job_folder, spool_folder
from engine.records.record import Table
from engine.records.state import Staged
from tests.engine.kernels import enters, entry, slot
from tests.engine.kernels import events as arrow_events
from tests.twins.twin_job import TwinJob

BEHAVIOURS, CATALOGUE = installed_behaviours(), installed_catalogue()
KEYS = [None, "x", "y", "z", "ü"]
TALLY = "def process(event, kept, config):\n    seen = (kept or 0) + config['step']\n    return {'seen': seen}, seen\n"
"""Published code that keeps something; an operator's, so that it needs no cells."""


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
        kinds += ["count", "stateful_code"] if set(by) <= has else []
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
            case "stateful_code":
                slots.append(slot(instance, "stateful_code", parent, **tally(by)))
                fields[instance] = has
            case "count":
                slots.append(slot(instance, "count", parent, by=by))
                fields[instance] = {*by, "count"}
            case _:
                slots.append(slot(instance, "noop", parent))
                fields[instance] = has
    return [*slots, *(slot(each.instance + 50, "output", each.instance) for each in slots)]


def tally(by: Sequence[str]) -> dict[str, Any]:
    """The config of code that keeps something by a key."""
    kinds = {"k": "string", "b": "integer"}
    return {
        "digest": digest_of(TALLY),
        "entry": "process",
        "input": {"in": {name: kinds[name] for name in by}},
        "output": {"fields": {"seen": "integer"}},
        "owner": "",
        "module": "tally",
        "by": list(by),
        "config": {"step": 2},
    }


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
        CodeStore(folder).put(digest_of(TALLY), TALLY)
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


STREAM = "s"
MANY_KEYS = [f"key {n}" for n in range(9)]


class RecentConfig(Config):
    """How many values are kept of each key."""

    size: int = 3


def _made(config: RecentConfig) -> Behaviour:
    def keep(_port: str, event: Mapping[str, Any], state: Staged) -> Iterable[tuple[str, Mapping[str, Any]]]:
        if event["b"] % 2 and event["a"] is None:
            raise ValueError("it is not to its taste")
        kept = [*(state.get((event["k"],)) or []), event["b"]][-config.size :]
        state.put((event["k"],), kept)
        yield "out", {"k": event["k"], "kept": json.dumps(kept)}

    return each_event(keep, lambda _schema: {"out": pa.schema({"k": pa.string(), "kept": pa.string()})})


def _transform(_old: RecentConfig, new: RecentConfig, _key: tuple[Any, ...], value: list[int]) -> list[int] | None:
    if new.size < 0:
        raise ValueError("no size")
    return value[-new.size :] if new.size else None


RECENT = Implementation(
    type=TaskType(
        name="recent",
        config=RecentConfig,
        state=State.KEY,
        key_fields=lambda _config: ("k",),
        output_schema=lambda _config, _inputs: {"out": Schema.of()},
    ),
    make=_made,
    transform=_transform,
)
WITH_RECENT = {**installed_behaviours(), "recent": f"{__name__}:RECENT"}
RECENT_CATALOGUE = Catalogue.of([*installed_catalogue().types.values(), RECENT.type])


def recent(instance: int, size: int) -> Slot:
    return slot(instance, "recent", 1, size=size)


def former(size: int) -> FormerTask:
    return FormerTask(type="recent", config=json.dumps({"size": size}))


def plan(job: str, version: int, *slots: Slot, **more: Any) -> Plan:
    made = entry(slots, [enters(STREAM, 1)], [Forward(instance=each.instance) for each in slots])
    return replace(made.plan, job=job, version=version, **more)


class Left(NamedTuple):
    """What a job left behind."""

    emitted: Mapping[Port, Sequence[Any]]
    markers: Sequence[tuple[Port, str]]
    opened: Mapping[Port, int]
    dead: Counter[str]
    cuts: Sequence[tuple[str, tuple[int, ...], Mapping[str, int]]]
    kept: Table


@dataclass
class Jobs:
    """Jobs over one spool, each with its own shards."""

    root: Path
    shards: Iterator[int]
    sent: int = 0
    twins: dict[str, TwinJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spool = Spool(spool_folder(self.root, STREAM), most_bytes=10_000_000)

    def send(self, many: int = 60) -> None:
        """Spool events; some have no `a`, and at some of these `recent` raises."""
        rows = [
            {"a": None if n % 7 == 0 else 1.0, "b": n % 11, "k": MANY_KEYS[n * 5 % len(MANY_KEYS)]}
            for n in range(self.sent, self.sent + many)
        ]
        self.sent += many
        for first in range(0, many, 20):
            batch = arrow_events(rows[first : first + 20])
            self.spool.append([Item(count=len(batch), stamp=1, payload=packed(batch))])

    def mark(self, name: str) -> None:
        """Put a marker behind the events."""
        self.spool.append([Item(kind=ItemKind.MARKER, count=1, stamp=1, payload=name.encode())])

    def run(self, made: Plan, starts: Mapping[str, int] | None = None) -> None:
        """Run a plan over all that is there, with the next number of shards."""
        twin = self.twins.get(made.job)
        if twin is None:
            twin = self.twins[made.job] = TwinJob(self.root, made.job, WITH_RECENT, RECENT_CATALOGUE)
        twin.log(replace(made, shards=next(self.shards)), starts)
        twin.settle()

    def settle(self, job: str) -> None:
        """Run what came since."""
        self.twins[job].settle()

    def cut(self, job: str, name: str) -> KeptCut:
        """Keep the states of a cut that came, as the follower does."""
        twin = self.twins[job]
        (found,) = (
            KeptCut(cut.name, batch, cut.instances, cut.positions)
            for batch in twin.store.batches()
            for cut in twin.store.file(batch).header.cuts
            if cut.name == name
        )
        job_folder(self.root, job).cuts.keep(found)
        return found

    def dead(self, job: str) -> list[dict[str, Any]]:
        """The dead letters of a job, as they are sent."""
        store = self.twins[job].store
        return [
            json.loads(payload)
            for batch in store.batches()
            for each in store.file(batch).dead()
            for payload in dead_letter(each.instance, each.port, each.reason, batch, each.events)
        ]

    def left(self, job: str) -> Left:
        """What a job left behind, with the numbers of its streams checked."""
        store = self.twins[job].store
        emitted: dict[Port, list[Any]] = {}
        numbers: dict[Port, int] = {}
        markers: list[tuple[Port, str]] = []
        opened: dict[Port, int] = {}
        cuts: list[tuple[str, tuple[int, ...], Mapping[str, int]]] = []
        for batch in store.batches():
            file = store.file(batch)
            opened.update(file.header.opened)
            cuts += [(cut.name, cut.instances, cut.positions) for cut in file.header.cuts]
            for each in file.emitted():
                assert numbers.setdefault(each.origin, each.first) == each.first
                numbers[each.origin] += each.count
                if each.events is None:
                    markers.append((each.origin, each.marker))
                else:
                    emitted.setdefault(each.origin, []).extend(each.events.to_pylist())
        dead = Counter(
            json.dumps([letter["instance"], letter["port"], letter["reason"], event], sort_keys=True)
            for letter in self.dead(job)
            for event in letter["events"]
        )
        return Left(emitted, sorted(markers), opened, dead, cuts, _noted(store.state(store.batches().stop).kept))


def _noted(kept: Table) -> Table:
    """States without notes that were taken back, which only an undivided job keeps."""
    return {
        instance: {group: {key: value for key, value in items.items() if value} for group, items in groups.items()}
        for instance, groups in kept.items()
    }


def check(expected: Left, found: Left) -> None:
    """Compare what a job left, with one shard and with several."""
    assert expected._replace(emitted={}) == found._replace(emitted={})
    assert expected.emitted.keys() == found.emitted.keys()
    for port, rows in expected.emitted.items():
        assert multiset(rows) == multiset(found.emitted[port])
        assert by_key(rows) == by_key(found.emitted[port]), f"the events of a key at {port}"


def changed(jobs: Jobs) -> None:
    """States are transformed, dropped, forked, and cannot be transformed; an instance leaves."""
    count, output = slot(2, "count", 1, by=["k"]), slot(9, "output", 3)
    jobs.send()
    jobs.run(plan("j", 1, count, recent(3, 4), output))
    jobs.send()
    fork = StateChange(instance=5, source=3, former=former(4))
    changes = (StateChange(instance=2, fresh=True), StateChange(instance=3, former=former(4)), fork)
    switch = Switch(marker="switch-7", announces=(Port(3, "out"),))
    jobs.run(plan("j", 2, count, recent(3, 2), recent(5, 1), output, changes=changes, switch=switch))
    jobs.send()
    jobs.settle("j")
    jobs.run(plan("j", 3, count, recent(3, -1), output, changes=(StateChange(instance=3, former=former(2)),)))
    jobs.send()
    jobs.settle("j")
    jobs.run(plan("j", 4, count, recent(3, 2), output, changes=(StateChange(instance=3, former=former(-1)),)))
    jobs.send()
    heir = StateChange(instance=6, source=3, former=former(2))
    jobs.run(plan("j", 5, count, recent(6, 3), changes=(heir,)))
    jobs.send()
    jobs.settle("j")


def fed(jobs: Jobs) -> None:
    """Dead letters are fed to a keyed task, to one without state, to one that left; some do not fit or fail again."""
    slots = (recent(3, 4), slot(7, "range_filter", 1, field="a", min=0, max=2, outside="drop"), slot(9, "output", 3))
    jobs.send()
    jobs.run(plan("j", 1, *slots))
    letters = jobs.dead("j")
    assert letters
    events = [event for letter in letters for event in letter["events"]]
    healed = [{**event, "a": 1.0} for event in events]
    unfit = [{"b": "many", "k": MANY_KEYS[0]}, 7]
    feeds = tuple(
        Feed(id=number, instance=instance, port=port, events=json.dumps(rows))
        for number, (instance, port, rows) in enumerate(
            [
                *((3, "in", rows) for rows in (healed, events, unfit)),
                *((instance, "in", healed) for instance in (7, 8)),
                (3, "side", healed),
            ]
        )
    )
    jobs.send()
    jobs.run(plan("j", 2, *slots, feeds=feeds))
    jobs.run(plan("j", 3, *slots, feeds=feeds))
    jobs.send()
    jobs.settle("j")


def moved(jobs: Jobs) -> None:
    """Tasks with state move at a cut into a job with another number of shards, and back into the first one."""
    count, output = slot(2, "count", 1, by=["k"]), slot(9, "output", 2)
    jobs.send()
    jobs.run(plan("j", 1, count, recent(3, 4), output))
    jobs.mark("c1")
    jobs.send()
    jobs.settle("j")
    cut = jobs.cut("j", "c1")
    imports = tuple(StateImport(instance=each, job="j", cut="c1") for each in (2, 3))
    jobs.run(plan("other", 1, count, recent(3, 4), output, imports=imports), cut.positions)
    jobs.mark("c2")
    jobs.send()
    jobs.settle("other")
    back = jobs.cut("other", "c2")
    imports = tuple(StateImport(instance=each, job="other", cut="c2") for each in (2, 3))
    jobs.run(plan("third", 1, count, recent(3, 4), output, imports=imports), back.positions)
    jobs.send()
    jobs.settle("third")


@pytest.mark.parametrize("shards", [(3, 3, 3, 3, 3), (1, 2, 3, 2, 1), (4, 1, 5, 1, 2), (2, 128, 2, 3, 7)], ids=str)
@pytest.mark.parametrize("what", [changed, fed, moved])
def test_shards_change_nothing(tmp_path: Path, what: Any, shards: Sequence[int]) -> None:
    """Events of each key, numbers, markers, dead letters, cuts and states are those of one shard."""
    alone, apart = Jobs(tmp_path / "alone", iter([1] * 5)), Jobs(tmp_path / "apart", iter(shards))
    with closing(alone.spool), closing(apart.spool):
        for jobs in (alone, apart):
            what(jobs)
        assert alone.twins.keys() == apart.twins.keys()
        for job in alone.twins:
            check(alone.left(job), apart.left(job))
