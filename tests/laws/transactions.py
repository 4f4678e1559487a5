"""Reconfigurations of small random DAGs, and what one source event meets while markers pass.

The model has a queue for each edge and one for the event. It takes one step at a time, and a function picks the step:
at random, or every sequence of picks in turn.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from hypothesis import strategies as st

from merge.reconfiguration.covering import Component, components

Pick = Callable[[int], int]
"""One of so many choices, by its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigured:
    """A DAG, the tasks of it that change, and what its tasks declare."""

    streams: tuple[tuple[str, str], ...]
    tasks: tuple[str, ...]
    changed: frozenset[str]
    one_to_many: frozenset[str]
    per_edge: frozenset[str]
    unique: frozenset[str]

    def components(self) -> tuple[Component, ...]:
        """With pruning."""
        return components(self.streams, self.changed, self.one_to_many, self.per_edge, self.unique)

    def unpruned(self) -> tuple[Component, ...]:
        """Without pruning."""
        return components(self.streams, self.changed, self.one_to_many)


@st.composite
def reconfigurations(draw: st.DrawFn, most: int = 9) -> Reconfigured:
    """DAGs of so many tasks at most, in levels that part and meet again, and all that their tasks may declare.

    A few edges skip levels, and a few are double. Names say nothing of the order.
    """
    chance = Random(draw(st.integers(0, 2**32)))
    tasks = [*"abcdefghi"[: draw(st.integers(2, most))]]
    chance.shuffle(tasks)
    levels, left = list[list[str]](), tasks
    while left:
        width = chance.choice((1, 1, 2, 2, 3))
        levels, left = [*levels, left[:width]], left[width:]
    streams = list[tuple[str, str]]()
    for above, below in pairwise(levels):
        joined = {(chance.choice(above), each) for each in below} | {(each, chance.choice(below)) for each in above}
        streams += sorted(joined)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        first, second = sorted(chance.sample(range(len(tasks)), 2))
        streams.append((tasks[first], tasks[second]))
    chance.shuffle(streams)

    def some(share: float) -> frozenset[str]:
        return frozenset(task for task in tasks if chance.random() < share)

    one_to_many = some(chance.choice((1 / 4, 1 / 2)))
    return Reconfigured(
        streams=tuple(streams),
        tasks=tuple(tasks),
        changed=some(1 / 8) | {chance.choice(tasks[len(tasks) // 2 :])},
        one_to_many=one_to_many,
        per_edge=some(1 / 2) & one_to_many,
        unique=some(chance.choice((0, 1 / 3, 1 / 2))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """All that one source event and the tuples made of it met."""

    versions: frozenset[bool]
    """Of the changed tasks that took them; True is the new one."""
    met: frozenset[Component]
    taken: Counter[str]
    """The tuples that each task took."""
    switched: frozenset[str]
    """The tasks that switched, or passed the markers on, by the end."""


class Model:
    """Tasks between queues, some with markers still to come. Runs once."""

    def __init__(self, case: Reconfigured, parts: Collection[Component], pick: Pick) -> None:
        self._case = case
        self._pick = pick
        self._part = {task: part for part in parts for task in part.scope}
        self._waiting = sorted(head for part in parts for head in part.heads)
        outgoing: defaultdict[str, list[int]] = defaultdict(list)
        self._aligning: defaultdict[str, set[int]] = defaultdict(set)
        for edge, (above, below) in enumerate(case.streams):
            outgoing[above].append(edge)
            if self._inside(edge):
                self._aligning[below].add(edge)
        self._outgoing = outgoing
        self._queues: defaultdict[int, deque[str]] = defaultdict(deque)
        self._blocked = set[int]()
        self._spent = set[str]()
        self._switched = set[str]()
        self._versions = set[bool]()
        self._taken = Counter[str]()

    def passage(self) -> Passage:
        """One source event, from any task without inputs, until nothing is under way."""
        sources = sorted(set(self._case.tasks).difference(below for _, below in self._case.streams))
        source: str | None = sources[self._pick(len(sources))]
        while True:
            edges = [edge for edge, queue in self._queues.items() if queue and edge not in self._blocked]
            steps = [*self._waiting, *edges, *([] if source is None else [None])]
            if not steps:
                break
            step = steps[self._pick(len(steps))]
            if isinstance(step, str):
                self._waiting.remove(step)
                self._switch(step)
            elif step is not None:
                self._take(step)
            elif source is not None:
                self._process(source)
                source = None
        return Passage(
            versions=frozenset(self._versions),
            met=frozenset(self._part[task] for task in self._taken if task in self._part),
            taken=self._taken,
            switched=frozenset(self._switched),
        )

    def _inside(self, edge: int) -> bool:
        above, below = self._case.streams[edge]
        return above in self._part and self._part[above] is self._part.get(below)

    def _take(self, edge: int) -> None:
        task = self._case.streams[edge][1]
        if self._queues[edge].popleft() == "tuple":
            self._process(task)
            return
        self._blocked.add(edge)
        if self._aligning[task] <= self._blocked:
            self._switch(task)
            self._blocked -= self._aligning[task]

    def _switch(self, task: str) -> None:
        self._switched.add(task)
        for edge in filter(self._inside, self._outgoing[task]):
            self._queues[edge].append("marker")

    def _process(self, task: str) -> None:
        self._taken[task] += 1
        if task in self._case.changed:
            self._versions.add(task in self._switched)
        for edge in self._emitted(task):
            self._queues[edge].append("tuple")

    def _emitted(self, task: str) -> Iterator[int]:
        """The edges on which a task emits for one tuple, as its declarations allow. Most emit all they can."""
        edges = self._outgoing[task]
        if not edges or task in self._spent:
            return
        self._spent |= self._case.unique & {task}
        if task in self._case.per_edge:
            yield from edges
        elif task in self._case.unique or task not in self._case.one_to_many:
            yield edges[self._pick(len(edges))]
        else:
            for _ in range(self._pick(3)):
                yield edges[self._pick(len(edges))]


def at_random(case: Reconfigured, parts: Collection[Component], runs: int) -> Iterator[Passage]:
    """So many passages."""
    chance = Random(0)
    for _ in range(runs):
        yield Model(case, parts, chance.randrange).passage()


def in_turn(case: Reconfigured, parts: Collection[Component]) -> Iterator[Passage]:
    """Every passage that there can be."""
    picked = list[int]()
    while True:
        choices = list[int]()

        def pick(count: int, choices: list[int] = choices) -> int:
            choices.append(count)
            if len(choices) > len(picked):
                picked.append(0)
            return picked[len(choices) - 1]

        yield Model(case, parts, pick).passage()
        while picked and picked[-1] + 1 == choices[len(picked) - 1]:
            picked.pop()
        if not picked:
            return
        picked[-1] += 1
