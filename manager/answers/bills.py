"""Bills.

CPU is in nanoseconds and money is decimal text, because both add up exactly.
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
    """`cpu_ns` in hours, rounded; only `cpu_ns` adds up exactly."""
    amount: Amount | None = None
    """None if the operator has set no price."""


class BillLine(Answer):
    """The costs of one dataflow, or of all dataflows of a tenant."""

    tenant: str
    dataflow: str | None = None
    """None for the line of a whole tenant."""
    name: str = ""
    """The name of the dataflow; empty for the line of a whole tenant."""
    pays: BillAmount
    most: BillAmount
    """The stand-alone estimate, which caps `pays`; its money is rounded up."""


class BillWhole(Answer):
    """All CPU, and who bears it; for operators. The bill's lines, others and overhead add up to what was measured."""

    measured: BillAmount
    others: BillAmount
    """The shares of tenants that the bill does not list."""
    overhead: BillAmount
    """The rest, which the operator bears."""


class BillAnswer(Answer):
    """The bill of whole hours; made by `GET /v1/reports/bills`."""

    since: datetime
    until: datetime
    """Both at whole hours."""
    complete: bool
    """True once the bill is final."""
    metered_seconds: float
    """The seconds of the interval that were metered."""
    tenants: tuple[BillLine, ...]
    """One line for each tenant: the sum of its dataflows."""
    dataflows: tuple[BillLine, ...]
    """By tenant, with removed dataflows."""
    whole: BillWhole | None = None
    """None for tenants."""
    price_per_core_hour: Amount | None = None
    currency: str = ""
