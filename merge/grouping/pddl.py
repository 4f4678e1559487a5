"""PDDL: grouping problems as texts that other planners read, and their plans back as groupings.

The scheme is that of the paper: a group is opened, tasks are put into it, and it is closed; then the next one.

- `open` takes the next group, has it use an image, and costs what a group costs.
- `put` puts a task into the open group: its parents are placed, the image offers its tags, the group has room, holds no
  other owner's code, and nothing that is too much for any group. So no groups wait for each other.
- `close` makes room for the next one.
- `within` counts a stream within a group, `bridge` what a group takes from a port of another group's task, and `over` a
  stream that comes over a bridge. Every stream must be counted, unless it is raw.

What is left out: the slowest path, and starts and prices of hosts. Present groups are refused.

`exported` writes a problem. `replayed` carries out any plan of any problem by the two texts alone, step by step; it
knows nothing of groups, and reads as much of PDDL as is written here: types, conjunctions, negation and numbers.
`planned_grouping` reads a plan as a grouping.

PDDL knows no upper case and few signs, so in a name all else is written as its number.

>>> name("out", "Street", "out")
'out___53_treet__out'
>>> parts("out___53_treet__out")
('out', 'Street', 'out')
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from merge.grouping.evaluation import arranged, cost_of, problems_of
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.problem import Group, Grouping, GroupingProblem, TaskId, in_order

_OTHER = re.compile(r"[^a-z0-9-]")
_TOKEN = re.compile(r"(__)|_([0-9a-f]+)_|([a-z0-9-]+)")


class PddlError(ValueError):
    """What PDDL cannot say, or a text that says no planning problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pddl:
    """The two texts of a problem; made by `exported`."""

    domain: str
    problem: str


def action(named: str, conditions: Iterable[str], effects: Iterable[str], parameters: str = "") -> str:
    """An action by its name, what it asks, and what it does."""
    # What always holds need not be said.
    asked = [condition for condition in conditions if condition != "(and)"]
    said = [f"  (:action {named}", f"    :parameters ({parameters})", "    :precondition (and"]
    said += [f"      {condition}" for condition in asked]
    said[-1] += ")"
    said += ["    :effect (and", *(f"      {effect}" for effect in effects)]
    said[-1] += "))"
    return "\n".join(said) + "\n"


def block(opening: str, lines: Iterable[str]) -> str:
    """Lines between parentheses, without those that say nothing."""
    return "\n".join([f"  {opening}", *(f"    {line}" for line in lines if line != "(and)")]) + ")"


def name(kind: str, *texts: str) -> str:
    """The name of something of a kind."""
    return "__".join([kind, *(_OTHER.sub(lambda sign: f"_{ord(sign[0]):x}_", text) for text in texts)])


def parts(written: str) -> tuple[str, ...]:
    """The kind of a name, and the texts that it is made of."""
    texts = [""]
    for separator, number, plain in _TOKEN.findall(written):
        if separator:
            texts.append("")
        else:
            texts[-1] += plain or chr(int(number, 16))
    return tuple(texts)


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
            for task, mask in zip(self._tasks, self._layout.masks, strict=True)
            for image in self._layout.images_in(mask)
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
            asked += [
                f"(not (runs ?g {other}))"
                for other_owner, other in self._owners.items()
                if owner not in {"", other_owner}
            ]
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


Expression: TypeAlias = Any
"""A word, or a list of expressions."""
Fact: TypeAlias = tuple[str, ...]
_WORD = re.compile(r"[()]|[^\s()]+")
_STEP = re.compile(r"\(\s*([^()]+?)\s*\)|^\s*([\w-]+)\(([^()]*)\)\s*$", re.MULTILINE)
"""A step as planners write it, as in `0.0: (open g i) [1.0]`, or as unified-planning shows it, as in `open(g, i)`."""


@dataclass(slots=True)
class ReplayState:
    """What is true after a plan, made by `replayed`."""

    facts: set[Fact] = field(default_factory=set)
    numbers: dict[Fact, float] = field(default_factory=dict)


def steps(plan: str) -> tuple[Fact, ...]:
    """The steps of a plan, each an action and what it is about. Comments begin with a semicolon."""
    text = re.sub(r";.*", "", plan)
    words = ((one or f"{two} {three.replace(',', ' ')}").lower().split() for one, two, three in _STEP.findall(text))
    return tuple(tuple(step) for step in words)


