"""PDDL, as far as it does not matter what is planned: names, the two texts of a problem, and how actions are written.

PDDL knows no upper case and few signs, so in a name all else is written as its number.

>>> name("out", "Street", "out")
'out___53_treet__out'
>>> parts("out___53_treet__out")
('out', 'Street', 'out')
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

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
