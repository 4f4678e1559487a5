"""Bills of tenants."""

import time
from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session

from dags import Problem
from manager.answers import BillAnswer
from manager.cases.base import Base, Caller
from manager.cases.savings import refuse_empty, whose_numbers
from manager.problem import InvalidRequest
from manager.savings import ledger
from manager.savings.bill import Bill
from manager.savings.bill_amounts import LONGEST_BILL, period
from manager.savings.intervals import moment
from manager.store.tables import DataflowRow, table_of

_AT_ONCE = 500
"""Of so many dataflows the names are read at once."""


class Bills(Base):
    """Bills of tenants; any manager has them."""

    def bill(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
    ) -> BillAnswer:
        """The bill of some hours; of this month so far if none are given. A tenant gets its own."""
        wanted = period(since, until, time.time())
        refuse_empty(wanted)
        if wanted.until - wanted.since > LONGEST_BILL:
            raise InvalidRequest([_TOO_LONG])
        with self._store.read() as session:
            whose = whose_numbers(session, caller, tenant)
            where = (wanted.span, wanted.since, wanted.until)
            # First, so that nothing comes between it and what is read.
            complete = ledger.metered_since(session, wanted.until)
            whole, everybody = ledger.whole(session, *where), ledger.of_everybody(session, *where)
            shown = {line: took for line, took in everybody.items() if whose in {None, line[0]}}
            names = _names(session, [dataflow for _, dataflow in shown])
        billed = Bill(
            whole=whole,
            everybody=everybody,
            shown=shown,
            names=names,
            price_per_core_hour=self._tools.pricing.per_core_hour,
        )
        return BillAnswer(
            since=moment(wanted.since),
            until=moment(wanted.until),
            complete=complete,
            metered_seconds=round(whole.seconds, 3),
            tenants=billed.tenants(),
            dataflows=billed.dataflows(),
            whole=billed.totals() if caller.is_operator else None,
            price_per_core_hour=self._tools.pricing.exactly,
            currency=self._tools.pricing.currency,
        )


_TOO_LONG = Problem(
    pointer="/query/from",
    code="interval-too-long",
    message="a bill is of three months at most",
    remedy="ask for each month by itself; bills of one after the other add up",
)


def _names(session: Session, dataflows: list[str]) -> dict[str, str]:
    of = table_of(DataflowRow).c
    found: dict[str, str] = {}
    for begin in range(0, len(dataflows), _AT_ONCE):
        some = select(of.id, of.name).where(of.id.in_(dataflows[begin : begin + _AT_ONCE]))
        found.update((dataflow, name) for dataflow, name in session.execute(some))
    return found
