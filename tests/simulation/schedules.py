"""A schedule: one seed's graph, events and reconfigurations, played step by step, and the judgement of it."""

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.serialisability import History, violation
from tests.simulation.schedulers import Reconfiguration, Scheduler
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
