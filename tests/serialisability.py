"""Serialisability: a history of events and reconfigurations is consistent if some serial order explains it.

Transactions are source events, each with everything it causes, and reconfigurations, each with all tasks it changes.
They conflict at a task that both touch, and the one that came first there precedes the other. Reconfigurations that
change one task precede each other in the order in which the task got them; events do not conflict. The history is
conflict-serialisable if these precedences have no cycle (Fries, section 4.2, but for any number of reconfigurations).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Processed:
    """One task's work on a source event or on something that the event caused. Made by whatever observes tasks."""

    event: int | str
    task: str
    configuration: str | None
    """The last reconfiguration that the task had got by then; None before its first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The work of tasks, and the reconfigurations that they got."""

    applied: Mapping[str, Sequence[str]]
    """The reconfigurations of each task, in the order in which the task got them."""
    processed: Iterable[Processed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A source event or a reconfiguration: a vertex of the precedence graph."""

    name: int | str
    is_event: bool

    def __str__(self) -> str:
        return f"event {self.name}" if self.is_event else str(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """A transaction that came before another one at a task: an edge of the precedence graph."""

    earlier: Transaction
    later: Transaction
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """The proof that no serial order explains a history: each transaction precedes the next, and the last the first."""

    precedences: tuple[Precedence, ...]

    def __str__(self) -> str:
        before = (self.precedences[-1], *self.precedences)
        return "; ".join(_phrase(last, step) for last, step in pairwise(before) if not step.later.is_event)


_Graph = Mapping[Transaction, Mapping[Transaction, str]]
"""To each transaction those it directly precedes, each with a task at which it does."""
_Places = Mapping[Transaction, int]
"""The reconfigurations of one task in their order."""


def violation(history: History) -> Cycle | None:
    """A short cycle of precedences, or None if the history is conflict-serialisable. Linear in the history."""
    places = {task: _places(task, names) for task, names in history.applied.items()}
    graph = _precedences(history.processed, places)
    unordered = _unordered(graph)
    if not unordered:
        return None
    start = _on_a_cycle(unordered, graph)
    return Cycle(precedences=_readable(_shortest_cycle(start, graph), places))


def _places(task: str, names: Sequence[str]) -> _Places:
    places = {Transaction(name=name, is_event=False): place for place, name in enumerate(names)}
    if len(places) < len(names):
        raise ValueError(f"task {task} got one reconfiguration twice: {', '.join(names)}")
    return places


def _precedences(processed: Iterable[Processed], places: Mapping[str, _Places]) -> _Graph:
    """The graph, without the precedences that follow from those of neighbours at a task."""
    graph: dict[Transaction, dict[Transaction, str]] = {}
    changes = {task: tuple(order) for task, order in places.items()}
    for task, order in changes.items():
        for earlier, later in pairwise(order):
            graph.setdefault(earlier, {}).setdefault(later, task)
    for work in processed:
        event = Transaction(name=work.event, is_event=True)
        order = changes.get(work.task, ())
        following = 0
        if work.configuration is not None:
            last = Transaction(name=work.configuration, is_event=False)
            if last not in places.get(work.task, {}):
                raise ValueError(f"task {work.task} worked as {last} left it, but did not get that")
            graph.setdefault(last, {}).setdefault(event, work.task)
            following = places[work.task][last] + 1
        if following < len(order):
            graph.setdefault(event, {}).setdefault(order[following], work.task)
    return graph


def _unordered(graph: _Graph) -> set[Transaction]:
    """The transactions that are left when those that nothing left precedes are taken away, one after the other."""
    preceding: dict[Transaction, int] = dict.fromkeys(graph, 0)
    for later in (later for following in graph.values() for later in following):
        preceding[later] = preceding.get(later, 0) + 1
    free = deque(transaction for transaction, count in preceding.items() if not count)
    while free:
        first = free.popleft()
        del preceding[first]
        for later in graph.get(first, ()):
            preceding[later] -= 1
            if not preceding[later]:
                free.append(later)
    return set(preceding)


def _on_a_cycle(unordered: set[Transaction], graph: _Graph) -> Transaction:
    """One of the transactions on a cycle: each unordered one is preceded by another, so a walk back returns."""
    preceding = {later: earlier for earlier in graph if earlier in unordered for later in graph[earlier]}
    seen: set[Transaction] = set()
    # Those that nothing precedes are gone, and so are the precedences that they began.
    here = next(iter(preceding))
    while here not in seen:
        seen.add(here)
        here = preceding[here]
    return here


def _shortest_cycle(start: Transaction, graph: _Graph) -> tuple[Precedence, ...]:
    """The fewest precedences that lead from a transaction back to it, found breadth first."""
    ways: dict[Transaction, Precedence] = {}
    frontier = deque([start])
    while start not in ways:
        here = frontier.popleft()
        for later, task in graph.get(here, {}).items():
            if later not in ways:
                ways[later] = Precedence(earlier=here, later=later, task=task)
                frontier.append(later)
    steps = [ways[start]]
    while steps[-1].earlier != start:
        steps.append(ways[steps[-1].earlier])
    return tuple(reversed(steps))


def _readable(steps: Sequence[Precedence], places: Mapping[str, _Places]) -> tuple[Precedence, ...]:
    """The cycle from an event on, with one precedence for a row of them that a single task shows."""
    begin = next((number for number, step in enumerate(steps) if step.earlier.is_event), 0)
    kept: list[Precedence] = []
    for step in (*steps[begin:], *steps[:begin]):
        if kept and _ordered(places[kept[-1].task], step.earlier, step.later):
            kept[-1] = replace(kept[-1], later=step.later)
        elif kept and _ordered(places[step.task], kept[-1].earlier, step.earlier):
            kept[-1] = replace(step, earlier=kept[-1].earlier)
        else:
            kept.append(step)
    return tuple(kept)


def _ordered(places: _Places, earlier: Transaction, later: Transaction) -> bool:
    return earlier in places and later in places and places[earlier] < places[later]


def _phrase(last: Precedence, step: Precedence) -> str:
    if not step.earlier.is_event:
        return f"{step.task} got {step.earlier} before {step.later}"
    place = "again" if last.task == step.task else last.task
    after = "it" if last.earlier == step.later else str(last.earlier)
    return f"{step.earlier} met {step.task} before {step.later} and {place} after {after}"
