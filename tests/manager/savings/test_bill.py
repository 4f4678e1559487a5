"""Laws of bills: they hold for any usage and any price."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid_client.answers.savings import BILL_COLUMNS, BillAmount, BillAnswer, BillLine, BillWhole, as_csv, harmless
from manager.savings.bill import Bill, Line, amounts, period
from manager.savings.ledger import HOUR, Interval
from manager.savings.settlement import CpuEstimate, MeteredShare, Whole, cap_amount, rate

LINES = [(tenant, f"{tenant}-{number}") for tenant in ("ann", "bob") for number in range(3)]
# A few of them often, so that several use the same.
CPU = st.one_of(st.sampled_from([0, 500, 900]), st.integers(0, 20), st.integers(0, 10**16))
PRICES = st.one_of(st.sampled_from([0.0, 0.05, 1.0, 3600.0, 1e9]), st.floats(0.0, 1e9))
NOW = datetime(2026, 11, 22, 2, 40, 30, tzinfo=UTC)
HERE = NOW.timestamp()


@st.composite
def taken(draw: st.DrawFn) -> dict[Line, MeteredShare]:
    """Draw the shares of some dataflows, each up to its stand-alone estimate."""
    found: dict[Line, MeteredShare] = {}
    for line in draw(st.sets(st.sampled_from(LINES))):
        cpu, more = draw(CPU), draw(CPU)
        alone = CpuEstimate(low=cpu, likely=cpu + more, high=cpu + 2 * more)
        found[line] = MeteredShare(cpu=cpu, alone=alone, saving=CpuEstimate(low=0, likely=more, high=2 * more))
    return found


def billed(everybody: dict[Line, MeteredShare], overhead: int, price: float | None, tenant: str | None = None) -> Bill:
    """Return the bill of a tenant, or of everybody."""
    measured = sum(took.cpu for took in everybody.values()) + overhead
    return Bill(
        whole=Whole(cpu={"jvm": measured}),
        everybody=everybody,
        shown={line: took for line, took in everybody.items() if tenant in {None, line[0]}},
        names={},
        price_per_core_hour=price,
    )


def of(amount: BillAmount) -> Decimal:
    assert amount.amount is not None
    return amount.amount


@given(taken(), CPU, PRICES, st.sampled_from([None, "ann", "bob"]))
def test_a_bill_adds_up(everybody: dict[Line, MeteredShare], overhead: int, price: float, tenant: str | None) -> None:
    """Dataflows add up to tenants, and tenants, others and overhead to the measured whole: in time and money."""
    bill = billed(everybody, overhead, price, tenant)
    whole = bill.totals()
    for lines in (bill.dataflows(), bill.tenants()):
        rest = (whole.others, whole.overhead)
        assert whole.measured.cpu_ns == sum(each.pays.cpu_ns for each in lines) + sum(each.cpu_ns for each in rest)
        assert whole.measured.amount == sum(of(each.pays) for each in lines) + sum(map(of, rest))
    for one in bill.tenants():
        own = [each for each in bill.dataflows() if each.tenant == one.tenant]
        assert (one.pays.cpu_ns, one.pays.amount) == (
            sum(each.pays.cpu_ns for each in own),
            sum(of(each.pays) for each in own),
        )
        assert (one.most.cpu_ns, one.most.amount) == (
            sum(each.most.cpu_ns for each in own),
            sum(of(each.most) for each in own),
        )


@given(taken(), CPU, PRICES)
def test_nobody_pays_more_than_alone_or_less_than_nothing(
    everybody: dict[Line, MeteredShare], overhead: int, price: float
) -> None:
    """That holds in time and in money for each dataflow, each tenant, and the operator."""
    bill = billed(everybody, overhead, price)
    for each in (*bill.dataflows(), *bill.tenants()):
        assert 0 <= each.pays.cpu_ns <= each.most.cpu_ns
        assert 0 <= of(each.pays) <= of(each.most)
    assert 0 <= of(bill.totals().overhead)


@given(taken(), CPU, PRICES)
def test_equals_pay_the_same_and_no_usage_costs_nothing(
    everybody: dict[Line, MeteredShare], overhead: int, price: float
) -> None:
    """That holds to the last digit, independent of names."""
    paid: dict[int, Decimal] = {0: Decimal(0)}
    for each in billed(everybody, overhead, price).dataflows():
        assert paid.setdefault(each.pays.cpu_ns, of(each.pays)) == of(each.pays)


@given(taken(), CPU, PRICES)
def test_an_amount_is_off_by_less_than_the_last_digit(
    everybody: dict[Line, MeteredShare], overhead: int, price: float
) -> None:
    """Rounding changes no line by a whole millionth, so no tenant's digits depend on others."""
    cpu = {line: took.cpu for line, took in everybody.items()}
    paid = amounts(sum(cpu.values()) + overhead, cpu, rate(price))
    for line, amount in paid.lines.items():
        assert abs(amount - cpu[line] * rate(price)) < 1
    assert abs(paid.overhead - overhead * rate(price)) < len(cpu) + 1


@given(taken(), CPU, PRICES, st.integers(2, 5))
def test_amounts_scale_with_the_price(
    everybody: dict[Line, MeteredShare], overhead: int, price: float, times: int
) -> None:
    """At a multiple of the price every amount is that multiple, except for its last digit."""
    cpu = {line: took.cpu for line, took in everybody.items()}
    measured = sum(cpu.values()) + overhead
    one, many = (amounts(measured, cpu, rate(float(Fraction(str(price)) * by))) for by in (1, times))
    # A float may not hold the multiple exactly.
    slack = times + 1 + measured * abs(rate(float(Fraction(str(price)) * times)) - times * rate(price))
    for line in cpu:
        assert abs(many.lines[line] - times * one.lines[line]) <= slack
    assert abs(many.whole - times * one.whole) <= slack


