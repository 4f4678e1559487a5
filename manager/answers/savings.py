"""Savings by sharing, and the shares of tenants and dataflows.

CPU is in nanoseconds, because whole numbers add up exactly, and in cores: the mean over the metered time.
"""

from datetime import datetime

from manager.answers.base import Answer


class CpuAnswer(Answer):
    """CPU that was used."""

    cpu_ns: int
    cores: float
    price: float | None = None
    """None if the operator has set no price."""


class EstimateAnswer(Answer):
    """An estimate of cores, with its bounds."""

    low: float
    likely: float
    high: float
    price: float | None = None
    """The price of the likely ones; None if the operator has set no price."""


class ShareAnswer(Answer):
    """The share of a tenant, or of one of its dataflows."""

    tenant: str
    dataflow: str | None = None
    """None for the share of a whole tenant."""
    share: CpuAnswer
    alone: EstimateAnswer
    """What it would have used in a job of its own; for a tenant the sum of its dataflows."""
    saving: EstimateAnswer
    """The difference of the two."""
    work_saved: float | None = None
    """The measured part of the work of its tasks that others bore, between 0 and 1; None if there was no work."""


class WholeAnswer(Answer):
    """All CPU that was used, and what separate execution would have used; for operators."""

    measured: CpuAnswer
    parts: dict[str, CpuAnswer | None]
    """Its parts: driver, jvm, worker and broker; None if a part was not measured."""
    overhead: CpuAnswer
    """The part that is nobody's share."""
    others: CpuAnswer
    """The shares that are not listed."""
    alone_launched: EstimateAnswer
    """What one job per dataflow would have used."""
    alone_packed: EstimateAnswer
    """What as few jobs as possible, without sharing, would have used."""
    saving_by_sharing: EstimateAnswer
    """`alone_packed` less what was measured."""
    saving_by_packing: EstimateAnswer
    """`alone_launched` less `alone_packed`."""
    work_saved: float | None = None
    """The measured part of the work of tasks that sharing saved, between 0 and 1: against running each task once for
    every dataflow that used it, without batches and bridges. None if there was no work."""


class SavingsAnswer(Answer):
    """The savings in an interval. Shares, others and overhead add up to what was measured."""

    since: datetime
    until: datetime
    """Both rounded to the minutes or hours that were added up."""
    metered_seconds: float
    """The seconds of the interval that were metered; cores are means over them."""
    tenants: int
    """The number of tenants with a share."""
    whole: WholeAnswer | None = None
    """None for tenants."""
    shares: tuple[ShareAnswer, ...]
    """The shares of tenants: all for an operator, its own for a tenant."""
    dataflows: tuple[ShareAnswer, ...] = ()
    """The shares of the dataflows that were asked for: of a tenant, or one."""
    price_per_core_hour: float | None = None
    currency: str = ""
