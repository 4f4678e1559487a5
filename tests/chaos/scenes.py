"""The jobs that run during the kills, and the oracle that computes their outputs event by event."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dags import Kind
from engine.plan import Bridged, Edge, Forward, Ingress, Plan, ReplayedFile, Slot
from engine.records.job_folder import spool_folder
from engine.records.state import NUMBERS, packed_key
from engine.records.store import RecordStore
from tests.chaos.killing import HOST, Arena, events_in, subscribed
from tests.engine.records.unpacked import unpacked_value

Event = Mapping[str, Any]
State = Mapping[tuple[Any, ...], Any]

LEAST, MOST = 10.0, 90.0
WINDOW = 7


class OracleResult(NamedTuple):
    """The events that a task emitted, and its state after them."""

    events: list[dict[str, Any]]
    state: dict[tuple[Any, ...], Any]


def filtered(events: Iterable[Event]) -> list[Event]:
    """The events with a `v` in range."""
    return [event for event in events if LEAST <= event["v"] <= MOST]


def counted(events: Iterable[Event]) -> OracleResult:
    """For every event the number of events with its `k` so far."""
    emitted: list[dict[str, Any]] = []
    state: dict[tuple[Any, ...], Any] = {}
    for event in events:
        state[event["k"],] = state.get((event["k"],), 0) + 1
        emitted.append({"k": event["k"], "count": state[event["k"],]})
    return OracleResult(emitted, state)


def averaged(events: Iterable[Event], field: str) -> OracleResult:
    """The mean of a field in blocks for each `k`, at the event that completes one."""
    emitted: list[dict[str, Any]] = []
    state: dict[tuple[Any, ...], Any] = {}
    for event in events:
        size, total = state.pop((event["k"],), [0, 0.0])
        size, total = size + 1, total + event[field]
        if size == WINDOW:
            emitted.append({"k": event["k"], field: total / size})
        else:
            state[event["k"],] = [size, total]
    return OracleResult(emitted, state)


def first_difference(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """The first difference of two sequences in a few words, because whole they would fill a screen; else empty."""
    for at, (one, other) in enumerate(zip(expected, actual, strict=False)):
        if one != other:
            return f"at {at} of {len(expected)} stands {other} instead of {one}, then {actual[at + 1 : at + 4]}"
    if len(expected) != len(actual):
        return f"there are {len(actual)} instead of {len(expected)}"
    return ""


def first_difference_by_key(expected: Sequence[Event], actual: Sequence[Event]) -> str:
    """The first difference among the events of each `k`, in a few words; else empty."""
    keys = sorted({event["k"] for event in (*expected, *actual)})
    found = (
        (key, first_difference([e for e in expected if e["k"] == key], [e for e in actual if e["k"] == key]))
        for key in keys
    )
    return next((f"{key}: {why}" for key, why in found if why), "")


FIELDS = {"n": Kind.INTEGER, "k": Kind.STRING, "v": Kind.FLOAT}
ROWS = 2_000
PER_SECOND = 300


@dataclass(kw_only=True)
class Scene:
    """One or two jobs between a numbered source and a subscriber."""

    arena: Arena
    name: str
    base: int
    """The number of the first instance; no two scenes share a topic."""
    plans: dict[str, Plan]
    leaves: tuple[int, ...]
    swaps: int = 0
    markers: int = 0
    shards: tuple[int, ...] = (1,)
    """The numbers of shards that its plans may have."""

    @property
    def raw(self) -> str:
        """The raw stream."""
        return f"raw/{self.name}"

    def start(self) -> None:
        """Start the jobs, the last first, so that each finds the next one's spool subscribed."""
        self.arena.keep_whole(self.raw)
        for instance in self.leaves:
            self.arena.subscriber.subscribe(instance)
        for job in reversed(self.plans):
            self.arena.send(self.plans[job])
            self.arena.until(partial(self._runs, job, 1), f"job {job} starts")
        self.arena.until(lambda: subscribed(self.arena, self.leaves) > 0, "events arrive")

    def swap(self, random_: random.Random, job: str = "") -> None:
        """Send a job, or any, another plan with the same outputs and, if it can be, another number of shards."""
        job = job or random_.choice(list(self.plans))
        plan = self.plans[job]
        kept = tuple(slot for slot in plan.slots if slot.instance < self.base + 10)
        self.swaps += 1
        grafted = Slot(
            instance=self.base + 10 + self.swaps,
            type="count",
            config='{"by":["k"]}',
            inputs=(Edge(parent=kept[-1].inputs[0].parent),),
        )
        plan = replace(
            plan,
            version=plan.version + 1,
            slots=(*kept, grafted) if random_.random() < 0.6 else kept,
            pace=random_.choice((0.1, 0.2, 0.4)),
            shards=random_.choice([each for each in self.shards if each != plan.shards] or self.shards),
        )
        self.plans[job] = plan
        self.arena.send(plan)

    def await_swaps(self) -> None:
        """Wait until each job runs its latest plan."""
        for job, plan in self.plans.items():
            runs = partial(self._runs, job, plan.version)
            self.arena.until(runs, f"version {plan.version} of job {job} takes effect")

    def _runs(self, job: str, version: int) -> bool:
        return bool(self.arena.status(job).get("in_effect") == version)

    def judge(self) -> int:
        """Take a cut, and compare the outputs before it and the states at it with the oracle; the number of events."""
        self.markers += 1
        cut = f"{self.name}/{self.markers}"
        self.arena.cut(cut, self.raw)
        came: dict[int, list[dict[str, Any]]] = {}

        def have() -> bool:
            for instance in self.leaves:
                if (events := self.arena.subscriber.until_marker(instance, cut)) is not None:
                    came[instance] = events
            return len(came) == len(self.leaves)

        self.arena.until(have, f"the marker {cut} comes through")
        entered = self._entered(cut)
        expected, states = self._expected(entered)
        for instance in self.leaves:
            assert self.difference(expected[instance], came[instance]) == "", f"instance {instance}"
        for job in self.plans:
            for instance, kept in self._states(job, cut).items():
                assert states[instance] == kept, f"state of instance {instance}"
        assert (0, []) == (self.arena.subscriber.gaps(), self.arena.subscriber.unread)
        return sum(map(len, came.values()))

    def difference(self, expected: Sequence[Mapping[str, Any]], came: Sequence[Mapping[str, Any]]) -> str:
        """The first difference of what came, in a few words; shards keep the order for each key alone."""
        return first_difference(expected, came) if self.shards == (1,) else first_difference_by_key(expected, came)

    def _entered(self, cut: str) -> list[dict[str, Any]]:
        first = next(iter(self.plans))
        positions = next(kept.positions for kept in self.arena.folder(first).cuts.all() if kept.name == cut)
        entered = events_in(spool_folder(self.arena.root, self.raw), positions[self.raw])
        # The source's own promise: each event of the file once, in order.
        assert first_difference([row % ROWS for row in range(len(entered))], [row["n"] for row in entered]) == ""
        return entered

    def _expected(self, entered: Sequence[Mapping[str, Any]]) -> tuple[dict[int, Any], dict[int, Any]]:
        counts = counted(filtered(entered))
        means = averaged(filtered(entered), "v") if len(self.plans) == 1 else averaged(counts.events, "count")
        tasks = {self.base + 3: counts, self.base + 4: means}
        return (
            {instance: task.events for instance, task in tasks.items()},
            {
                instance: {packed_key(key): value for key, value in task.state.items()}
                for instance, task in tasks.items()
            },
        )

    def _states(self, job: str, cut: str) -> dict[int, dict[bytes, Any]]:
        folder = self.arena.folder(job)
        kept = next(kept for kept in folder.cuts.all() if kept.name == cut)
        judged = [slot.instance for slot in self.plans[job].slots if slot.type != "range_filter"]
        judged = [instance for instance in judged if instance < self.base + 10]
        table = RecordStore(folder.records).state_at(kept.batch, judged)
        return {
            instance: {
                key: unpacked_value(value)
                for group, items in table.get(instance, {}).items()
                if group != NUMBERS
                for key, value in items.items()
                if value is not None
            }
            for instance in judged
        }