@given(taken(), taken(), CPU, CPU, PRICES)
def test_two_consecutive_bills_add_up_to_one(
    first: dict[Line, MeteredShare], second: dict[Line, MeteredShare], rest: int, more: int, price: float
) -> None:
    """They do exactly in time, and in money except for the last digit of each."""
    both = {line: first[line].plus(second[line]) for line in first.keys() & second.keys()}
    both = {**first, **second, **both}
    parts = [
        {line: of(each.pays) for each in bill.dataflows() for line in [(each.tenant, each.dataflow)]}
        for bill in (billed(first, rest, price), billed(second, more, price))
    ]
    for each in billed(both, rest + more, price).dataflows():
        line = (each.tenant, each.dataflow or "")
        assert each.pays.cpu_ns == sum(part[line].cpu for part in (first, second) if line in part)
        apart = abs(of(each.pays) - sum(part.get(line, Decimal(0)) for part in parts))
        assert apart < Decimal("0.000003")


def test_missing_millionths_go_to_the_largest_remainders() -> None:
    """Of two missing millionths, one goes to the largest remainder; of equal parts none gets it."""
    price = 3600.0  # A millionth for a microsecond.
    assert {("a", "1"): 1, ("a", "2"): 0, ("a", "3"): 0} == dict(
        (found := amounts(2_000, {("a", "1"): 900, ("a", "2"): 500, ("a", "3"): 500}, rate(price))).lines
    )
    assert (2, 1) == (found.whole, found.overhead)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, ("2026-11-01T00", "2026-11-22T03")),
        (None, "2026-11-01T00:00", ("2026-10-01T00", "2026-11-01T00")),
        ("2026-10-31T23:59", "2026-11-22T02:39", ("2026-10-31T23", "2026-11-22T02")),
        ("2026-11-22T02:40", "2026-12-22T02:39", ("2026-11-22T02", "2026-11-22T03")),
    ],
)
def test_a_bill_covers_whole_hours(since: str | None, until: str | None, expected: tuple[str, str]) -> None:
    """It covers this month so far, or the month that it ends with; the present hour is included if it is reached."""
    bounds = [None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (since, until)]
    found = period(bounds[0], bounds[1], HERE)
    assert expected == tuple(f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H}" for at in (found.since, found.until))
    assert HOUR == found.span


@given(st.lists(st.floats(0.0, HERE + 3 * HOUR), min_size=3, max_size=3).map(sorted))
def test_consecutive_bills_have_each_hour_once(times: list[float]) -> None:
    """One begins where the other ends."""
    first, middle, last = (datetime.fromtimestamp(each, UTC) for each in times)
    one, two, both = period(first, middle, HERE), period(middle, last, HERE), period(first, last, HERE)
    hours = [hour for each in (one, two) for hour in range(each.since, each.until, HOUR)]
    assert list(range(both.since, both.until, HOUR)) == hours
    assert isinstance(both, Interval)


TEXT = st.one_of(st.text(), st.text("=+-@\t\r\n'\"; ,1A\u202e\uff1d").filter(bool))


@given(TEXT, TEXT, st.booleans())
def test_csv_and_bill_agree(name: str, currency: str, complete: bool) -> None:  # noqa: FBT001 - of hypothesis
    """The CSV is read back without the apostrophes that make text harmless; its rows are the measured whole."""
    everybody = {("ann", "d-1"): took(5_000), ("bob", "d-2"): took(7_000)}
    bill = billed(everybody, 123_456_789, 3_600.0, "ann")
    answer = BillAnswer(
        since=NOW,
        until=NOW,
        complete=complete,
        metered_seconds=1.0,
        tenants=bill.tenants(),
        dataflows=tuple(each.model_copy(update={"name": name}) for each in bill.dataflows()),
        whole=bill.totals(),
        currency=currency,
    )
    rows = list(csv.DictReader(io.StringIO(as_csv(answer), newline="")))
    assert list(BILL_COLUMNS) == list(rows[0])
    assert ["dataflow", "others", "overhead"] == [each["kind"] for each in rows]
    assert (name, currency) == (rows[0]["name"].removeprefix("'"), rows[0]["currency"].removeprefix("'"))
    measured = bill.totals().measured
    assert (measured.cpu_ns, measured.amount) == (
        sum(int(each["cpu_ns"]) for each in rows),
        sum(Decimal(each["amount"]) for each in rows),
    )


@given(TEXT)
def test_no_cell_is_a_formula(text: str) -> None:
    """That is so even with leading spaces, which a spreadsheet may strip."""
    assert harmless(text).lstrip()[:1] not in {"=", "+", "-", "@", *"\uff1d\uff0b\uff0d\uff20"}
    assert harmless(text)[:1] not in {"\t", "\r", "\n"}


def test_without_a_price_there_is_no_money() -> None:
    """A bill then has only time, and its CSV has empty cells."""
    bill = billed({("ann", "d-1"): took(5)}, 1, None)
    line: BillLine = bill.dataflows()[0]
    whole: BillWhole = bill.totals()
    found = [line.pays.amount, line.most.amount, whole.measured.amount, whole.others.amount, whole.overhead.amount]
    assert [None] * 5 == found
    assert (5, 6) == (line.pays.cpu_ns, whole.measured.cpu_ns)
    assert 1 == cap_amount(1, 1e-6)


def took(cpu: int) -> MeteredShare:
    alone = CpuEstimate(low=cpu, likely=cpu, high=cpu)
    return MeteredShare(cpu=cpu, alone=alone, saving=CpuEstimate())
