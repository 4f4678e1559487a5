"""Laws of reconfigurations: their components on small random DAGs, what meets markers, and their queue.

The model has a queue for each edge and one for the event. It takes one step at a time, and a function picks the step:
at random, or every sequence of picks in turn.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise
from random import Random
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manager.kernel.transitions import Comer, Phase, Reconfiguration, meeting
from manager.reconfigurations.request import ahead, in_the_way, queue_place
from merge import JobId
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


RUNS = 40
"""Random passages through each DAG."""


def paths(case: Reconfigured, start: str, ends: Collection[str]) -> Iterator[tuple[int, ...]]:
    """Every path from a task to one of some others, as the numbers of its edges."""
    for number, (above, below) in enumerate(case.streams):
        if above == start:
            if below in ends:
                yield (number,)
            yield from ((number, *further) for further in paths(case, below, ends))


def along(case: Reconfigured, path: tuple[int, ...]) -> list[str]:
    """The tasks of a path."""
    return [case.streams[path[0]][0], *(case.streams[number][1] for number in path)]


def cover(case: Reconfigured, tasks: Collection[str]) -> frozenset[str]:
    """The tasks on all paths between some, straight from the definition."""
    return frozenset(tasks).union(*(along(case, path) for task in tasks for path in paths(case, task, tasks)))


def scope(parts: Collection[Component]) -> frozenset[str]:
    return frozenset[str]().union(*(part.scope for part in parts))


def by_definition(case: Reconfigured) -> frozenset[str]:
    """The tasks of the sub-DAG as the module's docstring defines it, by all paths."""
    leading = {task: list(paths(case, task, case.changed)) for task in case.tasks}
    copying = {task for task in case.per_edge if len({path[0] for path in leading[task]}) > 1}
    unique = case.unique - copying
    marked = set(case.changed)
    for task in case.one_to_many - (case.per_edge - copying) - unique:
        passed = [set(along(case, path)) for path in leading[task]]
        if passed and not set.intersection(*passed) & unique - case.changed:
            marked.add(task)
    return cover(case, marked)


@given(case=reconfigurations())
def test_the_sub_dag_covers_the_changed_tasks_and_is_minimal(case: Reconfigured) -> None:
    """Definition 5.4: it holds the changed tasks and all on paths between them, and nothing else."""
    assert cover(case, case.changed) == scope(components(case.streams, case.changed))


@settings(max_examples=200)
@given(case=reconfigurations())
def test_the_sub_dag_is_what_enumerating_all_paths_gives(case: Reconfigured) -> None:
    """With one-to-many tasks and both pruning rules."""
    assert by_definition(case) == scope(case.components())


@given(case=reconfigurations())
def test_components_are_the_weakly_connected_parts(case: Reconfigured) -> None:
    """They are disjoint, no stream joins two of them, each is connected and holds a changed task."""
    parts = case.components()
    assert sum(len(part.scope) for part in parts) == len(scope(parts))
    for part in parts:
        assert part.scope & case.changed
        inside, joined = {min(part.scope)}, {min(part.scope)}
        while joined:
            ends = [edge for edge in case.streams if inside & {*edge} and scope(parts).issuperset(edge)]
            joined = {end for edge in ends for end in edge} - inside
            inside |= joined
        assert part.scope == inside


@given(case=reconfigurations())
def test_heads_are_fed_from_outside_alone(case: Reconfigured) -> None:
    """All others of a scope have an input from it."""
    for part in case.components():
        fed = {below for above, below in case.streams if above in part.scope}
        assert part.scope - fed == part.heads
        assert part.heads


@given(case=reconfigurations())
def test_pruning_only_makes_components_smaller(case: Reconfigured) -> None:
    """Each lies within one that there is without pruning."""
    assert all(any(part.scope <= whole.scope for whole in case.unpruned()) for part in case.components())