def replayed(pddl: Pddl, plan: str) -> ReplayState:
    """What is true after a plan. Raises `PddlError` if a step cannot be taken, or the goal is not reached."""
    domain, problem = _read(pddl.domain), _read(pddl.problem)
    actions = {section[1]: section for section in domain[2:] if section[0] == ":action"}
    kinds = _kinds([*_section(domain, ":constants"), *_section(problem, ":objects")])
    state = ReplayState()
    for clause in _section(problem, ":init"):
        _apply(state, ["assign", clause[1], clause[2]] if clause[0] == "=" else clause, {})
    for number, (name, *arguments) in enumerate(steps(plan), start=1):
        shown = f"step {number}, ({' '.join([name, *arguments])})"
        if name not in actions:
            raise PddlError(f"{shown}, is no action of the domain; plan for the texts that were exported")
        parts = dict(zip(actions[name][2::2], actions[name][3::2], strict=True))
        parameters = _kinds(parts[":parameters"])
        if [kinds.get(argument) for argument in arguments] != list(parameters.values()):
            raise PddlError(f"{shown}, is about other things than the action takes")
        bound = dict(zip(parameters, arguments, strict=True))
        lacking = [conjunct for conjunct in _conjuncts(parts[":precondition"]) if not _holds(state, conjunct, bound)]
        if lacking:
            raise PddlError(f"{shown}, cannot be taken, as this is not so: {_shown(lacking[0], bound)}")
        # What ceases to be so comes first, as PDDL has it.
        for clause in sorted(_conjuncts(parts[":effect"]), key=lambda effect: effect[0] != "not"):
            _apply(state, clause, bound)
    (goal,) = _section(problem, ":goal")
    missing = [conjunct for conjunct in _conjuncts(goal) if not _holds(state, conjunct, {})]
    if missing:
        raise PddlError(f"the plan ends before this is so: {_shown(missing[0], {})}")
    return state


def _read(text: str) -> Expression:
    stack: list[list[Expression]] = [[]]
    for word in _WORD.findall(re.sub(r";.*", "", text).lower()):
        if word == "(":
            stack.append([])
        elif word == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    return stack[0][0]


def _section(text: Expression, name: str) -> list[Expression]:
    return next((section[1:] for section in text[1:] if section[0] == name), [])


def _kinds(words: Sequence[str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    waiting: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word == "-":
            kind = next(remaining)
            kinds |= dict.fromkeys(waiting, kind)
            waiting = []
        else:
            waiting.append(word)
    return kinds


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if expression and expression[0] == "and":
        for part in expression[1:]:
            yield from _conjuncts(part)
    elif expression:
        yield expression


def _holds(state: ReplayState, expression: Expression, bound: dict[str, str]) -> bool:
    head, *rest = expression
    if head == "not":
        return not _holds(state, rest[0], bound)
    if head == "<=":
        return _number(state, rest[0], bound) <= _number(state, rest[1], bound)
    return _fact(expression, bound) in state.facts


def _number(state: ReplayState, expression: Expression, bound: dict[str, str]) -> float:
    if isinstance(expression, str):
        return float(expression)
    if expression[0] == "+":
        return sum(_number(state, part, bound) for part in expression[1:])
    return state.numbers[_fact(expression, bound)]


def _apply(state: ReplayState, effect: Expression, bound: dict[str, str]) -> None:
    head, *rest = effect
    if head == "not":
        state.facts.discard(_fact(rest[0], bound))
    elif head in {"assign", "increase", "decrease"}:
        about, value = _fact(rest[0], bound), _number(state, rest[1], bound)
        before = 0.0 if head == "assign" else state.numbers[about]
        state.numbers[about] = before - value if head == "decrease" else before + value
    else:
        state.facts.add(_fact(effect, bound))


def _fact(expression: Expression, bound: dict[str, str]) -> Fact:
    return tuple(bound.get(word, word) for word in expression)


def _shown(expression: Expression, bound: dict[str, str]) -> str:
    if isinstance(expression, str):
        return bound.get(expression, expression)
    return f"({' '.join(_shown(part, bound) for part in expression)})"


def planned_grouping(problem: GroupingProblem, weights: PddlWeights, plan: str) -> Grouping:
    """The grouping that a plan makes. Raises `PddlError` if it is no plan for the problem, and says at which step."""
    state = replayed(exported(problem, weights), plan)
    images = {group: parts(image)[1] for predicate, group, image in _about_two(state.facts) if predicate == "uses"}
    ids = {said(task.id): task.id for task in problem.tasks}
    tasks: defaultdict[str, list[TaskId]] = defaultdict(list)
    for predicate, task, group in sorted(_about_two(state.facts)):
        if predicate == "in":
            tasks[group].append(ids[parts(task)[1]])
    groups = arranged(
        problem,
        [Group(image=images[group], tasks=tuple(sorted(members, key=in_order))) for group, members in tasks.items()],
    )
    if wrong := problems_of(problem, groups):
        raise PddlError(f"the plan makes no valid groups: {'; '.join(wrong)}")
    return Grouping(groups=groups, cost=cost_of(problem, groups))


def _about_two(facts: set[tuple[str, ...]]) -> set[tuple[str, str, str]]:
    return {(fact[0], fact[1], fact[2]) for fact in facts if len(fact) == 3}  # noqa: PLR2004 - a predicate and two