def one_job(arena: Arena, name: str, base: int, folder: Path) -> Scene:
    """A filter feeds a count and an average of blocks; both are forwarded."""
    plan = Plan(
        job=name,
        host=HOST,
        version=1,
        ingress=(_source(name, base, folder),),
        slots=(_filter(base), _count(base), _average(base, base + 2, "v")),
        forwards=(Forward(instance=base + 3), Forward(instance=base + 4)),
        pace=0.2,
    )
    return Scene(arena=arena, name=name, base=base, plans={name: plan}, leaves=(base + 3, base + 4))


def two_jobs(arena: Arena, name: str, base: int, folder: Path) -> Scene:
    """A filter and a count in one job; another averages blocks of these counts."""
    upper, lower = f"{name}-upper", f"{name}-lower"
    plans = {
        upper: Plan(
            job=upper,
            host=HOST,
            version=1,
            ingress=(_source(name, base, folder),),
            slots=(_filter(base), _count(base)),
            forwards=(Forward(instance=base + 3),),
            pace=0.2,
        ),
        lower: Plan(
            job=lower,
            host=HOST,
            version=1,
            ingress=(Ingress(stream=f"bridge/{base + 3}:out", instance=base + 3, supply=Bridged()),),
            slots=(_average(base, base + 3, "count"),),
            forwards=(Forward(instance=base + 4),),
            pace=0.2,
        ),
    }
    return Scene(arena=arena, name=name, base=base, plans=plans, leaves=(base + 4,))


def sharded_job(arena: Arena, name: str, base: int, folder: Path) -> Scene:
    """One job that begins with three shards, and has another number with each plan."""
    return _divided(one_job(arena, name, base, folder))


def sharded_jobs(arena: Arena, name: str, base: int, folder: Path) -> Scene:
    """Two jobs of that kind, joined by a bridge."""
    return _divided(two_jobs(arena, name, base, folder))


def _divided(scene: Scene) -> Scene:
    return replace(
        scene, plans={job: replace(plan, shards=3) for job, plan in scene.plans.items()}, shards=(1, 2, 3, 5)
    )


def _source(name: str, base: int, folder: Path) -> Ingress:
    path = folder / f"{name}.jsonl"
    rows = ({"n": row, "k": f"k{row * 7 % 11}", "v": row * 13 % 101 + row % 10 / 10} for row in range(ROWS))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    supply = ReplayedFile(path=str(path), fields=FIELDS, per_second=PER_SECOND, repeat=True)
    return Ingress(stream=f"raw/{name}", instance=base + 1, supply=supply, start=0)


def _filter(base: int) -> Slot:
    config = json.dumps({"field": "v", "min": LEAST, "max": MOST, "outside": "drop"})
    return Slot(instance=base + 2, type="range_filter", config=config, inputs=(Edge(parent=base + 1),))


def _count(base: int) -> Slot:
    return Slot(instance=base + 3, type="count", config='{"by":["k"]}', inputs=(Edge(parent=base + 2),))


def _average(base: int, parent: int, of: str) -> Slot:
    config = json.dumps({"field": of, "by": ["k"], "window": WINDOW})
    return Slot(instance=base + 4, type="block_window_average", config=config, inputs=(Edge(parent=parent),))
