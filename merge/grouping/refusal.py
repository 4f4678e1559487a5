"""Refusals: why there is no answer, and whether that is proved.

A proof is that some images have fewer cores than is needed by the tasks that only they can run: for these, and for the
fewest groups that have them. What else makes groups impossible is for the solver to prove, by trying everything.
"""

from collections.abc import Iterator

from merge.grouping.groups import GroupingNotFound, NoGrouping, Ungroupable
from merge.grouping.layout import NANOCORES, ROOM, NodeLayout
from merge.grouping.partition import Partition


def refusal(partition: Partition) -> NoGrouping:
    """What to raise in place of groups that are beyond the limits of images."""
    layout = partition.layout
    if (proved := proof_of_none(layout)) is not None:
        return proved
    image, load, limit = next(
        (image, load, limit)
        for image, (load, limit) in enumerate(zip(partition.load, layout.limits, strict=True))
        if limit is not None and load > limit
    )
    return GroupingNotFound(_lacking(layout, [image], load, limit))


def proof_of_none(layout: NodeLayout) -> Ungroupable | None:
    """Why no groups of a problem are valid, if some images have too few cores for what only they can run."""
    for mask in _masks(layout):
        images = list(layout.images_in(mask))
        limits = [limit for image in images if (limit := layout.limits[image]) is not None]
        nodes = [node for node in range(layout.nodes) if not layout.may[node] & ~mask]
        tasks = [node for node in nodes if node < layout.count]
        if len(limits) < len(images) or not tasks:
            continue
        needed = _least_cores(layout, nodes)
        # Each work was rounded up, by less than a unit.
        if needed - len(nodes) > sum(limits) + ROOM * len(limits):
            busiest = layout.tasks[max(tasks, key=lambda node: (layout.work[node], -node))]
            why = _lacking(layout, images, needed, sum(limits))
            return Ungroupable(
                busiest.id,
                busiest.tags,
                f"{why}; let the image have more hosts, or another one offer these tags",
            )
    return None


def tried_everything(layout: NodeLayout) -> Ungroupable:
    """What to raise where the solver has proved that no groups are valid."""
    limited = [image for image, limit in enumerate(layout.limits) if limit is not None]
    busiest = layout.tasks[max(range(layout.count), key=lambda node: (layout.work[node], -node))]
    names = ", ".join(repr(layout.images[image].name) for image in limited)
    return Ungroupable(
        busiest.id,
        busiest.tags,
        f"of all ways to divide the tasks, none fits the cores of {names}; let one of these images have more hosts",
    )


def _masks(layout: NodeLayout) -> Iterator[int]:
    """The sets of images that may be too few: those that run some task, and all of these together."""
    masks = dict.fromkeys(layout.may[: layout.count])
    yield from masks
    every = 0
    for mask in masks:
        every |= mask
    yield every


def _least_cores(layout: NodeLayout, nodes: list[int]) -> int:
    """The cores that nodes take at least, in the fewest groups: the present ones that stay have room first."""
    staying = [node for node in nodes if layout.stays(node)]
    # A task that is too much for a group counts as one that fills it.
    most = layout.most_work
    room = sum(max(0, most - layout.work[node]) for node in staying)
    filled = sum(min(layout.work[node], most) for node in nodes if node < layout.count)
    groups = max(0 if staying else 1, -(-(filled - len(nodes) - room) // most))
    works = sum(layout.work[node] for node in nodes if node < layout.count or layout.stays(node))
    return works + layout.batch * (len(staying) + groups)


def _lacking(layout: NodeLayout, images: list[int], needed: int, there: int) -> str:
    names = " and ".join(repr(layout.images[image].name) for image in images)
    said = f"image {names}" if len(images) == 1 else f"images {names}"
    return f"the hosts of {said} have {there / NANOCORES:g} cores and {needed / NANOCORES:g} are needed"
