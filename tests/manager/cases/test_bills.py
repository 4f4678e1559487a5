"""Use cases of bills and of savings over time: who sees what, and whether more may come to it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from manager.problem import InvalidRequest, NotFound
from manager.savings.ledger import HOUR, MINUTE, Minute, write
from manager.savings.settlement import CpuEstimate, Share
from manager.use_case import Pricing
from tests.manager.cases.metered_minutes import CORE_MINUTE, minute
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
THIS_HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
BEGIN = THIS_HOUR - timedelta(hours=30)


def shared_minute(at: datetime, shares: dict[str, tuple[str, int]]) -> Minute:
    """Two core-minutes, of which some go to dataflows of tenants."""
    alone = CpuEstimate(low=CORE_MINUTE // 2, likely=CORE_MINUTE, high=2 * CORE_MINUTE)
    found = {
        dataflow: Share(tenant=tenant, cpu=cpu, alone=alone, saving=CpuEstimate())
        for dataflow, (tenant, cpu) in shares.items()
    }
    return minute(int(at.timestamp()), found)


@pytest.fixture
def metered(sqlite: str) -> Iterator[Manager]:
    """In the first hour ann and bob share, in the second only ann's second dataflow did something; then 28 hours."""
    made = Manager(sqlite).lead()
    made.admit("ann", "bob")
    made.register("weather")
    shared, bobs, own = [made.submit(each, "s:source > a:map > k:sink") for each in ("ann", "bob", "ann")]
    made.changes.dataflows.remove(own, who="ann")
    hours = [
        shared_minute(BEGIN, {shared: ("ann", CORE_MINUTE // 3), bobs: ("bob", CORE_MINUTE // 3)}),
        shared_minute(BEGIN + timedelta(hours=1), {own: ("ann", CORE_MINUTE // 2)}),
        shared_minute(BEGIN + timedelta(hours=29), {}),
    ]
    with made.store.write() as session:
        assert write(session, "one", hours)
    made.equip(pricing=Pricing(per_core_hour=6.0, currency="EUR"))
    yield made
    made.close()


def test_a_bill_tells_an_operator_everything(metered: Manager) -> None:
    """The dataflows of all tenants, removed ones too, with their names; the overhead; and all of it adds up."""
    bill = metered.service.bills.bill(OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=2))
    assert ["ann", "bob"] == [each.tenant for each in bill.tenants]
    assert [("ann", 2), ("bob", 1)] == [
        (tenant, sum(each.tenant == tenant for each in bill.dataflows)) for tenant in ("ann", "bob")
    ]
    assert all(each.name for each in bill.dataflows)
    assert bill.whole is not None
    assert 4 * CORE_MINUTE == bill.whole.measured.cpu_ns
    assert ("0.400000", "0.283334", "0") == (
        str(bill.whole.measured.amount),
        str(bill.whole.overhead.amount),
        str(bill.whole.others.cpu_ns),
    )
    # Ann's 0.0333.. and bob's end alike, so neither gets the millionth that is left.
    assert {Decimal("0.033333"), Decimal("0.050000")} == {each.pays.amount for each in bill.dataflows}
    assert (120.0, True, Decimal("6.0"), "EUR") == (
        bill.metered_seconds,
        bill.complete,
        bill.price_per_core_hour,
        bill.currency,
    )


def test_a_tenant_reads_its_own_lines_as_the_operator_does(metered: Manager) -> None:
    """Digit by digit, whether it or the operator asks for it alone; and nothing of others."""
    until = BEGIN + timedelta(hours=2)
    everybody = metered.service.bills.bill(OPERATOR, since=BEGIN, until=until)
    for who, name in ((ANN, "ann"), (BOB, "bob")):
        own = metered.service.bills.bill(who, since=BEGIN, until=until)
        lines = [each for each in everybody.dataflows if each.tenant == name]
        assert (None, lines) == (own.whole, list(own.dataflows))
        assert [each for each in everybody.tenants if each.tenant == name] == list(own.tenants)
        asked = metered.service.bills.bill(OPERATOR, since=BEGIN, until=until, tenant=name)
        assert (own.dataflows, True) == (asked.dataflows, asked.whole is not None)
    text = metered.service.bills.bill(BOB, since=BEGIN, until=until).model_dump_json()
    assert "ann" not in text


def test_a_bill_that_more_may_come_to_says_so(metered: Manager) -> None:
    """What was metered later shows that nothing is missing; without it, the last minutes may be on their way."""
    assert metered.service.bills.bill(ANN, since=BEGIN, until=BEGIN + timedelta(hours=29)).complete
    assert not metered.service.bills.bill(ANN, since=BEGIN, until=THIS_HOUR).complete
    assert not metered.service.bills.bill(ANN, since=BEGIN).complete


def test_a_tenant_asks_for_nothing_of_others(metered: Manager) -> None:
    """Another tenant answers as one does that does not exist."""
    for who, tenant in ((ANN, "bob"), (ANN, "carl"), (OPERATOR, "carl")):
        for ask in (metered.service.bills.bill, metered.service.savings.series):
            with pytest.raises(NotFound):
                ask(who, tenant=tenant)


@pytest.mark.parametrize(
    ("ask", "since", "until", "code"),
    [
        ("bill", 0, 0, "empty-interval"),
        ("bill", 24, 48, "empty-interval"),
        ("bill", -24 * 94, 0, "interval-too-long"),
        ("series", 24, 48, "empty-interval"),
        ("series", -24 * 600, 0, "too-many-points"),
    ],
)
def test_an_interval_of_no_use_is_refused(metered: Manager, ask: str, since: int, until: int, code: str) -> None:
    """One that is empty, and one that would take too long; with what to do."""
    bounds = {"since": THIS_HOUR + timedelta(hours=since), "until": THIS_HOUR + timedelta(hours=until)}
    asks: dict[str, Callable[..., object]] = {
        "bill": metered.service.bills.bill,
        "series": metered.service.savings.series,
    }
    with pytest.raises(InvalidRequest) as raised:
        asks[ask](ANN, **bounds)
    assert [code] == [each.code for each in raised.value.errors]


def test_steps_that_are_too_many_are_refused(metered: Manager) -> None:
    """A long interval by short steps: the problem points at the step."""
    with pytest.raises(InvalidRequest) as raised:
        metered.service.savings.series(ANN, since=THIS_HOUR - timedelta(days=30), step=MINUTE)
    assert [("/query/step", "too-many-points")] == [(each.pointer, each.code) for each in raised.value.errors]


def test_a_series_tells_an_operator_the_whole(metered: Manager) -> None:
    """Measured, launched and packed for each hour that was metered; the share of a tenant where it is asked for."""
    series = metered.service.savings.series(OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=3), step=HOUR)
    assert (HOUR, 3, None) == (series.step, len(series.points), series.tenant)
    first, _, nothing = series.points
    assert first.measured is not None
    assert first.alone_packed is not None
    assert (2.0, (2.0, 3.0, 4.0), None) == (
        first.measured.cores,
        (first.alone_packed.low, first.alone_packed.likely, first.alone_packed.high),
        first.share,
    )
    assert (0.0, None, None) == (nothing.metered_seconds, nothing.measured, nothing.alone_launched)
    asked = metered.service.savings.series(
        OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=3), step=HOUR, tenant="bob"
    )
    assert [CORE_MINUTE // 3, 0, None] == [each.share and each.share.cpu_ns for each in asked.points]


def test_a_series_tells_a_tenant_its_own(metered: Manager) -> None:
    """Its share and what it would take alone; of the whole nothing."""
    series = metered.service.savings.series(BOB, since=BEGIN, until=BEGIN + timedelta(hours=2), step=HOUR)
    assert "bob" == series.tenant
    assert {(None, None, None)} == {(each.measured, each.alone_launched, each.alone_packed) for each in series.points}
    first, second = series.points
    assert first.share is not None
    assert first.alone is not None
    assert second.share is not None
    assert (CORE_MINUTE // 3, 1.0, 0) == (first.share.cpu_ns, first.alone.likely, second.share.cpu_ns)
