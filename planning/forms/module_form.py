"""The form of a module: the JSON in which it is published."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dags.document import MOST_TAGS, HostTag
from planning.shape import ModuleShape

MODULE_NAME = r"^[A-Za-z][A-Za-z0-9_.-]*$"
VARIABLE_NAME = r"^[A-Za-z][A-Za-z0-9_-]*$"
MOST_SOURCE = 64 * 1024
"""Bytes of a module's source, in UTF-8."""
MOST_VERSION = 2**31 - 1
"""Up to what every database can count."""
MOST_WORTH = 1_000_000_000
"""Up to what the planner can add up the costs and qualities of a pipeline."""
MOST_VALUES = 1_000
"""Of one variable."""
MOST_REQUIREMENTS = MOST_TARGETS = 16
"""Of one source."""

ModuleName = Annotated[str, StringConstraints(max_length=100, pattern=MODULE_NAME)]
VariableName = Annotated[str, StringConstraints(max_length=100, pattern=VARIABLE_NAME)]
TargetText = Annotated[str, StringConstraints(min_length=1, max_length=300)]
RequirementText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
KindName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Domains = dict[VariableName, Annotated[list[str | bool | int], Field(min_length=1, max_length=MOST_VALUES)]]
"""The values that each variable may have. All may also be null: nothing has set them."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class InstalledForm(_Form):
    """An implementation that is a task type of the catalogue, with part of a config or all of it."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    config: dict[str, Any] = Field(default_factory=dict)


class OutputForm(_Form):
    """What leaves code: some fields of what entered, and those it sets."""

    fields: dict[FieldName, KindName] = Field(default_factory=dict)
    """The fields that it sets, and their kinds, which may be type variables."""
    drop: list[FieldName] = Field(default_factory=list)
    """The fields that it takes out."""
    rest: bool = True
    """Whether all other fields that enter leave too."""


class CodeForm(_Form):
    """An implementation that is Python source with one entry function."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=MOST_SOURCE)]
    entry: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)] = "process"
    per: Literal["event", "batch"] = "event"
    requirements: Annotated[list[RequirementText], Field(max_length=MOST_REQUIREMENTS)] = Field(default_factory=list)
    """Packages that it imports besides those that are installed, each pinned to a version, such as `tiny==1.0`."""
    connects: Annotated[list[TargetText], Field(max_length=MOST_TARGETS)] = Field(default_factory=list)
    """Hosts that it connects to, each with a port, such as `example.org:443`."""
    types: dict[VariableName, Annotated[list[KindName], Field(min_length=1)]] = Field(default_factory=dict)
    """Type variables, and the kinds or type variables that each may be."""
    input: dict[FieldName, KindName] = Field(default_factory=dict)
    """The fields that it needs."""
    output: OutputForm = Field(default_factory=OutputForm)


class ModuleForm(_Form):
    """A version of a module: an implementation for the points of pipelines, and what is known of it."""

    name: ModuleName
    version: Annotated[int, Field(ge=1, le=MOST_VERSION)]
    summary: Annotated[str, StringConstraints(max_length=1_000)] = ""
    shape: Annotated[ModuleShape, Field(strict=False)]
    installed: InstalledForm | None = None
    code: CodeForm | None = None
    """One of these two."""
    variables: Domains = Field(default_factory=dict)
    """The variables that it speaks of."""
    require: dict[str, Any] = Field(default_factory=dict)
    """What must hold of the events that enter."""
    ensure: dict[str, Any] = Field(default_factory=dict)
    """What holds of those that leave. Variables that it does not name keep their values."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Milliseconds of CPU per event, if known."""
    quality: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """A figure of its author's; more is better."""
    tags: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(default_factory=list)
    """Tags by which points may name it."""
    host_tags: Annotated[list[HostTag], Field(max_length=MOST_TAGS)] = Field(default_factory=list)
    """Tags that a host must offer to run it."""
