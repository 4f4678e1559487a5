"""Use cases of savings: which interval is meant, who sees what, and at which price."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from manager.answers.savings import SavingsAnswer
from manager.problem import InvalidRequest, NotFound
from manager.savings.ledger import HOUR, MINUTE, Interval, interval, write
from manager.savings.settlement import CpuEstimate, Share, Work
from manager.store.tables import MeteredTenantRow
from manager.use_case import Pricing
from tests.manager.cases.metered_minutes import CORE_MINUTE, minute
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
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