@given(case=reconfigurations())
def test_the_order_is_that_of_the_names(case: Reconfigured) -> None:
    """It does not depend on the order in which streams and tasks are given."""
    parts = case.components()
    assert sorted(min(part.scope) for part in parts) == [min(part.scope) for part in parts]
    backwards = components(
        reversed(case.streams),
        sorted(case.changed, reverse=True),
        sorted(case.one_to_many),
        sorted(case.per_edge),
        sorted(case.unique),
    )
    assert parts == backwards


@given(case=reconfigurations())
def test_a_transaction_meets_one_component_by_one_tuple(case: Reconfigured) -> None:
    """Lemmas 6.2 and 6.3: it overlaps with at most one, and no head takes two tuples of it."""
    parts = case.components()
    heads = {head for part in parts for head in part.heads}
    for passage in at_random(case, parts, RUNS):
        assert len(passage.met) <= 1
        assert max((passage.taken[head] for head in heads), default=0) <= 1


@settings(max_examples=100)
@given(case=reconfigurations())
def test_no_transaction_meets_old_and_new(case: Reconfigured) -> None:
    """Theorem 6.4, with pruning: whenever the heads switch, and in whatever order tuples and markers arrive."""
    parts = case.components()
    for passage in at_random(case, parts, RUNS):
        assert len(passage.versions) <= 1
        assert scope(parts) == passage.switched


@given(case=reconfigurations(most=4))
def test_no_schedule_of_few_tasks_is_inconsistent(case: Reconfigured) -> None:
    """Every order of steps and every choice of outputs; of the largest cases, the first thousand."""
    assert all(len(passage.versions) <= 1 for passage in islice(in_turn(case, case.components()), 1_000))


@pytest.mark.parametrize(
    ("edges", "changed", "per_edge", "unique"),
    [
        pytest.param("ab bc", "bc", "", "", id="two of a chain"),
        pytest.param("ab ac", "bc", "a", "", id="both of two copies"),
        pytest.param("ab ac bd cd", "d", "a", "", id="two copies in one task"),
        pytest.param("ab ac bd cd", "d", "a", "bc", id="two copies past two unique tasks"),
        pytest.param("ab ac bd ce", "de", "a", "bc", id="two copies past a unique task each"),
    ],
)
def test_the_model_finds_a_mixture_where_tasks_switch_alone(
    edges: str, changed: str, per_edge: str, unique: str
) -> None:
    """Each changed task as a component of its own is what the laws above would not let pass."""
    case = Reconfigured(
        streams=tuple((edge[0], edge[1]) for edge in edges.split()),
        tasks=tuple(sorted({*edges} - {" "})),
        changed=frozenset(changed),
        one_to_many=frozenset(per_edge),
        per_edge=frozenset(per_edge),
        unique=frozenset(unique),
    )
    alone = [Component(scope=frozenset(task), heads=frozenset(task)) for task in changed]
    assert any(len(passage.versions) == 2 for passage in in_turn(case, alone))
    assert all(len(passage.versions) <= 1 for passage in in_turn(case, case.components()))


class _Name(str):
    """A name that counts how often it is looked up or compared."""

    __slots__ = ()
    uses: ClassVar = Counter[str]()

    def __hash__(self) -> int:
        self.uses["hash"] += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self.uses["compare"] += 1
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        self.uses["compare"] += 1
        return super().__lt__(other)


