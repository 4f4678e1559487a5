"""Use cases of savings and bills: which interval is meant, who sees what, at which price; and forecasts."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from braid_client.answers.savings import SavingsAnswer, as_csv
from dags.vocabulary import Basis
from manager.problem import InvalidRequest, NotFound
from manager.savings.ledger import HOUR, MINUTE, Interval, Minute, interval, write
from manager.savings.settlement import CpuEstimate, Share, Work
from manager.savings.use_cases import saving
from manager.store.machine_tables import RentalRow
from manager.store.tables import MeteredTenantRow
from manager.use_case import Pricing
from merge import Instance, MeasuredCosts
from merge.work import EVENT_SECONDS
from tests.manager.managers import ANN, BOB, OPERATOR, Manager
from tests.manager.savings.metered_minutes import CORE_MINUTE, minute
from tests.notation import flow

SECOND = 10**9
STEP = CORE_MINUTE // 24


@pytest.fixture
def metered(sqlite: str) -> Iterator[Manager]:
    """Two minutes: in the first ann and bob share, in the second only ann's second dataflow did something."""
    made = Manager(sqlite).lead()
    made.admit("ann", "bob")
    made.register("weather")
    first = [made.submit(each, "s:source > a:map > k:sink") for each in ("ann", "bob", "ann")]
    alone = CpuEstimate(low=CORE_MINUTE // 2, likely=CORE_MINUTE, high=2 * CORE_MINUTE)
    saving = CpuEstimate(low=0, likely=CORE_MINUTE // 2, high=CORE_MINUTE)
    shared = {
        each: Share(
            tenant=who, cpu=CORE_MINUTE // 4, alone=alone, saving=saving, work=Work(done=3 * STEP, alone=6 * STEP)
        )
        for each, who in zip(first[:2], ("ann", "bob"), strict=True)
    }
    work = Work(done=4 * STEP, alone=4 * STEP)
    own = {first[2]: Share(tenant="ann", cpu=CORE_MINUTE // 2, alone=alone, saving=saving, work=work)}
    at = int(time.time()) // MINUTE * MINUTE
    minutes = [minute(at - 2 * MINUTE + number * MINUTE, shares) for number, shares in enumerate((shared, own))]
    with made.store.write() as session:
        assert write(session, "one", minutes)
    yield made
    made.close()


def asked(manager: Manager) -> dict[str, list[str]]:
    """The dataflows of each tenant, oldest first."""
    with manager.committer.looking() as state:
        found = state.running.dataflows.values()
        return {who: [each.id for each in found if each.tenant == who] for who in ("ann", "bob")}


def whole_of(answer: SavingsAnswer) -> int:
    assert answer.whole is not None
    shown = sum(each.share.cpu_ns for each in answer.shares)
    return shown + answer.whole.others.cpu_ns + answer.whole.overhead.cpu_ns


def test_shares_others_and_overhead_are_the_whole(metered: Manager) -> None:
    """Whichever tenants are shown to an operator, all of it adds up to what was measured."""
    for tenant in ("ann", "bob"):
        assert 4 * CORE_MINUTE == whole_of(metered.service.savings.report(OPERATOR, tenant=tenant))
    answer = metered.service.savings.report(OPERATOR)
    assert answer.whole is not None
    assert 4 * CORE_MINUTE == answer.whole.measured.cpu_ns == whole_of(answer)
    (ann, bob), parts = answer.shares, answer.whole.parts
    assert [("ann", CORE_MINUTE * 3 // 4, 0.375), ("bob", CORE_MINUTE // 4, 0.125)] == [
        (each.tenant, each.share.cpu_ns, each.share.cores) for each in (ann, bob)
    ]
    assert None is parts["broker"]
    assert {"jvm": 1.0, "worker": 1.0} == {part: taken.cores for part, taken in parts.items() if taken and taken.cpu_ns}


def test_what_sharing_saved_is_reported_for_everybody_and_for_each(metered: Manager) -> None:
    """A tenant learns of its own; of a dataflow that shares nothing there is no figure of sharing, only of packing."""
    answer, own = metered.service.savings.report(OPERATOR), metered.service.savings.report(ANN)
    assert answer.whole is not None
    assert 1 - 10 / 16 == answer.whole.saved.work_by_sharing
    assert [("ann", 0.3), ("bob", 0.5)] == [(each.tenant, each.saved.work_by_sharing) for each in answer.shares]
    assert (None, [0.3]) == (own.whole, [each.saved.work_by_sharing for each in own.shares])
    shares, alone = sorted(own.dataflows, key=lambda each: each.saved.cores_by_sharing is None)
    assert shares.saved.cores_by_sharing is not None
    assert (0.5, 0.0625) == (shares.saved.work_by_sharing, shares.saved.cores_by_sharing.cores)
    assert (None, None, 0.25) == (
        alone.saved.work_by_sharing,
        alone.saved.cores_by_sharing,
        alone.saved.cores_by_packing.likely,
    )


def test_nothing_is_reported_of_what_was_metered_before_work_was(metered: Manager) -> None:
    """Rows of an earlier version are added up as ever, with later ones."""
    with metered.store.write() as session:
        for row in session.scalars(select(MeteredTenantRow)):
            row.took = row.took[:7]
            row.dataflows = {name: took[:7] for name, took in row.dataflows.items()}
    answer = metered.service.savings.report(OPERATOR, tenant="ann")
    assert [None, None, None] == [each.saved.work_by_sharing for each in (*answer.shares, *answer.dataflows)]
    assert [CORE_MINUTE * 3 // 4] == [each.share.cpu_ns for each in answer.shares]


def test_an_operator_sees_what_separate_execution_would_take(metered: Manager) -> None:
    """What a job for each would take beyond what was measured is what sharing and packing saved, each once."""
    whole = metered.service.savings.report(OPERATOR).whole
    assert whole is not None
    found = [
        (each.low, each.likely, each.high)
        for each in (whole.alone_launched, whole.alone_packed, whole.saved.cores_by_packing)
    ]
    assert [(3.0, 4.0, 5.0), (2.0, 3.0, 4.0), (0.875, 1.875, 2.875)] == found
    assert whole.saved.cores_by_sharing is not None
    assert 4.0 - whole.measured.cores == whole.saved.cores_by_sharing.cores + whole.saved.cores_by_packing.likely


def test_a_tenant_sees_its_own_and_counts(metered: Manager) -> None:
    """Its share, its dataflows and its saving; of others how many there are, and nothing that tells what they take."""
    answer = metered.service.savings.report(ANN)
    assert (None, 2) == (answer.whole, answer.tenants)
    assert ["ann"] == [each.tenant for each in answer.shares]
    assert sorted(asked(metered)["ann"]) == sorted(each.dataflow or "" for each in answer.dataflows)
    (share,) = answer.shares
    assert sum(each.share.cpu_ns for each in answer.dataflows) == share.share.cpu_ns
    assert (1.0, 0.375, 0.4375) == (share.alone.likely, share.share.cores, share.saved.cores_by_packing.likely)
    assert "bob" not in answer.model_dump_json()
    assert asked(metered)["bob"][0] not in answer.model_dump_json()


def test_a_tenant_asks_for_nothing_of_others(metered: Manager) -> None:
    """Another tenant and its dataflows answer as if they did not exist, as those do that do not."""
    (others,) = asked(metered)["bob"]
    for tenant, dataflow in (("bob", None), (None, others), (None, "d-none"), ("carl", None)):
        with pytest.raises(NotFound):
            metered.service.savings.report(ANN, tenant=tenant, dataflow=dataflow)
    for tenant, dataflow in (("carl", None), ("ann", others), (None, "d-none")):
        with pytest.raises(NotFound):
            metered.service.savings.report(OPERATOR, tenant=tenant, dataflow=dataflow)


def test_one_dataflow_is_reported_even_if_it_is_removed(metered: Manager) -> None:
    """To its tenant and to an operator, with its estimate of what it takes alone."""
    (mine,) = asked(metered)["bob"]
    metered.changes.dataflows.remove(mine, who="bob")
    for who in (BOB, OPERATOR):
        answer = metered.service.savings.report(who, dataflow=mine)
        assert [(mine, CORE_MINUTE // 4, 0.5)] == [
            (each.dataflow, each.share.cpu_ns, each.alone.likely) for each in answer.dataflows
        ]


def test_prices_are_reported_where_they_are_set(metered: Manager) -> None:
    """What a core costs in an hour, times what was taken; none where the operator set none."""
    assert [None, None] == [each.share.price for each in metered.service.savings.report(OPERATOR).shares]
    metered.equip(pricing=Pricing(per_core_hour=6.0, currency="EUR"))
    answer = metered.service.savings.report(OPERATOR)
    assert ([0.075, 0.025], 6.0, "EUR") == (
        [each.share.price for each in answer.shares],
        answer.price_per_core_hour,
        answer.currency,
    )
    assert answer.whole is not None
    assert (0.4, 0.6) == (answer.whole.measured.price, answer.whole.alone_packed.price)


def test_what_was_not_metered_is_reported_as_such(metered: Manager) -> None:
    """An interval in which nobody metered anything is answered with nothing, and says so."""
    then = datetime.now(UTC) - timedelta(days=1)
    answer = metered.service.savings.report(OPERATOR, since=then, until=then + timedelta(hours=1))
    assert (0.0, 0, ()) == (answer.metered_seconds, answer.tenants, answer.shares)
    assert answer.whole is not None
    assert (0, 0.0) == (answer.whole.measured.cpu_ns, answer.whole.alone_packed.high)


@pytest.mark.parametrize(
    ("since", "until"), [(1.0, None), (-1.0, -2.0), (0.0, -1.0), (3_600.0, 7_200.0), (-2.0, -2_000_000.0)]
)
def test_an_interval_without_an_end_after_its_beginning_is_refused(
    metered: Manager, since: float, until: float | None
) -> None:
    """Also one that begins in the future; the problem says where and what to do."""
    now = datetime.now(UTC)
    begin, end = (None if hours is None else now + timedelta(hours=hours) for hours in (since, until))
    with pytest.raises(InvalidRequest, match="let `to` be later than `from`"):
        metered.service.savings.report(OPERATOR, since=begin, until=end)


def test_intervals_are_minutes_while_these_are_kept_and_else_hours() -> None:
    """Their bounds are moved apart to those of minutes or hours; without bounds it is the last hour."""
    now = 1_000 * HOUR + 90.0
    at = datetime.fromtimestamp(now, UTC)
    assert Interval(span=MINUTE, since=999 * HOUR + 60, until=1_000 * HOUR + 120) == interval(None, None, now)
    recent = interval(at - timedelta(minutes=100, seconds=20), at - timedelta(seconds=40), now)
    assert Interval(span=MINUTE, since=1_000 * HOUR - 99 * 60, until=1_000 * HOUR + 60) == recent
    old = interval(at - timedelta(hours=3), at - timedelta(hours=1), now)
    assert Interval(span=HOUR, since=997 * HOUR, until=1_000 * HOUR) == old
    assert interval(datetime(1, 1, 1, tzinfo=UTC), None, now).since == 0
    assert interval(at, datetime(9999, 1, 1, tzinfo=UTC), now).until == 1_000 * HOUR + 120


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
def metered_hours(sqlite: str) -> Iterator[Manager]:
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


def test_a_bill_tells_an_operator_everything(metered_hours: Manager) -> None:
    """The dataflows of all tenants, removed ones too, with their names; the overhead; and all of it adds up."""
    bill = metered_hours.service.bills.bill(OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=2))
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


def test_a_tenant_reads_its_own_lines_as_the_operator_does(metered_hours: Manager) -> None:
    """Digit by digit, whether it or the operator asks for it alone; and nothing of others."""
    until = BEGIN + timedelta(hours=2)
    everybody = metered_hours.service.bills.bill(OPERATOR, since=BEGIN, until=until)
    for who, name in ((ANN, "ann"), (BOB, "bob")):
        own = metered_hours.service.bills.bill(who, since=BEGIN, until=until)
        lines = [each for each in everybody.dataflows if each.tenant == name]
        assert (None, lines) == (own.whole, list(own.dataflows))
        assert [each for each in everybody.tenants if each.tenant == name] == list(own.tenants)
        asked = metered_hours.service.bills.bill(OPERATOR, since=BEGIN, until=until, tenant=name)
        assert (own.dataflows, True) == (asked.dataflows, asked.whole is not None)
    text = metered_hours.service.bills.bill(BOB, since=BEGIN, until=until).model_dump_json()
    assert "ann" not in text


def test_rented_machines_are_billed_by_started_hours_and_shared_as_cpu_is(metered_hours: Manager) -> None:
    """An hour is in the bill in which it began; the operator bears what no dataflow took; a tenant sees its part."""
    at = BEGIN.timestamp()
    rentals: list[dict[str, Any]] = [
        {"machine_class": "small", "ordered": at - 1800, "ended": at + 5400, "price": 0.3},
        {"machine_class": "small", "ordered": at + 60, "ended": at + 120, "price": 0.4},
        {"machine_class": "large", "ordered": at + 60, "price": 2.0},
        {"machine_class": "large", "ordered": at - 7200, "ended": at - 5400, "price": 2.0},
    ]
    with metered_hours.store.write() as session:
        for number, rental in enumerate(rentals):
            session.add(RentalRow(machine=f"added-{number}", cores=1, **rental))
    bills = metered_hours.service.bills
    one, two, both = (
        bills.bill(OPERATOR, since=BEGIN + timedelta(hours=first), until=BEGIN + timedelta(hours=last))
        for first, last in ((0, 1), (1, 2), (0, 2))
    )
    found = [
        [(kind.machine_class, kind.machines, kind.hours, kind.amount) for kind in bill.whole.rented]
        for bill in (one, two, both)
        if bill.whole is not None
    ]
    small, large = Decimal("0.700000"), Decimal("2.000000")
    assert [
        [("large", 1, 1, large), ("small", 2, 2, small)],
        [("large", 1, 1, large)],
        [("large", 1, 2, 2 * large), ("small", 2, 2, small)],
    ] == found
    assert one.whole is not None
    # Of two core minutes each took a third of one.
    assert {"ann": Decimal("0.450000"), "bob": Decimal("0.450000")} == {
        each.tenant: each.rented for each in one.tenants
    }
    assert large + small == one.whole.rented_overhead + sum(each.rented for each in one.dataflows)
    own = bills.bill(ANN, since=BEGIN, until=BEGIN + timedelta(hours=1))
    assert (None, [Decimal("0.450000")]) == (own.whole, [each.rented for each in own.tenants])
    assert "large" not in own.model_dump_json()
    assert "0.450000" in as_csv(own)


def test_a_bill_that_more_may_come_to_says_so(metered_hours: Manager) -> None:
    """What was metered later shows that nothing is missing; without it, the last minutes may be on their way."""
    assert metered_hours.service.bills.bill(ANN, since=BEGIN, until=BEGIN + timedelta(hours=29)).complete
    assert not metered_hours.service.bills.bill(ANN, since=BEGIN, until=THIS_HOUR).complete
    assert not metered_hours.service.bills.bill(ANN, since=BEGIN).complete


def test_a_tenant_asks_for_no_bill_of_others(metered_hours: Manager) -> None:
    """Another tenant answers as one does that does not exist."""
    for who, tenant in ((ANN, "bob"), (ANN, "carl"), (OPERATOR, "carl")):
        for ask in (metered_hours.service.bills.bill, metered_hours.service.savings.series):
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
def test_an_interval_of_no_use_is_refused(metered_hours: Manager, ask: str, since: int, until: int, code: str) -> None:
    """One that is empty, and one that would take too long; with what to do."""
    bounds = {"since": THIS_HOUR + timedelta(hours=since), "until": THIS_HOUR + timedelta(hours=until)}
    asks: dict[str, Callable[..., object]] = {
        "bill": metered_hours.service.bills.bill,
        "series": metered_hours.service.savings.series,
    }
    with pytest.raises(InvalidRequest) as raised:
        asks[ask](ANN, **bounds)
    assert [code] == [each.code for each in raised.value.errors]


def test_steps_that_are_too_many_are_refused(metered_hours: Manager) -> None:
    """A long interval by short steps: the problem points at the step."""
    with pytest.raises(InvalidRequest) as raised:
        metered_hours.service.savings.series(ANN, since=THIS_HOUR - timedelta(days=30), step=MINUTE)
    assert [("/query/step", "too-many-points")] == [(each.pointer, each.code) for each in raised.value.errors]


def test_a_series_tells_an_operator_the_whole(metered_hours: Manager) -> None:
    """Measured, launched and packed for each hour that was metered; the share of a tenant where it is asked for."""
    series = metered_hours.service.savings.series(OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=3), step=HOUR)
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
    asked = metered_hours.service.savings.series(
        OPERATOR, since=BEGIN, until=BEGIN + timedelta(hours=3), step=HOUR, tenant="bob"
    )
    assert [CORE_MINUTE // 3, 0, None] == [each.share and each.share.cpu_ns for each in asked.points]


def test_a_series_tells_a_tenant_its_own(metered_hours: Manager) -> None:
    """Its share and what it would take alone; of the whole nothing."""
    series = metered_hours.service.savings.series(BOB, since=BEGIN, until=BEGIN + timedelta(hours=2), step=HOUR)
    assert "bob" == series.tenant
    assert {(None, None, None)} == {(each.measured, each.alone_launched, each.alone_packed) for each in series.points}
    first, second = series.points
    assert first.share is not None
    assert first.alone is not None
    assert second.share is not None
    assert (CORE_MINUTE // 3, 1.0, 0) == (first.share.cpu_ns, first.alone.likely, second.share.cpu_ns)


CHAIN = flow("s:source > a:map > b:count > k:sink")
NOTHING = flow("s:source > k:sink")


def instances(*running: str) -> list[Instance | None]:
    """Return the instances of the chain, of whose tasks these run."""
    found: list[Instance | None] = [None] * len(CHAIN.tasks)
    for task in running:
        found[CHAIN.places[task]] = Instance(CHAIN.places[task] + 1)
    return found


def test_only_running_tasks_save_something() -> None:
    """New tasks save nothing, and a source does no work."""
    measured = MeasuredCosts(busy={CHAIN.places["a"] + 1: 0.05, CHAIN.places["s"] + 1: 9.0})
    found = saving(CHAIN, instances("s", "a"), measured, opened=1, job=0.06)
    assert (0.05, 0.0) == (found.cores_by_sharing, found.cores_by_packing)
    assert (2, 4) == (found.tasks, found.of_tasks)
    assert {Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 0} == found.rests_on
    assert {Basis.MEASURED: 1, Basis.TYPE: 0, Basis.ASSUMED: 2} == found.work_rests_on


@pytest.mark.parametrize(("opened", "cores"), [(0, 0.06), (1, 0.0), (2, 0.0)])
def test_a_dataflow_that_opens_no_job_saves_its_batches(opened: int, cores: float) -> None:
    """By packing, even if no task is reused; then nothing is said of sharing."""
    found = saving(CHAIN, instances(), MeasuredCosts(), opened=opened, job=0.06)
    assert (cores, None, None) == (found.cores_by_packing, found.cores_by_sharing, found.work_by_sharing)


@given(st.lists(st.sampled_from(["a", "b", "k"]), unique=True), st.integers(0, 2))
def test_a_saving_is_the_sum_over_the_reused_tasks(reused: list[str], opened: int) -> None:
    """Each reused task adds its load, and counts for its kind of estimate."""
    measured = MeasuredCosts(busy={CHAIN.places["b"] + 1: 0.5}, by_type={"map": 0.001}, rates={"weather": 10.0})

    def cores(*running: str) -> float:
        return saving(CHAIN, instances(*running), measured, opened=opened, job=0.06).cores_by_sharing or 0.0

    assert sum(map(cores, reused)) == pytest.approx(cores(*reused))
    found = saving(CHAIN, instances(*reused), measured, opened=opened, job=0.06)
    assert len(reused) == sum(found.rests_on.values())


def test_the_work_saved_is_the_part_of_reused_tasks() -> None:
    """New tasks are estimated from their type and their events."""
    a = CHAIN.places["a"] + 1
    measured = MeasuredCosts(
        busy={a: 0.5}, by_type={"count": 0.001}, rates={"weather": 100.0}, selectivity={a: Fraction(4)}
    )
    found = saving(CHAIN, instances("s", "a"), measured, opened=1, job=0.06)
    sink = 400 * EVENT_SECONDS
    assert round(0.5 / (0.5 + 0.4 + sink), 6) == found.work_by_sharing
    assert {Basis.MEASURED: 1, Basis.TYPE: 1, Basis.ASSUMED: 1} == found.work_rests_on


def test_without_work_no_part_of_it_is_saved() -> None:
    """Events that cost nothing leave nothing to save."""
    measured = MeasuredCosts(by_type={"sink": 0.0}, rates={"weather": 10.0})
    assert saving(NOTHING, [None, None], measured, opened=1, job=0.06).work_by_sharing is None
