"""Replay: a plan carried out by the texts of its problem alone, step by step; it knows nothing of groups.

It reads as much of PDDL as `merge.grouping.pddl.grouping_export` writes: types, conjunctions, negation and numbers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from merge.grouping.pddl.pddl_texts import Pddl, PddlError

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
    found = ((one or f"{two} {three.replace(',', ' ')}").lower().split() for one, two, three in _STEP.findall(text))
    return tuple(tuple(each) for each in found)


def replayed(pddl: Pddl, plan: str) -> ReplayState:
    """What is true after a plan. Raises `PddlError` if a step cannot be taken, or the goal is not reached."""
    domain, problem = _read(pddl.domain), _read(pddl.problem)
    actions = {each[1]: each for each in domain[2:] if each[0] == ":action"}
    kinds = _kinds([*_section(domain, ":constants"), *_section(problem, ":objects")])
    state = ReplayState()
    for each in _section(problem, ":init"):
        _apply(state, ["assign", each[1], each[2]] if each[0] == "=" else each, {})
    for number, (name, *arguments) in enumerate(steps(plan), start=1):
        shown = f"step {number}, ({' '.join([name, *arguments])})"
        if name not in actions:
            raise PddlError(f"{shown}, is no action of the domain; plan for the texts that were exported")
        parts = dict(zip(actions[name][2::2], actions[name][3::2], strict=True))
        parameters = _kinds(parts[":parameters"])
        if [kinds.get(each) for each in arguments] != list(parameters.values()):
            raise PddlError(f"{shown}, is about other things than the action takes")
        bound = dict(zip(parameters, arguments, strict=True))
        lacking = [each for each in _conjuncts(parts[":precondition"]) if not _holds(state, each, bound)]
        if lacking:
            raise PddlError(f"{shown}, cannot be taken, as this is not so: {_shown(lacking[0], bound)}")
        # What ceases to be so comes first, as PDDL has it.
        for each in sorted(_conjuncts(parts[":effect"]), key=lambda effect: effect[0] != "not"):
            _apply(state, each, bound)
    (goal,) = _section(problem, ":goal")
    missing = [each for each in _conjuncts(goal) if not _holds(state, each, {})]
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
    return next((each[1:] for each in text[1:] if each[0] == name), [])


def _kinds(words: Sequence[str]) -> dict[str, str]:
    """The kind of each name in a typed list."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    each = iter(words)
    for word in each:
        if word == "-":
            kind = next(each)
            found |= dict.fromkeys(waiting, kind)
            waiting = []
        else:
            waiting.append(word)
    return found


def _conjuncts(expression: Expression) -> Iterator[Expression]:
    if expression and expression[0] == "and":
        for each in expression[1:]:
            yield from _conjuncts(each)
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
        return sum(_number(state, each, bound) for each in expression[1:])
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
    return tuple(bound.get(each, each) for each in expression)


def _shown(expression: Expression, bound: dict[str, str]) -> str:
    if isinstance(expression, str):
        return bound.get(expression, expression)
    return f"({' '.join(_shown(each, bound) for each in expression)})"
