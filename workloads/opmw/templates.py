"""Workflow templates, however they were published; made by `reading` and `repository`, encoded as documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Data that a template's steps exchange, take from outside, or give away."""

    name: str
    """Unique within the template."""
    data_type: str | None
    """None where the template does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateStep:
    """One step of a template."""

    name: str
    """Unique within the template."""
    component: str
    """What it runs."""
    uses: tuple[str, ...] = ()
    """The variables that it takes."""
    gives: tuple[str, ...] = ()
    """The variables that it generates."""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Those that the template binds to a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A workflow template: steps, and the variables that join them."""

    name: str
    steps: tuple[TemplateStep, ...]
    variables: tuple[Variable, ...]

    def givers(self) -> dict[str, list[str]]:
        """For each variable that is generated, the steps that do so.

        >>> sort = TemplateStep(name="a", component="Sort", gives=("x",))
        >>> steps = (sort, TemplateStep(name="b", component="Plot", uses=("x",)))
        >>> template = Template(name="t", steps=steps, variables=(Variable(name="x", data_type="Table"),))
        >>> template.givers(), template.parents()
        ({'x': ['a']}, {'a': [], 'b': ['a']})
        """
        found: dict[str, list[str]] = {}
        for step in self.steps:
            for variable in step.gives:
                found.setdefault(variable, []).append(step.name)
        return found

    def parents(self) -> dict[str, list[str]]:
        """For each step, those whose variables it takes, each once."""
        givers = self.givers()
        return {
            step.name: list(dict.fromkeys(giver for variable in step.uses for giver in givers.get(variable, ())))
            for step in self.steps
        }

    def parts(self) -> int:
        """How many connected parts its steps are in."""
        part = {step.name: {step.name} for step in self.steps}
        for name, parents in self.parents().items():
            for parent in parents:
                if part[name] is not part[parent]:
                    joined = part[name] | part[parent]
                    part.update(dict.fromkeys(joined, joined))
        return len({id(each) for each in part.values()})


class FindingOutcome(StrEnum):
    """What became of a template or a file in which something was found."""

    SKIPPED = "skipped"
    REPAIRED = "repaired"
    NOTED = "noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFinding:
    """Something in a file that is not as it should be; told to whoever imports it."""

    file: str
    template: str | None
    """None where it concerns the whole file."""
    outcome: FindingOutcome
    reason: str
    cause: str = ""
    """What it has in common with others, in a sentence that fits all of them; empty where it is the only one."""
    name: str = ""
    """The step, variable or link that it concerns; empty where it is the whole template."""

    def __str__(self) -> str:
        place = self.file if self.template is None else f"{self.file}, {self.template}"
        return f"{place}: {self.outcome}: {self.reason}"
