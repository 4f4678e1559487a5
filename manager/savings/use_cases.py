"""Savings and bills: what sharing saves, who pays for what, and what a dataflow would save if it were submitted.

The forecast of a dataflow's saving: the cores that its reused tasks, and a job of its own, would take. Every
batch of a job has a cost independent of its events; a dataflow that opens no job saves it by packing. The work
saved by sharing is the part of all its tasks' work that is done by the reused ones.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select
from sqlmodel import Session, col

from braid_client.answers.dataflows import Saving
from braid_client.answers.savings import BillAnswer, SavingsAnswer, SeriesAnswer
from dags import Dataflow
from dags.vocabulary import Basis
from manager.problem import NotFound, invalid
from manager.savings import ledger
from manager.savings.bill import LONGEST_BILL, Bill, period, rented_in
from manager.savings.ledger import (
    MOST_POINTS,
    AmountScale,
    Interval,
    interval,
    points,
    share_answers,
    steps,
    whole_answer,
)
from manager.store.dead_letters import parts
from manager.store.machine_tables import RentalRow
from manager.store.tables import DataflowRow, table_of
from manager.use_case import Base, Caller, moment, tenant_row
from merge import Instance, MeasuredCosts, estimated

_DATAFLOWS = table_of(DataflowRow).c


def saving(
    dataflow: Dataflow, instances: Sequence[Instance | None], measured: MeasuredCosts, *, opened: int, job: float
) -> Saving:
    """Forecast the saving of a dataflow; `instances` has the running instance of each distinct task, None for new ones.

    `opened` is the number of jobs that it opens, `job` the cores for the empty batches of a job. A source does no work.
    """
    reused, every = Counter[Basis](), Counter[Basis]()
    saved = whole = 0.0
    tasks = zip(dataflow.tasks, instances, estimated(dataflow, instances, measured), strict=True)
    for task, instance, estimate in tasks:
        if task.type.is_source:
            continue
        whole += estimate.busy
        every[estimate.basis] += 1
        if instance is not None:
            saved += estimate.busy
            reused[estimate.basis] += 1
    shares = saved > 0.0
    return Saving(
        tasks=sum(instance is not None for instance in instances),
        of_tasks=len(instances),
        work_by_sharing=round(saved / whole, 6) if shares else None,
        cores_by_sharing=round(saved, 6) if shares else None,
        cores_by_packing=round(job * max(0, 1 - opened), 6),
        rests_on={basis: reused[basis] for basis in Basis},
        work_rests_on={basis: every[basis] for basis in Basis},
    )


class Savings(Base):
    """Savings and shares; any manager has them, because all of it is in the database."""

    def report(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """The savings in an interval, by default the last hour; a tenant gets its own only."""
        wanted = interval(since, until, time.time())
        refuse_empty(wanted)
        with self._store.read() as session:
            if dataflow is None:
                whose = whose_numbers(session, caller, tenant)
            else:
                whose = _owner(session, dataflow, _asked_for(caller, tenant))
            whole, tenants = ledger.whole(session, *wanted), ledger.of_tenants(session, *wanted)
            own = {} if whose is None else ledger.of_dataflows(session, *wanted, whose)
        scale = AmountScale(seconds=whole.seconds, price_per_core_hour=self._tools.pricing.per_core_hour)
        shown = {name: took for name, took in tenants.items() if whose in {None, name}}
        own = {name: took for name, took in own.items() if dataflow in {None, name}}
        return SavingsAnswer(
            since=moment(wanted.since),
            until=moment(wanted.until),
            metered_seconds=round(whole.seconds, 3),
            tenants=len(tenants),
            whole=whole_answer(whole, shown.values(), scale) if caller.is_operator else None,
            shares=share_answers(shown, scale),
            dataflows=share_answers(own, scale, tenant=whose),
            price_per_core_hour=self._tools.pricing.per_core_hour,
            currency=self._tools.pricing.currency,
        )

    def series(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """The savings in each step of an interval, by default of the last hour; a tenant gets its own."""
        wanted = steps(since, until, step, time.time())
        refuse_empty(wanted.interval)
        if wanted.count > MOST_POINTS:
            message = f"the interval falls into more than {MOST_POINTS} steps"
            remedy = "ask for longer steps, or for a shorter interval"
            raise invalid("/query/step", "too-many-points", message, remedy)
        within = wanted.interval
        with self._store.read() as session:
            whose = whose_numbers(session, caller, tenant)
            wholes = ledger.whole_series(session, *within)
            took = None if whose is None else ledger.tenant_series(session, *within, whose)
        return SeriesAnswer(
            since=moment(within.since),
            until=moment(within.until),
            step=wanted.step,
            tenant=whose,
            points=points(
                wanted,
                wholes,
                took,
                whole_too=caller.is_operator,
                price_per_core_hour=self._tools.pricing.per_core_hour,
            ),
        )


def refuse_empty(wanted: Interval) -> None:
    """Refuse an interval that has no time in it."""
    if wanted.since >= wanted.until:
        message = "the interval ends before it begins, or begins in the future"
        raise invalid(
            "/query/to", "empty-interval", message, "let `to` be later than `from`, and `from` be in the past"
        )


def whose_numbers(session: Session, caller: Caller, tenant: str | None) -> str | None:
    """Whose numbers are wanted; None for everybody's. Refused where there is no such tenant for the caller."""
    whose = _asked_for(caller, tenant)
    if tenant is not None:
        tenant_row(session, tenant)
    return whose


