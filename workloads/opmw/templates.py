"""Workflow templates, made by `template_reader` and `repository`, and the findings about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

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
        found: dict[str, list[str]] = {}
        for step in self.steps:
            for variable in step.gives:
                found.setdefault(variable, []).append(step.name)
        return found

    def parents(self) -> dict[str, list[str]]:
        """For each step the steps whose variables it uses, each once."""
        givers = self.givers()
        return {
            step.name: list(dict.fromkeys(giver for variable in step.uses for giver in givers.get(variable, ())))
            for step in self.steps
        }

    def parts(self) -> int:
        """The number of connected parts."""
        part = {step.name: {step.name} for step in self.steps}
        for name, parents in self.parents().items():
            for parent in parents:
                if part[name] is not part[parent]:
                    joined = part[name] | part[parent]
                    part.update(dict.fromkeys(joined, joined))
        return len({id(each) for each in part.values()})


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
