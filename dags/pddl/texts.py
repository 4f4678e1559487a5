"""Texts: a problem as PDDL says it, and how its parts are written."""

from collections.abc import Iterable
from dataclasses import dataclass


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
    asked = [each for each in conditions if each != "(and)"]
    said = [f"  (:action {named}", f"    :parameters ({parameters})", "    :precondition (and"]
    said += [f"      {each}" for each in asked]
    said[-1] += ")"
    said += ["    :effect (and", *(f"      {each}" for each in effects)]
    said[-1] += "))"
    return "\n".join(said) + "\n"


def block(opening: str, lines: Iterable[str]) -> str:
    """Lines between parentheses, without those that say nothing."""
    return "\n".join([f"  {opening}", *(f"    {each}" for each in lines if each != "(and)")]) + ")"
