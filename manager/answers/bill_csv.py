"""A bill as CSV: a row for each dataflow, and for operators one for the tenants not shown and one for the overhead.

If an operator asks for all tenants, the rows add up to what was measured. Spreadsheets take a cell that begins with a
sign for a formula, so such text gets an apostrophe before it, and so does text that begins with an apostrophe.
"""

import csv
import io
from collections.abc import Iterator

from manager.answers.bills import BillAmount, BillAnswer

BILL_COLUMNS = (
    "from",
    "to",
    "complete",
    "kind",
    "tenant",
    "dataflow",
    "name",
    "cpu_ns",
    "core_hours",
    "amount",
    "currency",
    "most_cpu_ns",
    "most_amount",
)
"""`kind` is dataflow, others or overhead; `most` is the stand-alone estimate."""
# The last four are the wide forms of the first.
_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_csv(bill: BillAnswer) -> str:
    """Write a bill as CSV (RFC 4180)."""
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
        yield (*when, *whose, *_paid(line.pays, bill), str(line.most.cpu_ns), _money(line.most))
    if bill.whole is not None:
        for kind, amount in (("others", bill.whole.others), ("overhead", bill.whole.overhead)):
            if kind == "overhead" or amount.cpu_ns:
                yield (*when, kind, "", "", "", *_paid(amount, bill), "", "")


def _paid(amount: BillAmount, bill: BillAnswer) -> tuple[str, ...]:
    return (str(amount.cpu_ns), f"{amount.core_hours:f}", _money(amount), bill.currency)


def _money(amount: BillAmount) -> str:
    return "" if amount.amount is None else f"{amount.amount:f}"
