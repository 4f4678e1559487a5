"""Savings over time."""

from datetime import datetime

from manager.answers.base import Answer
from manager.answers.savings import CpuAnswer, EstimateAnswer


class PointAnswer(Answer):
    """One step of a series. A field is None if it was not metered, or if the caller may not see it."""

    at: datetime
    """The start of the step."""
    metered_seconds: float
    """The seconds of the step that were metered; cores are means over them."""
    measured: CpuAnswer | None = None
    """All CPU that was used; like the next two, for operators."""
    alone_launched: EstimateAnswer | None = None
    """What one job per dataflow would have used."""
    alone_packed: EstimateAnswer | None = None
    """What as few jobs as possible, without sharing, would have used."""
    share: CpuAnswer | None = None
    """The share of the tenant."""
    alone: EstimateAnswer | None = None
    """What its dataflows would have used in jobs of their own."""


class SeriesAnswer(Answer):
    """Savings over time; made by `GET /v1/reports/savings/series`."""

    since: datetime
    until: datetime
    step: int
    """Seconds; it may be longer than requested."""
    tenant: str | None = None
    """The tenant whose share the points have."""
    points: tuple[PointAnswer, ...]
    """Every step, oldest first, even if it was not metered."""
