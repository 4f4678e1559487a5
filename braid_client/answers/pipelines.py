"""Answers about modules, wheels, and the plans of pipelines."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from braid_client.answers.base import Answer, Form, SentDocument
from braid_client.answers.reconfigurations import ReconfigurationAnswer
from dags.vocabulary import Criterion, ModuleShape


class ModuleAnswer(Answer):
    """A published version of a module."""

    name: str
    version: int
    owner: str | None
    """The tenant who published it. None for an operator, whose modules everybody may use."""
    summary: str
    shape: ModuleShape
    """The streams that enter and leave it."""
    type: str
    """The type of its tasks; `code` if it is code, and `connecting_code` if that connects."""
    tags: tuple[str, ...]
    cost: float | None
    """Milliseconds of CPU per event, as its form has it."""
    quality: float | None
    published: datetime
    deprecated: datetime | None
    """Since when only pipelines that hold this version use it."""
    vouched: bool
    """Whether an operator answers for its code: by publishing it, or by vouching for it."""


class WheelAnswer(Answer):
    """A wheel that published code may import from."""

    digest: str
    """The SHA-256 of the file."""
    owner: str | None
    """The tenant who sent it. None for an operator."""
    name: str
    version: str
    bytes: int
    requires: tuple[str, ...]
    sent: datetime


class ModuleDetail(ModuleAnswer):
    """A published version of a module with its form."""

    form: dict[str, Any]


class PlaceAnswer(Answer):
    """A place of a pipeline, and what fills it."""

    id: str
    module: str | None
    """The module with its version; None if it holds nothing, and is not in the document that runs."""
    alternatives: tuple[str, ...] = ()
    """Other modules, or `nothing`, of plans that are as good; only in previews."""


class GoalAnswer(Answer):
    """A goal, and what it rests on."""

    goal: str
    """Its place in the document."""
    rests_on: tuple[str, ...]
    """The sources, tasks and places that last set what it speaks of."""


class FigureAnswer(Answer):
    """What a plan reaches by one criterion."""

    criterion: Criterion
    value: int
    """The value, for cost in microseconds of CPU per event, for quality in thousandths."""
    bound: int
    """No plan reaches better. The same as the value if the plan is optimal."""


class FallbackAnswer(Answer):
    """What would happen if a module failed, and were planned without."""

    module: str
    places: tuple[PlaceAnswer, ...] = ()
    """The places that would hold something else."""
    no_plan: str = ""
    """The reason why there is no plan without it. Everything would stay as it is."""


class GivenUpModule(Answer):
    """A module that did nothing but fail in a pipeline, and what came of it."""

    module: str
    at: datetime
    reason: str
    outcome: str
    """What took its place, or the reason why nothing did."""
    reconfiguration: str | None = None
    """The reconfiguration by which its place holds something else."""


class PlanAnswer(Answer):
    """The plan of a pipeline."""

    places: tuple[PlaceAnswer, ...]
    goals: tuple[GoalAnswer, ...]
    figures: tuple[FigureAnswer, ...]
    optimal: bool
    """False if time ran out before it was known that nothing is better."""
    document: dict[str, Any]
    """The plain document that it makes."""
    fallbacks: tuple[FallbackAnswer, ...] = ()
    """What would happen if one of its modules failed; only in previews."""


class ReplanKind(StrEnum):
    """How a new plan takes effect: not at all, as one reconfiguration, or as a new document."""

    NOTHING = "nothing"
    RECONFIGURATION = "reconfiguration"
    REPLACEMENT = "replacement"


class ReplanForm(Form):
    """A wish to plan a running pipeline again."""

    pipeline: SentDocument | None = None
    """The pipeline with other goals or places; as it was submitted if left out."""
    prefer: tuple[Criterion, ...] | None = Field(default=None, max_length=len(Criterion))
    """What is optimised this time; fewest changes, then what the pipeline prefers, if left out."""
    without: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Modules that are not used this time, such as one that fails: by name, or by name and version."""


class ReplanAnswer(Answer):
    """A pipeline planned again."""

    dataflow: str
    how: ReplanKind
    plan: PlanAnswer
    why: str = ""
    """Why it is a new document and no reconfiguration, if it is."""
    changed: tuple[str, ...]
    """The places that hold something else than before."""
    reconfiguration: ReconfigurationAnswer | None = None
    """The reconfiguration that it takes effect as, or its preview."""