def _asked_for(caller: Caller, tenant: str | None) -> str | None:
    if caller.tenant is not None and tenant not in {None, caller.tenant}:
        raise NotFound("tenant", tenant or "")
    return caller.tenant or tenant


def _owner(session: Session, dataflow: str, tenant: str | None) -> str:
    """Whose a dataflow is, which may be removed; refused where it is not that tenant's."""
    owner = session.scalar(select(_DATAFLOWS.tenant).where(_DATAFLOWS.id == dataflow))
    if owner is None or tenant not in {None, owner}:
        raise NotFound("dataflow", dataflow)
    return str(owner)


class Bills(Base):
    """Bills of tenants; any manager has them."""

    def bill(
        self, caller: Caller, *, since: datetime | None = None, until: datetime | None = None, tenant: str | None = None
    ) -> BillAnswer:
        """The bill of some hours; of this month so far if none are given. A tenant gets its own."""
        wanted = period(since, until, time.time())
        refuse_empty(wanted)
        if wanted.until - wanted.since > LONGEST_BILL:
            remedy = "ask for each month by itself; bills of one after the other add up"
            raise invalid("/query/from", "interval-too-long", "a bill is of three months at most", remedy)
        with self._store.read() as session:
            whose = whose_numbers(session, caller, tenant)
            # First, so that nothing comes between it and what is read.
            complete = ledger.metered_since(session, wanted.until)
            whole, everybody = ledger.whole(session, *wanted), ledger.of_everybody(session, *wanted)
            shown = {line: took for line, took in everybody.items() if whose in {None, line[0]}}
            names = _names(session, [dataflow for _, dataflow in shown])
            lived = or_(col(RentalRow.ended).is_(None), col(RentalRow.ended) > wanted.since)
            rented = rented_in(session.scalars(select(RentalRow).where(lived)), wanted, time.time())
        billed = Bill(
            whole=whole,
            everybody=everybody,
            shown=shown,
            names=names,
            price_per_core_hour=self._tools.pricing.per_core_hour,
            rented=rented,
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


def _names(session: Session, dataflows: list[str]) -> dict[str, str]:
    some = (select(_DATAFLOWS.id, _DATAFLOWS.name).where(_DATAFLOWS.id.in_(part)) for part in parts(dataflows))
    return {dataflow: name for wanted in some for dataflow, name in session.execute(wanted)}
