"""The world of a simulation: graphs drawn from a seed, and jobs that run batches, read spools, fill bridges."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from zlib import crc32

from tests.serialisability import Processed


class Kind(StrEnum):
    """The number of events that a task emits for one."""

    MAP = "map"
    FILTER = "filter"
    """One or none."""
    SPLIT = "split"
    """None to three."""
    ONCE = "once"
    """One for all that an event of a source leads to: the first to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Sources, tasks and streams, and the job of each task."""

    sources: tuple[str, ...]
    kinds: dict[str, Kind]
    """The tasks, after those that they read."""
    streams: tuple[tuple[str, str], ...]
    jobs: dict[str, str]
    parts: tuple[tuple[str, ...], ...]
    """The tasks that many a reconfiguration keeps to: those that are connected, or may be, or are below one."""

    def consumers(self, producer: str) -> tuple[str, ...]:
        """The tasks that read a source or task, as often as they do."""
        return tuple(consumer for known, consumer in self.streams if known == producer)

    def producers(self, consumer: str) -> tuple[str, ...]:
        """The sources and tasks that a task reads, as often as it does."""
        return tuple(producer for producer, known in self.streams if known == consumer)

    def of(self, job: str) -> tuple[str, ...]:
        """The tasks of a job, after those that they read."""
        return tuple(task for task in self.kinds if self.jobs[task] == job)

    def inputs(self, job: str) -> tuple[str, ...]:
        """The sources, and tasks of other jobs, that a job reads."""
        read = {producer for task in self.of(job) for producer in self.producers(task)}
        return tuple(sorted(producer for producer in read if self.jobs.get(producer) != job))

    def duplicating(self) -> frozenset[str]:
        """The sources and tasks whose stream is read more than once."""
        return frozenset(p for p in (*self.sources, *self.kinds) if len(self.consumers(p)) > 1)

    def of_kind(self, kind: Kind) -> frozenset[str]:
        """The tasks of one kind."""
        return frozenset(task for task, known in self.kinds.items() if known is kind)


def emitted(task: str, kind: Kind, event: int) -> int:
    """The number of events that a task emits for one that a source's event led to; for once, if it is the first."""
    chance = crc32(f"{task} {event}".encode())
    return {Kind.MAP: 1, Kind.FILTER: chance % 2, Kind.SPLIT: chance % 4, Kind.ONCE: 1}[kind]


def expected(graph: Graph, source: str, event: int) -> Counter[str]:
    """How often each task works on what an event of a source leads to, whatever the batches."""
    sent = Counter({source: 1})
    work: Counter[str] = Counter()
    for task, kind in graph.kinds.items():
        taken = sum(sent[producer] for producer, consumer in graph.streams if consumer == task)
        work[task] = taken
        sent[task] = emitted(task, kind, event) * (min(taken, 1) if kind is Kind.ONCE else taken)
    return +work


Draw: TypeAlias = Callable[[random.Random], Graph]


def drawn(numbers: random.Random) -> Graph:
    """A graph of one or two parts that share nothing, so that reconfigurations of both need not wait."""
    parts = [_part(name, numbers) for name in ("", "other-")[: numbers.randint(1, 2)]]
    return Graph(
        sources=tuple(source for part in parts for source in part.sources),
        kinds={task: kind for part in parts for task, kind in part.kinds.items()},
        streams=tuple(stream for part in parts for stream in part.streams),
        jobs={task: job for part in parts for task, job in part.jobs.items()},
        parts=tuple(tuple(part.kinds) for part in parts),
    )


def forked(numbers: random.Random) -> Graph:
    """A graph that forks once, whose ways meet in one task with others below it, over up to six jobs.

    So an event of the source reaches that task in several pieces. Half of these tasks emit once for all of them.
    """
    places = {"source1": 1}
    kinds: dict[str, Kind] = {}
    streams: list[tuple[str, str]] = []
    most = numbers.randint(2, 6)

    def add(kind: Kind, *parents: str) -> str:
        task = f"task{len(kinds) + 1}"
        kinds[task] = kind
        places[task] = numbers.randint(max(places[parent] for parent in parents), most)
        streams.extend((parent, task) for parent in parents)
        return task

    fork = add(Kind.MAP, "source1")
    ends = [fork] * numbers.randint(2, 3)
    for way, _ in enumerate(ends):
        for _ in range(numbers.randint(1, 2)):
            ends[way] = add(numbers.choice([Kind.MAP, Kind.FILTER]), ends[way])
    meeting = add(numbers.choice([Kind.MAP, Kind.ONCE]), *ends)
    below = [add(Kind.MAP, meeting)]
    for _ in range(numbers.randint(0, 2)):
        below.append(add(Kind.MAP, numbers.choice([meeting, *below])))
    jobs = {task: f"job{places[task]}" for task in kinds}
    return Graph(sources=("source1",), kinds=kinds, streams=tuple(streams), jobs=jobs, parts=(tuple(below),))


