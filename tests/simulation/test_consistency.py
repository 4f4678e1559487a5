"""Reconfigurations under random schedules, played from a seed: what every scheduler but the naive one promises.

`BRAID_SIMULATION_SEED` plays one seed, as the message of a failure says.
"""

import os
import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest

from manager.kernel.transitions import Phase
from tests.serialisability import History, violation
from tests.simulation.managed import (
    Forgetful,
    Impatient,
    JobsBelowOnly,
    Managed,
    MissingCounts,
    OneToOne,
    Presuming,
    StaleCounts,
    Unaligned,
    Unmarked,
)
from tests.simulation.schedulers import (
    Epoch,
    Fries,
    Naive,
    Planned,
    Reconfiguration,
    Scheduler,
    StopAndRestart,
    Versions,
)
from tests.simulation.world import Graph, World, beside, drawn, expected, forked

MOST_STEPS = 20_000
"""Far more than a schedule takes that ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that a seed led to."""

    world: World
    sources: tuple[str, ...]
    """The source of each event, by its number."""
    reconfigurations: tuple[Reconfiguration, ...]
    ended: bool

    def history(self) -> History:
        """The history, in which reconfigurations also have to take effect in the order in which they were requested."""
        requests = [wanted.name for wanted in self.reconfigurations]
        return History(applied=self.world.applied | {"the manager": requests}, processed=self.world.processed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What schedules are drawn from."""

    draw: Callable[[random.Random], Graph]
    most_events: int
    most_wanted: int
    """Reconfigurations."""
    most_changed: int
    """Tasks of one."""
    speeds: tuple[int, ...]
    """Some jobs are far slower than others, so that events overtake each other on different paths."""
    batches: tuple[int, ...]
    """The batches between two events, about."""
    close: int = 1
    """0 if reconfigurations never come close together, as they do in half of the schedules otherwise."""


ANY = Load(draw=drawn, most_events=40, most_wanted=4, most_changed=4, speeds=(1, 5, 20), batches=(1, 2, 5))
FORKED = replace(ANY, draw=forked)
"""The pieces of an event meet again."""
LAGGING = Load(draw=beside, most_events=40, most_wanted=6, most_changed=1, speeds=(1, 40), batches=(10, 20), close=0)
"""Jobs fall behind others that read the same, and reconfigurations come one by one."""


def played(seed: int, make: Callable[[World], Scheduler], load: Load = ANY) -> Schedule:
    """The schedule of a seed, up to the last step."""
    numbers = random.Random(seed)
    graph = load.draw(numbers)
    world = World(graph, numbers)
    scheduler = make(world)
    sources = tuple(numbers.choice(graph.sources) for _ in range(numbers.randint(5, load.most_events)))
    many = numbers.randint(3, load.most_wanted + 1)
    wanted = tuple(_reconfiguration(f"r{number}", graph, numbers, load.most_changed) for number in range(1, many))
    coming = _shuffled(sources, wanted, numbers, load.close)
    speeds = [numbers.choice(load.speeds) for _ in world.jobs]
    batches = numbers.choice(load.batches)
    for _ in range(MOST_STEPS):
        if coming and not numbers.randint(0, batches):
            first = coming.popleft()
            if isinstance(first, Reconfiguration):
                scheduler.request(first)
            else:
                world.arrive(first, scheduler.version())
        elif not coming and world.idle() and scheduler.ended():
            break
        else:
            job = numbers.choices(world.jobs, speeds)[0]
            scheduler.between(job)
            world.batch(job, {spool: scheduler.end(job, spool) for spool in world.inputs[job]}, scheduler.configuration)
    return Schedule(world=world, sources=sources, reconfigurations=wanted, ended=world.idle() and scheduler.ended())


def _reconfiguration(name: str, graph: Graph, numbers: random.Random, most: int) -> Reconfiguration:
    tasks = numbers.choice([*graph.parts, tuple(graph.kinds)])
    changed = numbers.sample(tasks, min(len(tasks), most, numbers.choices([1, 2, 3, 4], [4, 3, 2, 1])[0]))
    return Reconfiguration(name=name, changed=frozenset(changed))


def _shuffled(
    sources: tuple[str, ...], wanted: tuple[Reconfiguration, ...], numbers: random.Random, most_close: int
) -> deque[str | Reconfiguration]:
    """Events and reconfigurations in the order in which they come; half of the time these come close together."""
    close = numbers.randint(0, len(sources))
    places = (
        range(close, min(close + 3, len(sources)) + 1) if numbers.randint(0, most_close) else range(len(sources) + 1)
    )
    begins = sorted(numbers.choices(places, k=len(wanted)))
    coming: deque[str | Reconfiguration] = deque()
    for place in range(len(sources) + 1):
        coming += [each for begin, each in zip(begins, wanted, strict=True) if begin == place]
        coming += sources[place : place + 1]
    return coming


def trouble(schedule: Schedule) -> str | None:
    """The first thing that is wrong with a schedule: not finished, lost or doubled, not consistent."""
    if not schedule.ended:
        return f"events or reconfigurations are still under way after {MOST_STEPS:,} steps"
    found = _unchanged(schedule) or _miscounted(schedule) or violation(schedule.history())
    return str(found) if found else None


def _unchanged(schedule: Schedule) -> str | None:
    for task, got in schedule.world.applied.items():
        owed = [wanted.name for wanted in schedule.reconfigurations if task in wanted.changed]
        if sorted(got) != owed:
            return f"{task} got the reconfigurations {got}, not {owed}"
    return None


def _miscounted(schedule: Schedule) -> str | None:
    graph = schedule.world.graph
    worked = Counter((work.event, work.task) for work in schedule.world.processed)
    for event, source in enumerate(schedule.sources):
        owed = expected(graph, source, event)
        for task in graph.kinds:
            if worked[event, task] != owed[task]:
                return f"event {event} came to {task} {worked[event, task]} times, not {owed[task]}"
    return None


CONSISTENT = [Epoch, Fries, StopAndRestart, Versions]
SEEN = pytest.mark.parametrize("load", [ANY, FORKED], ids=["any", "forked"])
"""Any graphs, and those in which the pieces of an event meet again."""
SEED = os.environ.get("BRAID_SIMULATION_SEED")
FEW = range(200) if SEED is None else [int(SEED)]
MANY = range(200, 10_000) if SEED is None else [int(SEED)]


def hold(make: type[Scheduler], seeds: Iterable[int], load: Load = ANY) -> None:
    for seed in seeds:
        if found := trouble(played(seed, make, load)):
            repeat = f"BRAID_SIMULATION_SEED={seed} .venv/bin/python -m pytest tests/simulation -k {make.__name__}"
            pytest.fail(f"seed {seed}: {found}\nto repeat it: {repeat}", pytrace=False)


@SEEN
@pytest.mark.parametrize("make", CONSISTENT)
def test_reconfigurations_are_consistent(make: type[Scheduler], load: Load) -> None:
    """They all end, lose and double nothing, and have a serial order, that of their requests."""
    hold(make, FEW, load)


@pytest.mark.slow
@SEEN
@pytest.mark.parametrize("make", CONSISTENT)
def test_reconfigurations_are_consistent_for_long(make: type[Scheduler], load: Load) -> None:
    """The same holds in ten thousand schedules."""
    hold(make, MANY, load)


def test_a_task_that_is_wrongly_called_unique_is_noticed() -> None:
    """What is below it then meets the pieces of one event before and after its switch."""
    with pytest.raises(pytest.fail.Exception, match=r"seed \d+: event \d+ met (\S+) before r\d and again after it"):
        hold(Presuming, range(50), FORKED)


LOADS = pytest.mark.parametrize("load", [ANY, LAGGING], ids=["any", "lagging"])


@LOADS
def test_reconfigurations_are_consistent_by_what_is_reported(load: Load) -> None:
    """The same, where a manager that dies concludes from late, lost and old reports that older events are gone."""
    hold(Managed, FEW, load)


@pytest.mark.slow
@LOADS
def test_reconfigurations_are_consistent_for_long_by_what_is_reported(load: Load) -> None:
    """The same holds in ten thousand schedules."""
    hold(Managed, MANY, load)


@pytest.mark.parametrize("make", [JobsBelowOnly, MissingCounts, StaleCounts])
def test_a_conclusion_from_lags_is_noticed(make: type[Scheduler]) -> None:
    """Whichever jobs or figures are passed over, an event of one of the first schedules meets two out of order."""
    with pytest.raises(pytest.fail.Exception, match=r"seed \d+: event \d+ met \S+ before r\d and \S+ after r\d"):
        hold(make, range(50), LAGGING)


@pytest.mark.parametrize(
    ("make", "schedules"), [(Naive, 50), (OneToOne, 50), (Unaligned, 50), (Unmarked, 50), (Forgetful, 200)]
)
def test_a_broken_scheduler_is_noticed(make: type[Scheduler], schedules: int) -> None:
    """Whichever rule is left out, one of the first schedules is inconsistent, and the message says how to repeat it."""
    with pytest.raises(
        pytest.fail.Exception, match=r"seed \d+: (.*) met \S+ before r\d(.|\n)*BRAID_SIMULATION_SEED=\d+"
    ):
        hold(make, range(schedules))


@pytest.mark.slow
def test_impatience_is_noticed() -> None:
    """Without waiting, a reconfiguration may overtake an earlier one in rare schedules."""
    with pytest.raises(pytest.fail.Exception, match=r"got r\d before r\d"):
        hold(Impatient, range(10_000))


def test_schedules_are_hard() -> None:
    """In many batches, reconfigurations are under way together, wait, span jobs, mark sources, and hold a stream."""
    seen: Counter[str] = Counter()

    class Observed(Fries):
        def between(self, job: str) -> None:
            super().between(job)
            left = [planned for planned in self.planned if planned.ended_before is None]
            spools = {spool: len(self.world.spools[spool]) for spool in self.world.inputs[job]}
            sources = set(self.world.graph.sources)
            seen.update(
                together=sum(planned.started for planned in left) > 1,
                waiting=any(not planned.started for planned in left),
                spanning=any(len(alignment.awaited) > 1 for alignment in self.under_way),
                marking=any(sources & alignment.marked() for alignment in self.under_way),
                holding=any(self.end(job, spool) < length for spool, length in spools.items()),
            )

    hold(Observed, range(200))
    assert [] == [thing for thing, count in seen.items() if count < 500]


def test_reports_are_hard() -> None:
    """Managers die while older events are under way, jobs beside lag, hosts are away, and bridges deliver late."""
    seen: Counter[str] = Counter()

    class Observed(Managed):
        def look(self) -> None:
            super().look()
            proving = [each for each in self.planned if self.phases.get(each.wanted.name) is Phase.PROVING]
            late = [each for each in proving if each.ended_before and self.world.oldest() < each.ended_before]
            seen.update(
                older=bool(late),
                unheard=bool(late) and len(self.knows.jobs) < len(self.world.jobs),
                away=bool(late) and bool(self.away),
                emitting=bool(late)
                and any(self.delivered[task] < len(self.world.spools[task]) for task in self.delivered),
                together=len(proving) > 1,
            )

    hold(Observed, range(50), LAGGING)
    assert [] == [thing for thing in ("older", "unheard", "away", "emitting", "together") if seen[thing] < 100]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda schedule: schedule.world.processed.pop(), r"event \d+ came to \S+ \d times, not \d"),
        (
            lambda schedule: schedule.world.processed.append(schedule.world.processed[0]),
            r"event \d+ came to \S+ \d times, not \d",
        ),
        (lambda schedule: schedule.world.applied["task1"].append("r9"), "task1 got the reconfigurations"),
    ],
    ids=["lost", "doubled", "applied"],
)
def test_damage_is_noticed(damage: Callable[[Schedule], object], expected: str) -> None:
    """Work that is missing or done twice, and a reconfiguration that nobody requested there, are troubles."""
    schedule = played(0, Epoch)
    assert trouble(schedule) is None
    damage(schedule)
    assert re.search(expected, trouble(schedule) or "")


def test_endlessness_is_noticed() -> None:
    """A scheduler that never ends a reconfiguration is in trouble."""

    class Endless(Fries):
        def blocked(self, _planned: Planned, _busy: set[str]) -> bool:
            return True

    assert re.search("still under way", trouble(played(0, Endless)) or "")
