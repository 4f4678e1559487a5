"""Plans for exported problems, written straight from groupings."""

from collections.abc import Iterator

from merge.grouping import Grouping, GroupingProblem
from merge.grouping.layout import NodeLayout
from merge.grouping.pddl import name, said


def plan_of(problem: GroupingProblem, grouping: Grouping) -> str:
    """The plan that makes a grouping."""
    return "\n".join(f"({' '.join(step)})" for step in _steps(NodeLayout(problem), grouping))


def _steps(layout: NodeLayout, grouping: Grouping) -> Iterator[tuple[str, ...]]:
    nodes = {task.id: node for node, task in enumerate(layout.tasks)}
    of: dict[int, str] = {}
    for at, group in enumerate(grouping.groups):
        here, image = f"group{at}", name("image", group.image)
        yield "open", here, f"group{at + 1}", image
        of |= {nodes[task]: here for task in group.tasks}
        for node in layout.order:
            if of.get(node) == here:
                yield f"put__{name('task', said(layout.tasks[node].id))}", here, image
        yield "close", here
    for at, flow in enumerate(layout.flows):
        if flow.raw:
            continue
        for group_name in sorted({of[child] for child in flow.children} - {of[flow.parent]}):
            yield f"bridge__flow{at}", group_name
        for child in flow.children:
            way = "within" if of[child] == of[flow.parent] else "over"
            yield f"{way}__flow{at}__{child}", of[child]
