"""A job with shards against the same job with one, while states change and move, and dead letters are fed again."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from bridge import Item, Spool
from bridge.output_messages import dead_letter
from bridge.spools.log import ItemKind, packed
from dags import Catalogue, Config, Schema, State, TaskType
from engine.behaviour import Behaviour, Implementation, each_event, installed_behaviours
from engine.catalogue import installed_catalogue
from engine.plan import Feed, FormerTask, Forward, Plan, Port, Slot, StateChange, StateImport, Switch
from engine.records.job_folder import KeptCut, job_folder, spool_folder
from engine.records.record import Table
from engine.records.state import Staged
from tests.differential.test_shards import by_key, multiset
from tests.engine.kernels import enters, entry, slot
from tests.engine.kernels import events as arrow_events
from tests.twins.twin_job import TwinJob

STREAM = "s"
KEYS = [f"key {n}" for n in range(9)]


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
BEHAVIOURS = {**installed_behaviours(), "recent": f"{__name__}:RECENT"}
CATALOGUE = Catalogue.of([*installed_catalogue().types.values(), RECENT.type])


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
            {"a": None if n % 7 == 0 else 1.0, "b": n % 11, "k": KEYS[n * 5 % len(KEYS)]}
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
            twin = self.twins[made.job] = TwinJob(self.root, made.job, BEHAVIOURS, CATALOGUE)
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
    unfit = [{"b": "many", "k": KEYS[0]}, 7]
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
