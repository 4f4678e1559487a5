"""Grouping problems drawn in the shape of real ones: dataflows of about a dozen tasks that share what comes first.

Each has a source, a chain of pre-processing, two to four chains of analytics, and a join or an output for each. A
quarter of the tasks needs a special tag, and every image offers some of these.
"""

import random

from merge.grouping import GroupedStream, GroupedTask, GroupingCosts, GroupingProblem, Image

COSTS = GroupingCosts(pace=1.0, batch=0.06, bridge=0.01, hop=0.002, start=1e-4, price=0.01)
"""Batches that cost three times what they do now, and bridges that cost twice: the figures in the docs are of these."""
_SPECIAL_PART = 0.25
_MEAN_WORK = 0.02


def drawn_problem(tasks: int, images: int, seed: int) -> GroupingProblem:
    """So many tasks and images."""
    draw = random.Random(seed)
    tags = [f"t{number}" for number in range(max(3, images // 2))]
    offers = [frozenset(draw.sample(tags, draw.randint(1, min(4, len(tags))))) for _ in range(images)]
    # Every tag is offered somewhere.
    for at, tag in enumerate(tags):
        offers[at % images] |= {tag}
    streams: list[GroupedStream] = []
    made: list[GroupedTask] = []
    while len(made) < tasks:
        _add_dataflow(draw, made, streams, tags, min(tasks - len(made), draw.randint(8, 16)))
    return GroupingProblem(
        tasks=tuple(made),
        streams=tuple(streams),
        images=tuple(
            Image(name=f"image {at}", tags=offer, cores=4.0, start=30.0, price=draw.choice([0.1, 0.2]), there=1)
            for at, offer in enumerate(offers)
        ),
        costs=COSTS,
    )


def lines(count: int, special: int, seed: int) -> GroupingProblem:
    """The paper's experiment: a generator, twelve tasks in so many lines, a terminator; some need one of three tags."""
    draw = random.Random(seed)
    needing = draw.sample(range(1, 13), special)
    made = [
        GroupedTask(id=at, tags=frozenset({f"spt-{3 - needing.index(at) % 3}"} if at in needing else ()), work=0.02)
        for at in range(14)
    ]
    length = 12 // count
    pairs = [(0, 1 + line * length) for line in range(count)] + [((line + 1) * length, 13) for line in range(count)]
    pairs += [(at, at + 1) for at in range(1, 13) if at % length]
    offers = ({"spt-1"}, {"spt-2"}, {"spt-3"}, {"spt-1", "spt-2"})
    return GroupingProblem(
        tasks=tuple(made),
        streams=tuple(GroupedStream(parent=parent, child=child) for parent, child in sorted(pairs)),
        images=tuple(
            Image(name=f"image {at}", tags=frozenset(tags), cores=1.0, there=1) for at, tags in enumerate(offers)
        ),
        costs=COSTS,
    )


def _add_dataflow(
    draw: random.Random, made: list[GroupedTask], streams: list[GroupedStream], tags: list[str], size: int
) -> None:
    """One more dataflow, a third of the time upon what another one has already."""
    begin = len(made)
    own_tags = draw.sample(tags, min(2, len(tags)))
    ends = [draw.randrange(begin)] if begin and draw.random() < 0.3 else []  # noqa: PLR2004 - a third
    for at in range(begin, begin + size):
        special = at > begin and draw.random() < _SPECIAL_PART
        made.append(
            GroupedTask(
                id=at,
                tags=frozenset({draw.choice(own_tags)}) if special else frozenset(),
                work=round(min(0.3, draw.lognormvariate(0.0, 1.0) * _MEAN_WORK * 0.6), 4),
            )
        )
        # The newest goes on from the end of a chain, from within the dataflow, or joins two chains.
        if not ends:
            parents: set[int] = set()
        elif at - begin < size // 3:
            parents = {ends[-1]}
        else:
            parents = {draw.choice(ends)}
            if len(ends) > 1 and draw.random() < 0.15:  # noqa: PLR2004 - a join now and then
                parents.add(draw.choice(ends))
        streams += [GroupedStream(parent=parent, child=at, raw=parent == begin) for parent in sorted(parents)]
        branches = draw.random() < 0.25 and at - begin >= size // 3  # noqa: PLR2004 - a branch now and then
        ends = [end for end in ends if end not in parents or branches] + [at]
