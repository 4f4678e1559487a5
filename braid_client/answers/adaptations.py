"""Adaptations: what a dynamic dataflow has chosen, and why."""

from datetime import datetime
from typing import Any

from pydantic import Field

from braid_client.answers.base import Answer, Form


class AlternateAnswer(Answer):
    """An alternate of a task, as it counts now."""

    name: str
    value: float
    """The value, which is 1 for the best of its task."""
    cost: float
    """The microseconds of CPU that an event takes."""
    selectivity: float
    """The events that leave for one that enters."""
    measured: bool
    """Whether cost and selectivity were measured, and are not the declared ones."""
    permitted: bool
    """Whether guards, rules and what was chosen by hand permit it."""


class AdaptiveTaskAnswer(Answer):
    """A task with alternates."""

    task: str
    active: str
    """The alternate that runs, or that is being switched to."""
    since: datetime | None = None
    """Since when, if it has switched since this manager began."""
    rule: str = ""
    """The rule that fixes it, if one does."""
    alternates: tuple[AlternateAnswer, ...]


class GuardedStreamAnswer(Answer):
    """A stream with a guard."""

    stream: str
    open: bool
    rule: str = ""


class AdaptationAnswer(Answer):
    """A dynamic dataflow as it stands."""

    dataflow: str
    policy: dict[str, Any]
    """The policy that counts now."""
    pinned: dict[str, str | bool] = Field(default_factory=dict)
    """What is chosen by hand."""
    tasks: tuple[AdaptiveTaskAnswer, ...] = ()
    streams: tuple[GuardedStreamAnswer, ...] = ()
    value: float | None = None
    """The mean value of what runs; None until it is known."""
    throughput: float | None = None
    """The share of what comes in that is worked off."""
    cores_needed: float | None = None
    """The cores that what runs needs for all that comes in."""
    cores: float | None = None
    """The cores that there are for it."""
    rate: float | None = None
    """The events that come in each second."""
    trouble: str = ""
    """Why it does not adapt; empty if it does."""


class ChoiceForm(Form):
    """What is chosen by hand."""

    choose: dict[str, str | bool] = Field(max_length=1_000)
    """The alternate of a task, by its id, or whether a stream is open, by its name; what is left out is free again."""


class PolicyForm(Form):
    """A policy as REST describes it; `adaptation` reads the whole of it. The recursion of conditions is left out."""

    throughput: float = Field(default=0.8, gt=0, le=1)
    tolerance: float = Field(default=0.05, ge=0, lt=1)
    latency: float | None = Field(default=None, gt=0)
    cores: float | None = Field(default=None, gt=0)
    worth: float | None = Field(default=None, ge=0)
    budget: float | None = Field(default=None, gt=0)
    events: dict[str, Any] = Field(default_factory=dict, max_length=100)
    rules: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