def uses(length: int, kind: str) -> int:
    """The look-ups and comparisons for a chain of tasks with a short cut past each, most of which change or spread."""
    names = [_Name(f"{number:05}") for number in range(length)]
    chain = [*pairwise(names), *zip(names, names[2:], strict=False)]
    changed = names[length // 2 :: 2] if kind == "changed" else names[-1:]
    unique = names[::3] if kind == "unique" else ()
    _Name.uses.clear()
    components(chain, changed, names[1::3], names[1::6], unique)
    return _Name.uses.total()


@pytest.mark.parametrize("kind", ["changed", "one-to-many", "unique"])
def test_twice_the_tasks_take_twice_the_steps(kind: str) -> None:
    """Also with many changed, one-to-many and unique tasks; a quadratic way would take four times as many."""
    assert 1.9 < uses(4_000, kind) / uses(2_000, kind) < 2.1


_JOBS = st.frozensets(st.integers(0, 4).map(JobId), min_size=1, max_size=3)
_NEXT = {
    Phase.WAITING: Phase.PREPARING,
    Phase.PREPARING: Phase.SWITCHING,
    Phase.SWITCHING: Phase.PROVING,
    Phase.PROVING: Phase.DONE,
}


class Queue:
    """Reconfigurations that are asked for and go on, by the rules alone."""

    def __init__(self) -> None:
        self.under_way: dict[int, Reconfiguration] = {}
        self.jobs: list[frozenset[JobId]] = []
        self.begun: list[int] = []
        """The numbers in the order in which they began."""

    def ask(self, jobs: frozenset[JobId]) -> None:
        number = len(self.jobs)
        self.jobs.append(jobs)
        asked = reconfiguration(number, jobs)
        if meeting(Comer.RECONFIGURATION, asked.scope, self.under_way.values()) is None:
            asked = replace(asked, phase=Phase.PREPARING)
            self.begun.append(number)
        self.under_way[number] = asked

    def go_on(self, number: int) -> bool:
        """Take one on by a phase, if it may."""
        current = self.under_way[number]
        if current.phase is Phase.WAITING:
            if in_the_way(current, self.under_way.values()):
                return False
            # What the reconciler clears the committer lets through as well.
            assert meeting(Comer.RECONFIGURATION, current.scope, ahead(current, self.under_way.values())) is None
            self.begun.append(number)
        self.under_way[number] = replace(current, phase=_NEXT[current.phase])
        if self.under_way[number].phase is Phase.DONE:
            del self.under_way[number]
        return True


def reconfiguration(number: int, jobs: frozenset[JobId]) -> Reconfiguration:
    """One that waits."""
    nothing = frozenset[JobId]()
    return Reconfiguration(
        id=number,
        phase=Phase.WAITING,
        since=0.0,
        begun=0.0,
        dataflows=(),
        jobs=jobs,
        awaiting=nothing,
        instances=frozenset(),
        changed=frozenset(),
        watched=frozenset(),
    )


@given(steps=st.lists(st.one_of(_JOBS, st.integers(0, 20)), max_size=40))
def test_those_that_meet_begin_in_the_order_of_the_requests(steps: list[frozenset[JobId] | int]) -> None:
    """Whenever they are asked for and go on; those that do not meet wait for nobody, and in the end all are over."""
    queue = Queue()
    for step in steps:
        if isinstance(step, frozenset):
            queue.ask(step)
        elif queue.under_way:
            queue.go_on(sorted(queue.under_way)[step % len(queue.under_way)])
        for number, waiting_one in queue.under_way.items():
            if waiting_one.phase is Phase.WAITING:
                assert _reached(queue, number) == {other.id for other in queue_place(waiting_one, _every(queue)).behind}
                assert (
                    1 + sum(queue.under_way[other].phase is Phase.WAITING for other in _reached(queue, number))
                    == queue_place(waiting_one, _every(queue)).place
                )
    while queue.under_way:
        assert any(queue.go_on(number) for number in sorted(queue.under_way))
    place = {number: at for at, number in enumerate(queue.begun)}
    assert len(queue.jobs) == len(place)
    for first, second in combinations(range(len(queue.jobs)), 2):
        if queue.jobs[first] & queue.jobs[second]:
            assert place[first] < place[second]


def _every(queue: Queue) -> tuple[Reconfiguration, ...]:
    return tuple(queue.under_way.values())


def _reached(queue: Queue, number: int) -> set[int]:
    """Those before it, not switched yet, that it meets, or that one of these which waits meets; by definition."""
    reached: set[int] = set()
    for other in range(number - 1, -1, -1):
        current = queue.under_way.get(other)
        if current is None or current.phase is Phase.PROVING:
            continue
        waiting = {number} | {
            waiting_one for waiting_one in reached if queue.under_way[waiting_one].phase is Phase.WAITING
        }
        if any(queue.jobs[waiting_one] & queue.jobs[other] for waiting_one in waiting):
            reached.add(other)
    return reached
