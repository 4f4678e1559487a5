"""Savings over time, as REST tells them."""

from datetime import datetime

from manager.answers.base import Answer
from manager.answers.savings import CpuAnswer, EstimateAnswer


class PointAnswer(Answer):
    """One step of a series; what is not metered, or not the caller's to know, is None."""

    at: datetime
    """When the step begins."""
    metered_seconds: float
    """For how much of it somebody metered; cores are means over that."""
    measured: CpuAnswer | None = None
    """What everything took; for operators, as the next two."""
    alone_launched: EstimateAnswer | None = None
    """What a job for each dataflow would have taken."""
    alone_packed: EstimateAnswer | None = None
    """What as few jobs as can hold them, without sharing, would have taken."""
    share: CpuAnswer | None = None
    """What the tenant pays for that was asked for, or who asks."""
    alone: EstimateAnswer | None = None
    """What its dataflows would have taken in jobs of their own."""


class SeriesAnswer(Answer):
    """Savings over time; made by `GET /v1/reports/savings/series`."""

    since: datetime
    until: datetime
    step: int
    """Seconds; it may be longer than the one that was asked for."""
    tenant: str | None = None
    """Whose share it tells."""
    points: tuple[PointAnswer, ...]
    """Each step once, oldest first, also where nobody metered."""
