"""Export: a grouping problem as PDDL, in the form that the package describes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.pddl.pddl_texts import Pddl, PddlError, action, block, name

_PREDICATES = """\
  (:predicates
    (offers ?i - image ?t - task)
    (follows ?h ?g - group)
    (next ?g - group)
    (idle)
    (open ?g - group)
    (uses ?g - group ?i - image)
    (in ?t - task ?g - group)
    (placed ?t - task)
    (occupied ?g - group)
    (full ?g - group)
    (runs ?g - group ?o - owner)
    (bridged ?f - flow ?g - group)
    (counted ?s - stream))
  (:functions (total-cost) - number (load ?g - group) - number (left ?i - image) - number)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PddlWeights:
    """What a plan costs."""

    group: int
    within: int
    """For each stream within a group."""
    between: int
    """For each bridge."""


PAPER_WEIGHTS: Mapping[str, PddlWeights] = {
    "node": PddlWeights(group=1000, within=5, between=5),
    "connection": PddlWeights(group=50, within=5, between=20),
}
"""Those of the paper: a group costs very much for one strategy, and a medium price for the other."""


def model_weights(problem: GroupingProblem) -> PddlWeights:
    """Those of the model, in billionths of a core."""
    costs = problem.costs
    return PddlWeights(group=round(costs.cores(0.0) * NANOCORES), within=0, between=round(costs.bridge * NANOCORES))


def exported(problem: GroupingProblem, weights: PddlWeights, most_groups: int | None = None) -> Pddl:
    """A problem as PDDL, with at most so many groups. Raises `PddlError` if something runs already."""
    if problem.present:
        shown = ", ".join(str(group.id) for group in problem.present)
        raise PddlError(f"PDDL says no groups that are there already; leave them out: {shown}")
    export = _Export(NodeLayout(problem), weights, most_groups or len(problem.tasks))
    return Pddl(domain=export.domain(), problem=export.problem())


class _Export:
    def __init__(self, layout: NodeLayout, weights: PddlWeights, groups: int) -> None:
        self._layout, self._weights = layout, weights
        self._tasks = [name("task", said(task.id)) for task in layout.tasks]
        self._images = [name("image", image.name) for image in layout.images]
        self._groups = [f"group{at}" for at in range(groups + 1)]
        """The last one is never opened."""
        self._owners = {owner: name("owner", owner) for owner in sorted(set(layout.owner) - {""})}
        self._flows = [(at, flow) for at, flow in enumerate(layout.flows) if not flow.raw]

    def domain(self) -> str:
        constants = {
            "task": self._tasks,
            "image": self._images,
            "owner": list(self._owners.values()),
            "flow": [f"flow{at}" for at, _ in self._flows],
            "stream": [f"flow{at}__{child}" for at, flow in self._flows for child in flow.children],
        }
        lines = [f"{' '.join(names)} - {kind}" for kind, names in constants.items() if names]
        actions = "".join((*self._opening(), *self._putting(), *self._counting()))
        return (
            "(define (domain groups)\n"
            "  (:requirements :typing :negative-preconditions :numeric-fluents)\n"
            "  (:types task image group owner flow stream)\n"
            f"{block('(:constants', lines)}\n{_PREDICATES}{actions})\n"
        )

    def problem(self) -> str:
        facts = [f"(follows {one} {other})" for one, other in zip(self._groups[1:], self._groups, strict=False)]
        facts += ["(= (total-cost) 0)", "(idle)", f"(next {self._groups[0]})"]
        facts += [f"(= (load {group}) 0)" for group in self._groups]
        facts += [
            f"(offers {self._images[image]} {task})"
            for task, may in zip(self._tasks, self._layout.may, strict=True)
            for image in self._layout.images_in(may)
        ]
        # What has no limit has more than all could take.
        plenty = sum(self._layout.work) + self._layout.batch * len(self._groups)
        facts += [
            f"(= (left {image}) {plenty if limit is None else limit})"
            for image, limit in zip(self._images, self._layout.limits, strict=True)
        ]
        goals = ["(idle)", *(f"(placed {task})" for task in self._tasks)]
        goals += [f"(counted flow{at}__{child})" for at, flow in self._flows for child in flow.children]
        return (
            "(define (problem groups)\n  (:domain groups)\n"
            f"{block('(:objects', [' '.join(self._groups) + ' - group'])}\n"
            f"{block('(:init', facts)}\n{block('(:goal (and', goals)})\n"
            "  (:metric minimize (total-cost)))\n"
        )

    def _opening(self) -> Iterator[str]:
        batch = self._layout.batch
        yield action(
            "open",
            ["(idle)", "(next ?g)", "(follows ?h ?g)", f"(<= {batch} (left ?i))"],
            [
                "(not (idle))",
                "(not (next ?g))",
                "(next ?h)",
                "(open ?g)",
                "(uses ?g ?i)",
                f"(decrease (left ?i) {batch})",
                f"(increase (total-cost) {self._weights.group})",
            ],
            "?g ?h - group ?i - image",
        )
        yield action("close", ["(open ?g)", "(occupied ?g)"], ["(not (open ?g))", "(idle)"], "?g - group")

    def _putting(self) -> Iterator[str]:
        layout = self._layout
        for node, task in enumerate(self._tasks):
            work, owner = layout.work[node], layout.owner[node]
            asked = ["(open ?g)", "(uses ?g ?i)", f"(offers ?i {task})", f"(not (placed {task}))", "(not (full ?g))"]
            asked += [f"(placed {self._tasks[parent]})" for parent in sorted(layout.parents[node])]
            asked += [f"(not (runs ?g {other}))" for each, other in self._owners.items() if owner not in {"", each}]
            done = [f"(in {task} ?g)", f"(placed {task})", "(occupied ?g)"]
            done += [f"(runs ?g {self._owners[owner]})"] if owner else []
            if work > layout.capacity:
                asked.append("(not (occupied ?g))")
                done.append("(full ?g)")
            else:
                asked.append(f"(<= (+ (load ?g) {work}) {layout.capacity})")
                done.append(f"(increase (load ?g) {work})")
            asked.append(f"(<= {work} (left ?i))")
            done.append(f"(decrease (left ?i) {work})")
            yield action(f"put__{task}", asked, done, "?g - group ?i - image")

    def _counting(self) -> Iterator[str]:
        weights = self._weights
        for at, flow in self._flows:
            flow_name, parent = f"flow{at}", self._tasks[flow.parent]
            yield action(
                f"bridge__{flow_name}",
                [f"(placed {parent})", f"(not (in {parent} ?g))", f"(not (bridged {flow_name} ?g))"],
                [f"(bridged {flow_name} ?g)", f"(increase (total-cost) {weights.between})"],
                "?g - group",
            )
            for child in flow.children:
                stream, task = f"{flow_name}__{child}", self._tasks[child]
                both = [f"(in {parent} ?g)", f"(in {task} ?g)", f"(not (counted {stream}))"]
                paid = [f"(counted {stream})", f"(increase (total-cost) {weights.within})"]
                yield action(f"within__{stream}", both, paid, "?g - group")
                over = [f"(in {task} ?g)", f"(bridged {flow_name} ?g)", f"(not (counted {stream}))"]
                yield action(f"over__{stream}", over, [f"(counted {stream})"], "?g - group")


def said(id_: int | str) -> str:
    """An id as text; a sign before a number keeps it apart from a text."""
    return f"#{id_}" if isinstance(id_, int) else id_
