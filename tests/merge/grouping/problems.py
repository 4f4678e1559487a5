"""Grouping problems by hand and by hypothesis, and all groupings of one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from hypothesis import strategies as st

from merge.grouping import (
    Group,
    GroupedStream,
    GroupedTask,
    GroupingCosts,
    GroupingProblem,
    Image,
    PresentGroup,
    TaskId,
    cost_of,
    problems_of,
)
from merge.grouping.evaluation import arranged
from merge.grouping.problem import in_order

TAGS = ("arm", "gpu", "sql")
COSTS = GroupingCosts(pace=1.0, batch=0.1, bridge=0.01)
ALL = Image(name="all", tags=frozenset({"gpu", "sql"}), cores=1.0)
PLAIN = Image(name="plain", tags=frozenset(), cores=1.0)


def problem_of(  # noqa: PLR0913 - by keyword, what an example is about
    works: Sequence[float],
    pairs: Iterable[tuple[int | str, int | str]] = (),
    *,
    images: tuple[Image, ...] = (ALL,),
    present: tuple[PresentGroup, ...] = (),
    tags: Mapping[int, str] | None = None,
    owners: Mapping[int, str] | None = None,
    costs: GroupingCosts = COSTS,
) -> GroupingProblem:
    """Tasks 0, 1, ... with these works, and a stream for each pair."""
    tasks = (
        GroupedTask(
            id=at, work=work, tags=frozenset((tags or {}).get(at, "").split()), owner=(owners or {}).get(at, "")
        )
        for at, work in enumerate(works)
    )
    streams = (GroupedStream(parent=parent, child=child) for parent, child in pairs)
    return GroupingProblem(tasks=tuple(tasks), streams=tuple(streams), images=images, present=present, costs=costs)


@st.composite
def grouping_problems(
    draw: st.DrawFn, *, most_tasks: int = 8, most_images: int = 3, present: bool = True
) -> GroupingProblem:
    """Problems that have an answer: some image offers everything, and has any number of hosts."""
    count = draw(st.integers(1, most_tasks))
    images = [Image(name="all", tags=frozenset(TAGS), cores=1.0, price=draw(st.sampled_from([0.0, 1.0])))]
    images += [_image(draw, at) for at in range(draw(st.integers(0, most_images - 1)))]
    tasks = tuple(
        GroupedTask(
            id=at,
            tags=draw(st.frozensets(st.sampled_from(TAGS), max_size=1)),
            work=draw(st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.6])),
            owner=draw(st.sampled_from(["", "", "ann", "bob"])),
        )
        for at in range(count)
    )
    streams = [
        GroupedStream(
            parent=parent, child=child, port=draw(st.sampled_from(["out", "odd"])), raw=draw(st.integers(0, 9)) == 0
        )
        for child in range(1, count)
        for parent in sorted(draw(st.sets(st.integers(0, child - 1), max_size=2)))
    ]
    there = _present(draw, images) if present else ()
    if there and bool(draw(st.booleans())):
        streams.append(GroupedStream(parent="stays", child=draw(st.integers(0, count - 1))))
    return GroupingProblem(
        tasks=tasks,
        streams=tuple(streams),
        images=tuple(images),
        present=there,
        costs=GroupingCosts(
            pace=1.0,
            batch=0.06,
            bridge=draw(st.sampled_from([0.01, 0.07])),
            hop=draw(st.sampled_from([0.0, 0.005])),
            second=draw(st.sampled_from([0.0, 0.0, 0.5])),
            start=0.001,
            price=0.01,
        ),
    )


def _image(draw: st.DrawFn, at: int) -> Image:
    return Image(
        name=f"image {at}",
        tags=draw(st.frozensets(st.sampled_from(TAGS))),
        cores=draw(st.sampled_from([0.5, 2.0])),
        start=draw(st.sampled_from([0.0, 30.0])),
        price=draw(st.sampled_from([0.0, 2.0])),
        most=draw(st.sampled_from([None, 1, 2])),
        there=draw(st.integers(0, 1)),
    )


def _present(draw: st.DrawFn, images: Sequence[Image]) -> tuple[PresentGroup, ...]:
    if not draw(st.booleans()):
        return ()
    return (
        PresentGroup(
            id="job",
            image=draw(st.sampled_from(images)).name,
            tasks=frozenset({"stays"}),
            work=0.1,
            owner=draw(st.sampled_from(["", "ann"])),
            takes_more=draw(st.booleans()),
        ),
    )


def groupings(problem: GroupingProblem) -> Iterator[tuple[Group, ...]]:
    """All that are valid, by trying every partition with every image."""
    needs = {task.id: task.tags for task in problem.tasks}
    offered = {image.name: image.tags for image in problem.images}
    places: list[tuple[str, TaskId | None]] = [(image.name, None) for image in problem.images]
    places += [(group.image, group.id) for group in problem.present]
    for blocks in _partitions([task.id for task in problem.tasks]):
        choices = [
            [place for place in places if frozenset[str]().union(*(needs[task] for task in block)) <= offered[place[0]]]
            for block in blocks
        ]
        for chosen in product(*choices):
            groups = [
                Group(image=image, tasks=tuple(sorted(block, key=in_order)), present=present)
                for block, (image, present) in zip(blocks, chosen, strict=True)
            ]
            found = arranged(problem, groups)
            if not problems_of(problem, found):
                yield found


def cheapest(problem: GroupingProblem) -> float:
    """What the cheapest grouping costs."""
    return min(cost_of(problem, groups).total for groups in groupings(problem))


def _partitions(tasks: list[TaskId]) -> Iterator[list[list[TaskId]]]:
    if not tasks:
        yield []
        return
    first, *others = tasks
    for blocks in _partitions(others):
        yield [[first], *blocks]
        for at, block in enumerate(blocks):
            yield [*blocks[:at], [first, *block], *blocks[at + 1 :]]
