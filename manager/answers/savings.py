"""Savings by sharing, and the shares of tenants and dataflows.

CPU is in nanoseconds, because whole numbers add up exactly, and in cores: the mean over the metered time.
"""

from datetime import datetime

from manager.answers.base import Answer


class CpuAnswer(Answer):
    """CPU that was measured."""

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


class SavedAnswer(Answer):
    """What sharing and packing saved. Both together are what running alone would have used beyond what was used."""

    work_by_sharing: float | None = None
    """The part of the tasks' work, between 0 and 1, that sharing saved: a task that several dataflows use runs once,
    not once for each. Measured; None if no work was shared."""
    cores_by_sharing: CpuAnswer | None = None
    """That work in cores; None if no work was shared."""
    cores_by_packing: EstimateAnswer
    """What fewer jobs saved: batches, less the cost of bridges and paused tasks."""


class ShareAnswer(Answer):
    """The share of a tenant, or of one of its dataflows."""

    tenant: str
    dataflow: str | None = None
    """None for the share of a whole tenant."""
    share: CpuAnswer
    alone: EstimateAnswer
    """What it would have used in a job of its own; for a tenant the sum of its dataflows."""
    saved: SavedAnswer
    """The difference of the two; its work is that of its tasks, of which others bore a part."""


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
    saved: SavedAnswer
    """`alone_launched` less what was measured."""


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
