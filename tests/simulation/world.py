"""The world of a simulation: jobs run batches, read spools at positions of their own, and append to bridges."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.serialisability import Processed
from tests.simulation.graphs import Graph, Kind, emitted


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
