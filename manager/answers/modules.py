"""Modules: published versions, their forms, and the wheels that code imports from."""

from datetime import datetime
from typing import Any

from manager.answers.base import Answer
from planning.shape import ModuleShape


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
    """What it depends on."""
    sent: datetime


class ModuleDetail(ModuleAnswer):
    """A published version of a module with its form."""

    form: dict[str, Any]
    """As it was published."""
