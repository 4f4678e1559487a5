"""Bills, as REST tells them.

CPU is told in nanoseconds and money as decimal text, because both add up exactly.
"""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer

from manager.answers.base import Answer

Amount = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:f}", return_type=str, when_used="json")]
"""Money to a millionth; never as a power of ten."""


class BillAmount(Answer):
    """CPU that somebody pays for."""

    cpu_ns: int
    core_hours: Amount
    """The same, rounded; what adds up exactly is `cpu_ns`."""
    amount: Amount | None = None
    """None where the operator has set no price."""


class BillLine(Answer):
    """What one dataflow costs its tenant, or all of a tenant's together."""

    tenant: str
    dataflow: str | None = None
    """None where it is all of the tenant's."""
    name: str = ""
    """What the tenant calls the dataflow; empty for all of a tenant's."""
    pays: BillAmount
    most: BillAmount
    """The stand-alone estimate, which caps what it pays; its money is rounded up."""


class BillWhole(Answer):
    """What everything took, and who bears it; for operators. The bill's lines, others and overhead are the measured."""

    measured: BillAmount
    others: BillAmount
    """Of tenants that were not asked for."""
    overhead: BillAmount
    """What belongs to nobody, which is the operator's."""


class BillAnswer(Answer):
    """The bill of whole hours; made by `GET /v1/reports/bills`."""

    since: datetime
    until: datetime
    """Both at whole hours."""
    complete: bool
    """Whether nothing more can come to it."""
    metered_seconds: float
    """For how long of it somebody metered."""
    tenants: tuple[BillLine, ...]
    """For each the sum of its dataflows."""
    dataflows: tuple[BillLine, ...]
    """By tenant; removed ones among them."""
    whole: BillWhole | None = None
    """None for tenants."""
    price_per_core_hour: Amount | None = None
    currency: str = ""
