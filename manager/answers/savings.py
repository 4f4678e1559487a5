"""What sharing saves and who pays for what, as REST tells it.

CPU is told in nanoseconds, because whole numbers add up exactly, and in cores, a mean over the time that was metered.
"""

from datetime import datetime

from manager.answers.base import Answer


class CpuAnswer(Answer):
    """CPU that was taken."""

    cpu_ns: int
    cores: float
    price: float | None = None
    """What it costs; None where the operator has set no price."""


class EstimateAnswer(Answer):
    """Cores as they are estimated, and between what they lie."""

    low: float
    likely: float
    high: float
    price: float | None = None
    """What the likely ones cost; None where the operator has set no price."""


class ShareAnswer(Answer):
    """What a tenant or one of its dataflows pays for."""

    tenant: str
    dataflow: str | None = None
    """None where it is all of the tenant's."""
    share: CpuAnswer
    alone: EstimateAnswer
    """What it would have taken in a job of its own, for a tenant the sum of that."""
    saving: EstimateAnswer
    """What is between the two."""
    work_saved: float | None = None
    """The part of the work of its tasks that others bore, between 0 and 1, as measured; None where there was none."""


class WholeAnswer(Answer):
    """What everything took, and what separate execution would have taken; for operators."""

    measured: CpuAnswer
    parts: dict[str, CpuAnswer | None]
    """Of it driver, jvm, worker and broker; None where that is not measured."""
    overhead: CpuAnswer
    """Of it what belongs to nobody."""
    others: CpuAnswer
    """Of it the shares that are not among those shown."""
    alone_launched: EstimateAnswer
    """What a job for each dataflow would have taken."""
    alone_packed: EstimateAnswer
    """What as few jobs as can hold them, without sharing, would have taken."""
    saving_by_sharing: EstimateAnswer
    """What packed jobs would have taken beyond what was measured."""
    saving_by_packing: EstimateAnswer
    """What a job for each dataflow would have taken beyond packed ones."""
    work_saved: float | None = None
    """The part of the work of tasks that sharing saved, between 0 and 1: what they took, against each of them once for
    every dataflow that used it. Measured, and without batches and bridges; None where there was none."""


class SavingsAnswer(Answer):
    """What sharing saved in an interval, and who pays for what; shares, others and overhead are the measured whole."""

    since: datetime
    until: datetime
    """Both at the bounds of the minutes or hours that were added up."""
    metered_seconds: float
    """For how long of it somebody metered; cores are means over that."""
    tenants: int
    """How many had a share."""
    whole: WholeAnswer | None = None
    """None for tenants."""
    shares: tuple[ShareAnswer, ...]
    """Of tenants: all of them for an operator, its own for a tenant."""
    dataflows: tuple[ShareAnswer, ...] = ()
    """Of the dataflows that were asked for: a tenant's, or one."""
    price_per_core_hour: float | None = None
    currency: str = ""