def _part(name: str, numbers: random.Random) -> Graph:
    """Up to three sources and ten tasks on up to six jobs, which read each other in one direction."""
    sources = tuple(f"{name}source{number}" for number in range(1, numbers.randint(1, 3) + 1))
    tasks = tuple(f"{name}task{number}" for number in range(1, numbers.randint(2, 10) + 1))
    most = numbers.randint(1, 6)
    joins = numbers.choice([[1, 0, 0], [6, 3, 1]])
    places: dict[str, int] = dict.fromkeys(sources, 1)
    kinds: dict[str, Kind] = {}
    streams: list[tuple[str, str]] = []
    for task in tasks:
        # A task may read one stream twice.
        parents = numbers.choices(list(places), k=numbers.choices([1, 2, 3], joins)[0])
        streams += [(parent, task) for parent in parents]
        places[task] = numbers.randint(max(places[parent] for parent in parents), most)
        kinds[task] = numbers.choices(list(Kind), [9, 6, 3, 2])[0]
    jobs = {task: f"{name}job{places[task]}" for task in tasks}
    return Graph(sources=sources, kinds=kinds, streams=tuple(streams), jobs=jobs, parts=(tasks,))


def beside(numbers: random.Random) -> Graph:
    """Jobs beside each other that mostly read the same sources, and some of them what others send."""
    sources = tuple(f"source{number}" for number in range(1, numbers.randint(2, 3) + 1))
    jobs = numbers.randint(2, 3)
    kinds: dict[str, Kind] = {}
    streams: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for number in range(1, jobs + 1):
        task = f"task{number}"
        parents = set(numbers.sample(sources, 2))
        if kinds and not numbers.randint(0, 2):
            parents = {numbers.choice(list(kinds)), *numbers.sample(sorted(parents), numbers.randint(0, 1))}
        streams += [(parent, task) for parent in sorted(parents)]
        kinds[task] = numbers.choices(list(Kind), [9, 2, 1, 0])[0]
        places[task] = f"job{number}"
    return Graph(sources=sources, kinds=kinds, streams=tuple(streams), jobs=places, parts=(tuple(kinds),))


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a source, or one that it led to."""

    number: int
    version: int = 0
    """The configuration that the source asked for; most schedulers do without."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A place in a spool where the jobs of one component switch."""

    reconfiguration: str
    component: int


class World:
    """All spools, positions and configurations, and the work so far."""

    def __init__(self, graph: Graph, numbers: random.Random) -> None:
        self.graph = graph
        self.jobs = sorted(set(graph.jobs.values()))
        self.inputs = {job: graph.inputs(job) for job in self.jobs}
        self.spools: dict[str, list[Event | Marker]] = {name: [] for name in (*graph.sources, *graph.kinds)}
        self.positions = {(job, spool): 0 for job in self.jobs for spool in self.inputs[job]}
        self.applied: dict[str, list[str]] = {task: [] for task in graph.kinds}
        self.processed: list[Processed] = []
        self.arrived = 0
        self.numbers = numbers
        self._seen: set[tuple[str, int]] = set()

    def arrive(self, source: str, version: int) -> None:
        """An event comes to a source; events are numbered in the order in which they come."""
        self.spools[source].append(Event(self.arrived, version))
        self.arrived += 1

    def next_entry(self, job: str, spool: str) -> Event | Marker | None:
        """The entry at a job's position, if there is one."""
        entries, place = self.spools[spool], self.positions[job, spool]
        return entries[place] if place < len(entries) else None

    def idle(self) -> bool:
        """All jobs have read all spools."""
        return all(place == len(self.spools[spool]) for (_, spool), place in self.positions.items())

    def oldest(self) -> float:
        """The lowest number of an event that some job still has to read."""
        unread = (entry for (_, spool), place in self.positions.items() for entry in self.spools[spool][place:])
        return min((entry.number for entry in unread if isinstance(entry, Event)), default=float("inf"))

    def batch(self, job: str, ends: Mapping[str, int], configuration: Callable[[str, Event], str | None]) -> None:
        """Read some part of each spool, at most up to its end, and let all tasks of the job work on it."""
        sent = {spool: self._read(job, spool, end) for spool, end in ends.items()}
        for task in self.graph.of(job):
            arriving = [sent[producer] for producer in self.graph.producers(task)]
            sent[task] = self._work(task, self._interleaved(arriving), configuration)
            self.spools[task] += sent[task]

    def _read(self, job: str, spool: str, end: int) -> list[Event]:
        begin = self.positions[job, spool]
        self.positions[job, spool] = self.numbers.randint(begin, end)
        entries = self.spools[spool][begin : self.positions[job, spool]]
        return [entry for entry in entries if isinstance(entry, Event)]

    def _interleaved(self, streams: list[list[Event]]) -> list[Event]:
        """The events of several streams as they might arrive: each stream keeps its order."""
        turns = [number for number, stream in enumerate(streams) for _ in stream]
        self.numbers.shuffle(turns)
        left = [iter(stream) for stream in streams]
        return [next(left[turn]) for turn in turns]

    def _work(self, task: str, events: list[Event], configuration: Callable[[str, Event], str | None]) -> list[Event]:
        sent: list[Event] = []
        for event in events:
            found = configuration(task, event)
            self.processed.append(Processed(event=event.number, task=task, configuration=found))
            kind = self.graph.kinds[task]
            if kind is not Kind.ONCE or (task, event.number) not in self._seen:
                sent += [event] * emitted(task, kind, event.number)
            self._seen.add((task, event.number))
        return sent
