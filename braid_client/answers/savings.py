"""Answers about savings, in sum and over time, and bills, also as CSV.

CPU is in nanoseconds, and the money of bills is decimal text, because both add up exactly. Cores are the mean over the
metered time.
"""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer

from braid_client.answers.base import Answer


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
    """The part of the tasks' work, between 0 and 1, that sharing saved: a task that several dataflows use runs once.
    Measured; None if no work was shared."""
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
    """Both bounds are rounded to the minutes or hours that were added up."""
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


class PointAnswer(Answer):
    """One step of a series. A field is None if it was not metered, or if the caller may not see it."""

    at: datetime
    metered_seconds: float
    measured: CpuAnswer | None = None
    """The whole as in `WholeAnswer`; like the next two, for operators."""
    alone_launched: EstimateAnswer | None = None
    alone_packed: EstimateAnswer | None = None
    share: CpuAnswer | None = None
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


Amount = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:f}", return_type=str, when_used="json")]
"""Money to a millionth; never as a power of ten."""


class BillAmount(Answer):
    """CPU that somebody pays for."""

    cpu_ns: int
    core_hours: Amount
    """`cpu_ns` in hours, rounded; only `cpu_ns` adds up exactly."""
    amount: Amount | None = None
    """None if the operator has set no price."""

    @property
    def money(self) -> str:
        """The amount as text; empty without a price."""
        return "" if self.amount is None else f"{self.amount:f}"


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
    rented: Amount = Decimal()
    """Its part of what rented machines cost, by the part of all CPU that it has in `pays`."""


class RentedAnswer(Answer):
    """The machines of one class that the service rented."""

    machine_class: str
    machines: int
    hours: int
    """Of each machine the hours that began within the bill."""
    amount: Amount


class BillWhole(Answer):
    """All CPU, and who bears it; for operators. The bill's lines, others and overhead add up to what was measured."""

    measured: BillAmount
    others: BillAmount
    """The shares of tenants that the bill does not list."""
    overhead: BillAmount
    """The rest, which the operator bears."""
    rented: tuple[RentedAnswer, ...] = ()
    """What rented machines cost; lines, others and overhead add up to it."""
    rented_others: Amount = Decimal()
    rented_overhead: Amount = Decimal()


class BillAnswer(Answer):
    """The bill of whole hours; made by `GET /v1/reports/bills`."""

    since: datetime
    until: datetime
    """Both bounds are at whole hours."""
    complete: bool
    """True once the bill is final."""
    metered_seconds: float
    tenants: tuple[BillLine, ...]
    """One line for each tenant: the sum of its dataflows."""
    dataflows: tuple[BillLine, ...]
    """One line for each dataflow, even a removed one, ordered by tenant."""
    whole: BillWhole | None = None
    """None for tenants."""
    price_per_core_hour: Amount | None = None
    currency: str = ""


BILL_COLUMNS = (
    *("from", "to", "complete", "kind", "tenant", "dataflow", "name"),
    *("cpu_ns", "core_hours", "amount", "currency", "most_cpu_ns", "most_amount", "rented"),
)
"""`kind` is dataflow, others or overhead; `most` is the stand-alone estimate."""
# The last four are the wide forms of the first.
_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_csv(bill: BillAnswer) -> str:
    """Write a bill as CSV (RFC 4180): a row for each dataflow, and for operators one for all others, and for overhead.

    If an operator asks for all tenants, the rows add up to what was measured.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(BILL_COLUMNS)
    # Names are chosen by tenants.
    writer.writerows(map(harmless, row) for row in _rows(bill))
    return text.getvalue()


def harmless(cell: str) -> str:
    """Escape a cell, so that no spreadsheet takes it for a formula.

    >>> harmless("=1+1"), harmless("weather"), harmless(" =1")
    ("'=1+1", 'weather', "' =1")
    """
    return f"'{cell}" if cell.lstrip().startswith(_SIGNS) or cell.startswith(_SIGNS) else cell


def _rows(bill: BillAnswer) -> Iterator[tuple[str, ...]]:
    when = (bill.since.isoformat(), bill.until.isoformat(), "yes" if bill.complete else "no")
    for line in bill.dataflows:
        whose = ("dataflow", line.tenant, line.dataflow or "", line.name)
        yield (*when, *whose, *_paid(line.pays, bill), str(line.most.cpu_ns), line.most.money, f"{line.rented:f}")
    if bill.whole is not None:
        whole = bill.whole
        for kind, amount, rented in (
            ("others", whole.others, whole.rented_others),
            ("overhead", whole.overhead, whole.rented_overhead),
        ):
            if kind == "overhead" or amount.cpu_ns:
                yield (*when, kind, "", "", "", *_paid(amount, bill), "", "", f"{rented:f}")


def _paid(amount: BillAmount, bill: BillAnswer) -> tuple[str, ...]:
    return (str(amount.cpu_ns), f"{amount.core_hours:f}", amount.money, bill.currency)
