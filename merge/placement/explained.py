"""Where tasks run, explained: why each is there, what that costs, what would cost less; and plans of others.

It asks about the tasks that one dataflow uses alone, as if they were placed anew beside all that stays. So the cheapest
groups say how much the present ones cost too much, and an image without a host what a host of it would save.

Other planners get the question as PDDL, and their plans become groups. PDDL says nothing of groups that run already, so
there the tasks are planned as if nothing else ran, and a plan is compared with the groups in which the tasks are now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from merge.capacity import Costs
from merge.grouping import GROUPING_STRATEGIES, Effort, Grouping, GroupingProblem, NoGrouping, cost_of
from merge.grouping.explanation import OtherPlace, WorthOfMore, other_places, second_best, worth_of_more
from merge.grouping.pddl import Pddl, exported, model_weights, planned_grouping
from merge.grouping.problem import Group as TaskGroup
from merge.grouping.problem import Image
from merge.jobs import Jobs, release
from merge.placement.board import PlacementBoard, anew
from merge.placement.hosts import Host
from merge.placement.planned import groups_on, problem_of
from merge.tasks import Instance, RunningTask, downwards

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementQuestion:
    """Tasks that could be elsewhere, and the groups in which they are; made by `placement_question`."""

    problem: GroupingProblem
    now: tuple[TaskGroup, ...]
    absent: tuple[Image, ...]
    """The registered images that no host is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementVerdict:
    """What the present groups cost, and what others would, in cores; made by `placement_verdict`."""

    cost: float
    cheapest: float
    """What the cheapest groups cost that were found."""
    second: float | None
    """What the cheapest other groups cost that were found."""
    bound: float | None
    """What no groups cost less than, as was proven."""
    saves: Mapping[str, float]
    """What one host would save of each image that has none, if it does."""
    more: tuple[WorthOfMore, ...] = ()
    """What one more host or core would save of those that there are, where one does."""


def placement_question(  # noqa: PLR0913, PLR0917 - what runs, where, at what costs, and whom it is about are six things
    running: Mapping[Instance, RunningTask],
    jobs: Jobs,
    hosts: Iterable[Host],
    costs: Costs,
    own: Iterable[Instance],
    absent: Iterable[Image] = (),
) -> PlacementQuestion:
    """The question about some running tasks, below which nothing runs that is not among them."""
    tasks = downwards(running[instance] for instance in own)
    without = jobs.apply(release(tasks, jobs))
    board = PlacementBoard(running, without, hosts, costs)
    board.opened |= {job: present.host for job, present in jobs.jobs.items() if job not in without.jobs}
    board.placed |= {task.instance: jobs.homes[task.instance].job for task in tasks}
    problem = problem_of(anew(board), tasks, board)
    return PlacementQuestion(problem=problem, now=groups_on(board, tasks, problem), absent=tuple(absent))


def placement_verdict(asked: PlacementQuestion, *, seconds: float) -> PlacementVerdict:
    """What groups cost now, and what would cost less; each search takes so many seconds at most."""
    cost = cost_of(asked.problem, asked.now).total
    if not asked.problem.tasks:
        return PlacementVerdict(cost=cost, cheapest=cost, second=None, bound=cost, saves={})
    best = _best(asked.problem, seconds)
    cheapest = cost if best is None else min(cost, best.cost.total)
    second = None if best is None else second_best(asked.problem, best, seconds)
    saves: dict[str, float] = {}
    for image in asked.absent:
        # It may be called like the tags of others.
        there = replace(image, name=f"a new {image.name}", there=1)
        more = _best(replace(asked.problem, images=(*asked.problem.images, there)), seconds)
        if more is not None and more.cost.total < cheapest - _ROUNDING:
            saves[image.name] = cheapest - more.cost.total
    return PlacementVerdict(
        cost=cost,
        cheapest=cheapest,
        second=None if second is None else second.cost.total,
        bound=None if best is None else best.bound,
        saves=saves,
        more=() if best is None else tuple(_more(asked.problem, best, seconds)),
    )


def placement_places(asked: PlacementQuestion, task: Instance) -> tuple[OtherPlace, ...]:
    """Where else one of the tasks could be, all others being where they are: the cheapest first."""
    now = Grouping(groups=asked.now, cost=cost_of(asked.problem, asked.now))
    # Jobs that are no part of the question are one group, which takes nothing.
    return tuple(place for place in other_places(asked.problem, now, task) if not isinstance(place.present, str))


def placement_reason(running: Mapping[Instance, RunningTask], jobs: Jobs, task: RunningTask) -> str:
    """Why a task may be where it is, in words."""
    here = jobs.homes[task.instance].job
    parents = (running[Instance(edge.parent)] for edge in task.inputs)
    others = sorted({jobs.homes[parent.instance].job for parent in parents if parent.inputs} - {here})
    offers = [f"its host offers {', '.join(sorted(task.tags))}"] if task.tags else []
    if not task.inputs:
        return "; ".join([*offers, "any job can read a source"])
    if others:
        return "; ".join([*offers, f"bridges bring what feeds it, from job {', '.join(map(str, others))}"])
    return "; ".join([*offers, "it is with what feeds it"])


def _more(problem: GroupingProblem, grouping: Grouping, seconds: float) -> Iterator[WorthOfMore]:
    """What more hosts or cores would save, of images that have a limit or cost something; others are plenty."""
    images = {image.name for image in problem.images if image.start or image.price or image.most is not None}
    for worth in worth_of_more(problem, grouping, partial(_planned, seconds=seconds), only=images):
        if max(worth.host, worth.core) > _ROUNDING:
            yield worth


def _planned(problem: GroupingProblem, *, seconds: float) -> Grouping:
    return GROUPING_STRATEGIES["plan"](problem, Effort(seconds=seconds))


def _best(problem: GroupingProblem, seconds: float) -> Grouping | None:
    try:
        return _planned(problem, seconds=seconds)
    except NoGrouping:
        return None


def placement_pddl(asked: PlacementQuestion) -> Pddl:
    """The two texts of the problem. Raises `PddlError` where PDDL cannot say it."""
    problem = _alone(asked.problem)
    # As many groups as there are now, and one more: engines take long where there are many.
    return exported(problem, model_weights(problem), len(asked.now) + 1)


def placement_plan(asked: PlacementQuestion, plan: str) -> Grouping:
    """The groups that a plan makes. Raises `PddlError` if it is no plan for the problem, and says at which step."""
    problem = _alone(asked.problem)
    return planned_grouping(problem, model_weights(problem), plan)


def present_cost(asked: PlacementQuestion) -> float:
    """What the groups in which the tasks are now would cost by the same measure, in cores."""
    return cost_of(_alone(asked.problem), tuple(replace(group, present=None) for group in asked.now)).total


def _alone(problem: GroupingProblem) -> GroupingProblem:
    tasks = {task.id for task in problem.tasks}
    streams = tuple(stream for stream in problem.streams if {stream.parent, stream.child} <= tasks)
    return replace(problem, present=(), streams=streams)
