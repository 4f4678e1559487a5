"""Workflow templates, the findings about them, and the built-in repository of 70 templates.

The repository has the statistics of a published one of as many, but contains nothing of the published templates.
`repository.txt` is the result of a search: shapes and labels were changed at random, parts of one template were copied
into others, and changes towards the targets were kept until all were met. Each line is a template and each word a step,
`component<inputs`. An input is the place of an earlier step in the line, or `type.name` for a variable from outside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TypeAlias

import networkx as nx

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Data that a template's steps exchange, read from outside, or output."""

    name: str
    """Unique within the template."""
    data_type: str | None
    """None if the template has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateStep:
    """One step of a template."""

    name: str
    """Unique within the template."""
    component: str
    """The program that it runs."""
    uses: tuple[str, ...] = ()
    """The variables that it reads."""
    gives: tuple[str, ...] = ()
    """The variables that it generates."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """The parameters that the template binds to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A workflow template: steps, and the variables that join them."""

    name: str
    steps: tuple[TemplateStep, ...]
    variables: tuple[Variable, ...]

    def givers(self) -> dict[str, list[str]]:
        """For each generated variable the steps that generate it.

        >>> sort = TemplateStep(name="a", component="Sort", gives=("x",))
        >>> plot = TemplateStep(name="b", component="Plot", uses=("x",))
        >>> template = Template(name="t", steps=(sort, plot), variables=(Variable(name="x", data_type="Table"),))
        >>> template.givers(), template.parents()
        ({'x': ['a']}, {'a': [], 'b': ['a']})
        """
        givers: dict[str, list[str]] = {}
        for step in self.steps:
            for variable in step.gives:
                givers.setdefault(variable, []).append(step.name)
        return givers

    def parents(self) -> dict[str, list[str]]:
        """For each step the steps whose variables it uses, each once."""
        givers = self.givers()
        return {
            step.name: list(dict.fromkeys(giver for variable in step.uses for giver in givers.get(variable, ())))
            for step in self.steps
        }

    def parts(self) -> int:
        """The number of connected parts."""
        return nx.number_connected_components(nx.from_dict_of_lists({**self.parents()}))


class FindingOutcome(StrEnum):
    """The consequence of a finding for the template or the file."""

    SKIPPED = "skipped"
    REPAIRED = "repaired"
    NOTED = "noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFinding:
    """Something wrong or notable in a file, shown to the user of the import."""

    file: str
    template: str | None
    """None for the whole file."""
    outcome: FindingOutcome
    reason: str
    cause: str = ""
    """A sentence for all findings of this kind; empty if there is only one."""
    name: str = ""
    """The step, variable or link; empty for the whole template."""

    def __str__(self) -> str:
        place = self.file if self.template is None else f"{self.file}, {self.template}"
        return f"{place}: {self.outcome}: {self.reason}"


@dataclass(slots=True)
class FindingsLog:
    """The findings of one file, and the template of the next ones."""

    file: str
    template: str | None = None
    findings: list[ImportFinding] = field(default_factory=list)

    def add(self, outcome: FindingOutcome, reason: str, *, cause: str = "", name: str = "") -> None:
        """Add a finding; see `ImportFinding` for the cause and the name."""
        self.findings.append(
            ImportFinding(
                file=self.file, template=self.template, outcome=outcome, reason=reason, cause=cause, name=name
            )
        )


_TEXT = Path(__file__).with_name("repository.txt")
_DOES = (
    "Clean", "Sort", "Merge", "Sample", "Filter", "Align", "Cluster", "Classify", "Score", "Map", "Extract", "Plot",
)  # fmt: skip
_WHAT = ("Text", "Table", "Sequence", "Image", "Graph", "Signal", "Matrix", "Model", "Feature")
_WHICH = ("Raw", "Daily", "Hourly", "Tagged", "Weighted", "Binary", "Sparse", "Normal", "Sorted", "Joint", "Local")
_ROLES = ("input", "reference", "training", "test", "left", "right", "first", "second")
COMPONENTS = tuple(f"{does}{what}" for what, does in product(_WHAT, _DOES))
DATA_TYPES = tuple(f"{which}{what}" for what, which in product(_WHAT, _WHICH))
VARIABLES = tuple(f"{role}{what}" for what, role in product(_WHAT, _ROLES))

TARGETS: Mapping[str, object] = {
    "templates": 70,
    "steps": {"min": 1, "median": 3, "mean": 4.97, "max": 18, "total": 348},
    "links": 303,
    "components": 107,
    "single-step": 11,
    "chains": 36,
    "with equivalent steps": 15,
    "by type": {"steps and sources": {"total": 472, "distinct": 283}, "outputs": {"total": 84, "distinct": 79}},
    "by variable": {"steps and sources": {"total": 528, "distinct": 285}},
    "one source": {"steps": {"total": 297, "distinct": 186}},
}
"""The known statistics of the published repository, met exactly; chains include templates of one step."""
WORK_SAVED: Mapping[str, float] = {"by type": 0.23, "by variable": 0.29, "one source": 0.37}
"""The part of the steps' work that sharing saves there when all run, met within half a percentage point."""


def repository() -> tuple[Template, ...]:
    """The templates, numbered from 1."""
    lines = _TEXT.read_text(encoding="ascii").splitlines()
    return tuple(_template(number, line.split()) for number, line in enumerate(lines, start=1))


def is_chain(template: Template) -> bool:
    """True if each step but the first follows exactly one step, and at most one step follows each.

    >>> is_chain(_template(1, ["0<4.7", "1<0"])), is_chain(_template(2, ["0<4.7", "1<0", "2<0"]))
    (True, False)
    """
    above = [parent for parents in template.parents().values() for parent in parents]
    return len(above) == len(set(above)) == len(template.steps) - 1 and all(
        len(parents) <= 1 for parents in template.parents().values()
    )


def links(template: Template) -> int:
    """The number of linked pairs of steps."""
    return sum(len(parents) for parents in template.parents().values())


def _template(number: int, words: Sequence[str]) -> Template:
    variables: dict[str, Variable] = {}
    steps: list[TemplateStep] = []
    for place, word in enumerate(words):
        component, _, inputs = word.partition("<")
        uses = []
        for text in filter(None, inputs.split(",")):
            of_type, _, name = text.partition(".")
            if name:
                used = Variable(name=VARIABLES[int(name)], data_type=DATA_TYPES[int(of_type)])
            else:
                used = Variable(name=_result(int(text)), data_type=None)
            variables[used.name] = used
            uses.append(used.name)
        variables[_result(place)] = Variable(name=_result(place), data_type=None)
        steps.append(
            TemplateStep(
                name=f"step{place + 1}",
                component=COMPONENTS[int(component)],
                uses=tuple(uses),
                gives=(_result(place),),
            )
        )
    return Template(name=f"opmw-{number:02}", steps=tuple(steps), variables=tuple(variables.values()))


def _result(place: int) -> str:
    return f"result{place + 1}"
